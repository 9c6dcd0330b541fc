"""Noeta: a durable runtime for agents, where every task has one writer and every decision is in its log.

The parts are imported by name: `noeta.core` decides, `noeta.backends` records, `noeta.runtime` drives.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
