"""Nothing that was begun is left hanging: model calls and tool starts come to an end that the log shows.

A model call ends with its reply, its abandonment (the seal of a takeover), a failed turn or the terminal entry.
A tool start ends with its result, or with the next start of the same call by a later owner; a seal leaves it to
recovery, and a failed turn or the terminal entry gives it up. What is open where the log stops is in flight, not
yet wrong: whether it may rest there is ``never-stuck``'s question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import kind
from noeta.core.events import (
    Ending,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)


@dataclass(slots=True)
class _Open:
    """What is begun and not ended. ``asked``: calls of any reply so far; ``parked``: sealed tool starts."""

    model: LogEntry | None = None
    tools: dict[str, LogEntry] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    finished: dict[str, LogEntry] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """One pass; what is open is carried along."""
    begun = _Open()
    for entry in task.log:
        tally.saw(isinstance(entry.event, ModelCalled | ToolStarted))
        yield from _next(task, begun, entry)


def _next(task: TaskEvidence, begun: _Open, entry: LogEntry) -> Iterator[Finding]:
    match entry.event:
        case ModelCalled():
            yield from _model_called(task, begun, entry)
        case ModelReplied():
            if begun.model is None:
                yield Finding(
                    "reply-uncalled", f"{task.task} has a reply at seq {entry.seq} to no open model call", (entry,)
                )
            begun.model = None
            begun.asked.update(call.id for call in entry.event.calls)
        case ToolStarted(call_id=call_id):
            yield from _tool_started(task, begun, entry, call_id)
        case ToolFinished(call_id=call_id):
            yield from _tool_finished(task, begun, entry, call_id, entry.event.is_error)
        case StepAttemptAbandoned():
            begun.model = None
            begun.parked.update(begun.tools)
        case TurnFailed():
            begun.model = None
            begun.tools.clear()
        case TaskSuspended() | TaskWoken():
            yield from _left_open(task, begun, entry)
        case _ if isinstance(entry.event, Ending):
            begun.model = None
            begun.tools.clear()
        case _:
            pass


def _model_called(task: TaskEvidence, begun: _Open, entry: LogEntry) -> Iterator[Finding]:
    before = begun.model
    if before is not None:
        yield Finding(
            "call-unanswered",
            f"{task.holder(before.epoch)} called the model for {task.task} at seq {before.seq} under epoch "
            f"{before.epoch}; but {task.holder(entry.epoch)} called it again at seq {entry.seq} under epoch "
            f"{entry.epoch} with neither a reply nor a seal in between",
            (before, entry),
        )
    yield from _tools_left(task, begun, entry)
    begun.model = entry


def _tool_started(task: TaskEvidence, begun: _Open, entry: LogEntry, call_id: str) -> Iterator[Finding]:
    before = begun.tools.get(call_id)
    if call_id not in begun.asked:
        yield Finding(
            "unknown-call", f"seq {entry.seq} of {task.task} starts call {call_id}, which no reply asked for", (entry,)
        )
    if call_id in begun.finished:
        yield Finding(
            "started-after-end",
            f"seq {entry.seq} of {task.task} starts call {call_id} again, which had its result at seq "
            f"{begun.finished[call_id].seq}",
            (begun.finished[call_id], entry),
        )
    elif before is not None and before.epoch >= entry.epoch:
        yield Finding(
            "start-unfinished",
            f"{task.holder(entry.epoch)} started call {call_id} of {task.task} at seq {before.seq} and again at seq "
            f"{entry.seq}, under the same epoch {entry.epoch}, with no result in between",
            (before, entry),
        )
    begun.tools[call_id] = entry
    begun.parked.discard(call_id)
    begun.started.add(call_id)


def _tool_finished(
    task: TaskEvidence, begun: _Open, entry: LogEntry, call_id: str, is_error: bool
) -> Iterator[Finding]:
    before = begun.finished.get(call_id)
    if before is not None:
        yield Finding(
            "finished-twice",
            f"call {call_id} of {task.task} has a result at seq {before.seq} and again at seq {entry.seq}",
            (before, entry),
        )
    elif call_id not in begun.asked:
        yield Finding(
            "unknown-call", f"seq {entry.seq} of {task.task} ends call {call_id}, which no reply asked for", (entry,)
        )
    elif call_id not in begun.started and not is_error:
        # A call may be refused before it starts (an unknown tool, a gate): then its result is an error.
        yield Finding(
            "finished-unstarted",
            f"call {call_id} of {task.task} has its result at seq {entry.seq} but was never started",
            (entry,),
        )
    begun.finished.setdefault(call_id, entry)
    begun.tools.pop(call_id, None)
    begun.parked.discard(call_id)


def _left_open(task: TaskEvidence, begun: _Open, entry: LogEntry) -> Iterator[Finding]:
    """A task rests, or begins a new turn, only when nothing is half done."""
    if begun.model is not None:
        yield Finding(
            "call-unanswered",
            f"{task.task} called the model at seq {begun.model.seq}; but seq {entry.seq} {kind(entry.event)} follows "
            f"with neither a reply nor a seal in between",
            (begun.model, entry),
        )
        begun.model = None
    yield from _tools_left(task, begun, entry)


def _tools_left(task: TaskEvidence, begun: _Open, entry: LogEntry) -> Iterator[Finding]:
    for call_id, started in begun.tools.items():
        if call_id not in begun.parked:
            yield Finding(
                "start-unfinished",
                f"{task.holder(started.epoch)} started call {call_id} of {task.task} at seq {started.seq}; but seq "
                f"{entry.seq} {kind(entry.event)} follows with no result in between",
                (started, entry),
            )
    begun.tools.clear()
    begun.parked.clear()


LAW = Law(
    key="calls-pair",
    title="Calls pair",
    statement=(
        "Every ModelCalled is followed by its reply, its abandonment or a terminal entry; every ToolStarted likewise."
    ),
    source="One writer and crash recovery (the log invariants of make cluster)",
    reads="the log",
    codes={
        "call-unanswered": "a model call was followed by another one, or by a rest, with nothing in between",
        "reply-uncalled": "a reply to no open model call",
        "start-unfinished": "a tool start was followed by another step with no result in between",
        "started-after-end": "a finished call was started again",
        "finished-twice": "a call has two results",
        "finished-unstarted": "a call that was never started has a result that is no error",
        "unknown-call": "a start or result of a call that no reply asked for",
    },
    check=check,
)
