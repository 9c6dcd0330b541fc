"""The factories of the stores in this repository; they are part of the package (`noeta/testing/factories.py`)."""

from __future__ import annotations

from noeta.testing.factories import MemoryFactory, PostgresClock, PostgresFactory, SqliteFactory

__all__ = ["MemoryFactory", "PostgresClock", "PostgresFactory", "SqliteFactory"]
