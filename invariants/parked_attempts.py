"""An attempt that is parked for a person: its seal, its notice and its rest are one, for the law ``calls-pair``.

They are one commit, so that a crash leaves all of them or none. In between stand only what was looked up, and what
became of background jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import LogEntry, TaskEvidence
from invariants.law import Finding
from invariants.wording import kind
from noeta.core import texts
from noeta.core.events import (
    CronRemoved,
    CronSet,
    JobEnded,
    JobLost,
    JobStarted,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskSuspended,
    ToolFinished,
    ToolParked,
)

_WITHIN = ToolFinished | ToolParked | JobStarted | JobEnded | JobLost | CronSet | CronRemoved


def torn(task: TaskEvidence) -> Iterator[Finding]:
    """Each seal that parks beside what must follow it, and each such rest and notice beside its seal."""
    seal: LogEntry | None = None
    notices = 0
    for entry in task.log:
        if seal is not None and entry.epoch != seal.epoch:
            yield _torn(task, seal, entry, f"seq {entry.seq} follows under epoch {entry.epoch}")
            seal = None
        match entry.event:
            case StepAttemptAbandoned(reason=texts.ATTEMPT_PARKED):
                if seal is not None:
                    yield _torn(task, seal, entry, f"seq {entry.seq} seals again")
                seal, notices = entry, 0
            case NoticeGiven():
                notices += 1
                if seal is None:
                    yield _torn(task, entry, entry, "no seal comes before it")
            case TaskSuspended(reason=texts.ATTEMPT_PARKED):
                if seal is None or notices != 1:
                    found = "no seal comes before it" if seal is None else f"{notices} notices come before it"
                    yield _torn(task, seal or entry, entry, found)
                seal = None
            case event if seal is not None and not isinstance(event, _WITHIN):
                yield _torn(task, seal, entry, f"seq {entry.seq} {kind(event)} follows")
                seal = None
            case _:
                pass
    if seal is not None:
        yield _torn(task, seal, task.log[-1], "its log stops there")


def _torn(task: TaskEvidence, first: LogEntry, entry: LogEntry, found: str) -> Finding:
    return Finding(
        "park-torn",
        f"seq {first.seq} {kind(first.event)} of {task.task} is of an attempt that is parked; but {found}; so seal, "
        f"notice and rest are not one",
        (first,) if first is entry else (first, entry),
    )
