"""What simulated workers log goes to nobody: an execution is judged by its evidence."""

from __future__ import annotations

import logging


def silence() -> None:
    """Also the initializer of every process that runs executions for another."""
    logging.getLogger("noeta").setLevel(logging.CRITICAL + 1)
