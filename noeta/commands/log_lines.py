"""How a worker's log looks, and how much of it there is: at most one line a second below the level of errors."""

from __future__ import annotations

import logging
import sys
import time

from noeta.runtime.reliability import ONCE

__all__ = ["ONCE", "OneLineASecond", "set_up_log"]


class OneLineASecond(logging.Filter):
    """Lets one record a second through, with a count of those left out; errors, and what comes once, always pass."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at = float("-inf")
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR or getattr(record, "comes_once", False):
            return True
        now = time.monotonic()
        if now - self._said_at < 1.0:
            self._left_out += 1
            return False
        if self._left_out:
            record.msg = f"{record.getMessage()} ({self._left_out} lines left out before this one)"
            record.args = ()
        self._said_at, self._left_out = now, 0
        return True


def set_up_log(level: int = logging.INFO) -> None:
    """One line a record on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.addFilter(OneLineASecond())
    logging.basicConfig(level=level, handlers=[handler])
