"""A clock that only moves when a test says so, for stores that ask this process for the time."""

from __future__ import annotations

import threading
from typing import Final

STARTED: Final = 1_700_000_000.0
"""Where every controlled clock begins: seconds since the epoch."""


class ManualClock:
    """Implements ``noeta.testing.store_contract.Clock`` in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._micros = round(STARTED * 1_000_000)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._micros / 1_000_000

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._micros += round(seconds * 1_000_000)
