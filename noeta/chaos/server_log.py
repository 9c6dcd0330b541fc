"""What our own server's log tells of a storm: deadlocks, which the lock order rules out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEADLOCK: Final = b"ERROR:  deadlock detected"
"""How the server words 40P01 (its messages are not translated: the template is made with the C locale)."""


def deadlocks(log: Path) -> int:
    """How often a transaction was aborted to end a deadlock, in the whole life of this server."""
    with log.open("rb") as lines:
        return sum(DEADLOCK in line for line in lines)
