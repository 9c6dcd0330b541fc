"""The bounds that faults can push a task into, and where a log shows that one was hit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from noeta.core import texts
from noeta.core.events import (
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.task import TAKEOVERS_MAX
from noeta.core.tool import MAX_ATTEMPTS


class Bound(StrEnum):
    """The bounds that faults can push a task into."""

    MODEL_ATTEMPTS = "model_attempts"
    UNKNOWN_CALL = "unknown_call"
    TAKEOVERS = "takeovers"


@dataclass(frozen=True, slots=True)
class BoundHit:
    """A bound that the log shows was hit, at ``entry``, after attempts under ``epochs``; ``needed`` of them must
    have been struck, each under an epoch of its own."""

    bound: Bound
    entry: LogEntry
    epochs: tuple[int, ...]
    needed: int


@dataclass(slots=True)
class _Open:
    """Attempts since the last answer. ``running``: calls that were started and have no result."""

    model: list[int] = field(default_factory=list)
    starts: dict[str, list[int]] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)


def bounds_hit(task: TaskEvidence, run: RunFacts) -> Iterator[BoundHit]:
    """The bounds that the log shows were hit, each with the attempts that led there."""
    seen = _Open()
    before_epoch = 0
    for entry in task.log:
        match entry.event:
            case ModelCalled():
                seen.model.append(entry.epoch)
            case ModelReplied():
                seen.model.clear()
                seen.tools |= {call.id: call.tool for call in entry.event.calls}
            case StepAttemptAbandoned(reason=texts.WORKER_STOPPED):
                seen.model = seen.model[:-1]  # a worker that stopped gave it up alive
            case TaskSuspended(reason=reason):
                for call in seen.running if reason == texts.ATTEMPT_PARKED else ():
                    starts = tuple(seen.starts[call])
                    yield BoundHit(Bound.UNKNOWN_CALL, entry, starts, len(starts))  # a person is told, not the model
                seen.model.clear()
                seen.running.clear()
            case TaskWoken():
                seen.model.clear()
            case ToolStarted():
                seen.starts.setdefault(entry.event.call_id, []).append(entry.epoch)
                seen.running.add(entry.event.call_id)
            case ToolParked():
                seen.running.discard(entry.event.call_id)
            case ToolFinished(source=source):
                seen.running.discard(entry.event.call_id)
                if source == "unknown":
                    starts = tuple(seen.starts.get(entry.event.call_id, ()))
                    tool = run.tools.get(seen.tools.get(entry.event.call_id, ""))
                    safe = tool is not None and tool.retry_safe
                    yield BoundHit(Bound.UNKNOWN_CALL, entry, starts, MAX_ATTEMPTS if safe else len(starts))
            case TurnFailed() | TaskFailed():
                yield from _failure(entry, entry.event, seen, before_epoch)
                seen.model.clear()
            case _:
                pass
        before_epoch = entry.epoch


def _failure(entry: LogEntry, failed: TurnFailed | TaskFailed, seen: _Open, before_epoch: int) -> Iterator[BoundHit]:
    # A provider that cannot answer fails a turn with the same reason; only the message tells the bound.
    if failed.message == texts.MODEL_CALL_INTERRUPTED and seen.model:
        yield BoundHit(Bound.MODEL_ATTEMPTS, entry, tuple(seen.model), texts.MAX_MODEL_ATTEMPTS)
    if failed.reason == texts.TOO_MANY_TAKEOVERS:
        yield BoundHit(Bound.TAKEOVERS, entry, tuple(range(before_epoch, entry.epoch)), TAKEOVERS_MAX)
