"""Which verb of the store a statement is, by its text: every write verb is one call of a function with a number.

Reads call no function of the store's, so whatever calls one writes; also a function that is newer than this file.
"""

from __future__ import annotations

import re
from typing import Final

from noeta.chaos.schedule import ANY_COMMIT

TASK_FIRST: Final = frozenset(
    {"create", "append", "release", "resume", "fail", "post", "wake", "cancel", "put_snapshot"}
)
"""Verbs whose first value is the id of their task."""

PROCESS_WIDE: Final = "renew"
"""The verb that speaks of every claim of its process."""

_CALL: Final = re.compile(r"\bFROM\s+(?:\"(?:[^\"]|\"\")+\"|\w+)\.([a-z_]+)_\d+\s*\(", re.IGNORECASE)
_COMMIT: Final = re.compile(r"\s*(?:COMMIT|END)\b", re.IGNORECASE)


def verb_of(statement: str) -> str | None:
    """The write verb that this statement calls; ``commit`` for one that ends a transaction; None: anything else."""
    found = _CALL.search(statement)
    if found is not None:
        return found.group(1).lower()
    return ANY_COMMIT if _COMMIT.match(statement) else None
