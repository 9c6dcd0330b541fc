"""What came of the tasks of one execution, read off their logs: what a user's check asserts over.

Faults may change some of it without anything being wrong: how often a call was started, who answered it, and, for a
tool that must not be run again, whether anybody can tell its outcome. These stand here by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from noeta.core.events import (
    Entry,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.ids import idempotency_key

Status = Literal["completed", "failed", "cancelled", "waiting", "unfinished"]
Ended = Literal["result", "error", "recovered", "unknown", "open"]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. ``starts``: how often the tool was started for it, over all workers.

    ``ended``: with a ``result`` or an ``error`` of a run; ``recovered`` by the tool's own look-up; ``unknown``, which
    the model was told; or still ``open`` (its turn was cancelled, or failed).
    """

    task: str
    id: str
    tool: str
    input: Any
    starts: int = 0
    ended: Ended = "open"
    output: str = ""

    @property
    def idempotency_key(self) -> str:
        """What its tool saw as ``ctx.idempotency_key``."""
        return idempotency_key(self.task, self.id)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What came of one task.

    Attributes:
        answer: the last answer; None: there is none.
        answers: those of all turns, in order.
        reason: why it failed or was cancelled; empty otherwise.
        failures: the reasons of the turns that failed.
        calls: every tool call of the model, in order.
        log: every entry.
    """

    id: str
    status: Status
    answer: str | None
    answers: tuple[str, ...]
    reason: str
    failures: tuple[str, ...]
    calls: tuple[Call, ...]
    log: tuple[Entry, ...]

    @property
    def unknown(self) -> tuple[Call, ...]:
        """The calls whose outcome nobody could tell: their effect was had once, or not at all."""
        return tuple(call for call in self.calls if call.ended == "unknown")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of every task, by id: ``outcome["order-1"]``."""

    tasks: Mapping[str, TaskOutcome]

    def __getitem__(self, task: str) -> TaskOutcome:
        if task not in self.tasks:
            raise KeyError(f"there is no task {task!r}, only {', '.join(sorted(self.tasks))}")
        return self.tasks[task]

    def completed(self, task: str) -> bool:
        """Whether this task ended well. An interactive one does not end: it is ``waiting``."""
        return self[task].status == "completed"

    def is_certain(self, task: str) -> bool:
        """Whether the outcome of each of its calls is known, so that it must have had exactly its effects."""
        return all(call.ended not in ("unknown", "open") for call in self[task].calls)

    @property
    def statuses(self) -> dict[str, Status]:
        """By task."""
        return {name: task.status for name, task in self.tasks.items()}

    @property
    def answers(self) -> dict[str, str | None]:
        """The last answer of each task."""
        return {name: task.answer for name, task in self.tasks.items()}

    def call(self, key: str) -> Call | None:
        """The call with this idempotency key."""
        return next((c for task in self.tasks.values() for c in task.calls if c.idempotency_key == key), None)


def outcome_of(logs: Mapping[str, Sequence[Entry]]) -> Outcome:
    """What these logs say came of their tasks."""
    return Outcome({task: _task_outcome(task, log) for task, log in sorted(logs.items())})


def _task_outcome(task: str, log: Sequence[Entry]) -> TaskOutcome:
    answers: list[str] = []
    failures: list[str] = []
    status: Status = "unfinished"
    reason = ""
    for entry in log:
        match entry.event:
            case TaskSuspended(answer=answer):
                status = "waiting"
                answers += [answer] if answer is not None else []
            case TaskCompleted(answer=answer):
                status = "completed"
                answers += [answer] if answer is not None else []
            case TurnFailed():
                failures.append(entry.event.reason)
            case TaskFailed():
                status, reason = "failed", entry.event.reason
            case TaskCancelled():
                status, reason = "cancelled", entry.event.reason
            case _:
                status = "unfinished"
    answer = answers[-1] if answers else None
    return TaskOutcome(task, status, answer, tuple(answers), reason, tuple(failures), _calls(task, log), tuple(log))


def _calls(task: str, log: Sequence[Entry]) -> tuple[Call, ...]:
    asked: dict[str, tuple[str, Any]] = {}
    starts: dict[str, int] = {}
    finished: dict[str, ToolFinished] = {}
    for entry in log:
        match entry.event:
            case ModelReplied(calls=calls):
                asked |= {call.id: (call.tool, call.input) for call in calls}
            case ToolStarted(call_id=call_id, start=start):
                starts[call_id] = start
            case ToolFinished(call_id=call_id) as event:
                finished[call_id] = event
            case _:
                pass
    return tuple(
        Call(task, id, tool, input, starts.get(id, 0), *_ended(finished.get(id))) for id, (tool, input) in asked.items()
    )


def _ended(finished: ToolFinished | None) -> tuple[Ended, str]:
    if finished is None:
        return "open", ""
    match finished.source:
        case "unknown":
            return "unknown", finished.output
        case "recovered":
            return "recovered", finished.output
        case _:
            return ("error" if finished.is_error else "result"), finished.output
