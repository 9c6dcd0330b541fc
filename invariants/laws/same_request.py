"""A model call made again in an open turn sends the same bytes.

The request is built from the log, and the log has not changed: another hash means that a worker folds
differently, or that something was taken into an open turn, or told in it. The one excuse is an engine (instructions,
tools) that changed between the two owners, and then the entry says so by its ``engine_hash``. Seen are the repeats: a
call that was never made again has nothing beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import kind
from noeta.core.events import (
    CronFired,
    JobEnded,
    JobLost,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskSuspended,
    TaskWoken,
    TurnFailed,
)


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Each model call beside the one it repeats."""
    first: LogEntry | None = None
    before: ModelCalled | None = None
    taken: LogEntry | None = None
    for entry in task.log:
        match entry.event:
            case ModelCalled() as again:
                if first is not None and before is not None:
                    tally.saw()
                    if again.request_hash != before.request_hash and again.engine_hash == before.engine_hash:
                        yield _other_request(task, first, entry, taken)
                first, before, taken = entry, again, None
            case MessageTaken() | JobEnded() | JobLost() | CronFired() if first is not None:
                taken = entry
            case ModelReplied() | TurnFailed() | TaskSuspended() | TaskWoken():
                first = None
            case _:
                pass


def _other_request(task: TaskEvidence, first: LogEntry, again: LogEntry, taken: LogEntry | None) -> Finding:
    cause = ""
    if taken is not None:
        cause = f" (seq {taken.seq} {kind(taken.event)} came into the open turn)"
    return Finding(
        "other-request",
        f"{task.holder(first.epoch)} called the model for {task.task} at seq {first.seq} under epoch {first.epoch}; "
        f"but {task.holder(again.epoch)} repeated the call at seq {again.seq} under epoch {again.epoch} with another "
        f"request{cause}, and the same engine",
        (first, again) if taken is None else (first, taken, again),
    )


LAW = Law(
    key="same-request",
    title="The same request",
    statement=(
        "A model call made again in an open turn sends the same bytes, or its entry says why not (code or pins "
        "changed)."
    ),
    source="One writer and crash recovery (a model call cut short)",
    reads="model calls of the log that were made again",
    codes={"other-request": "a repeated model call has another request hash and the same engine"},
    check=check,
)
