"""The names of all yield points, so that a search can say which of them it never struck.

A test compares this list with the calls of ``point`` in the source.
"""

from __future__ import annotations

from typing import Final

from noeta.backends.stores.around import READ_VERBS, WRITE_VERBS

SIDES: Final = ("before", "after")

STORE_POINTS: Final = tuple(f"{verb}.{side}" for verb in (*WRITE_VERBS, *READ_VERBS) for side in SIDES)
"""Around every call of a process to its store: "not sent" and "landed, reply lost"."""

CODE_POINTS: Final = (
    "model.before",
    "model.after",
    "recover.call",
    "claim.adopted",
    "tool.before_journal",
    "tool.after_journal",
)
"""What the runtime, and the scripted tools, name themselves."""

WAIT: Final = "wait"
WAIT_ANY: Final = "wait_any"
SPAWN: Final = "spawn"
WORLD_POINTS: Final = (WAIT, WAIT_ANY, SPAWN)
"""The yield points that are not named by the code under test, and that no real process has."""

JOB_STARTING: Final = "job.before_start"
JOB_STARTED: Final = "job.after_start"
JOB_POINTS: Final = (JOB_STARTING, JOB_STARTED)
"""Around the start of a background job, whose record is durable before: named by the simulator's own jobs."""

REGISTERED: Final = (*STORE_POINTS, *CODE_POINTS, *WORLD_POINTS, *JOB_POINTS)

_NOT_CALLED: Final = (
    *("wake", "append_many", "task"),
    *("put_content", "get_content", "put_snapshot", "get_snapshot"),
)
UNUSED: Final = tuple(f"{verb}.{side}" for verb in _NOT_CALLED for side in SIDES)
"""Points of verbs that neither a worker nor a client of this version calls at a yield point."""
