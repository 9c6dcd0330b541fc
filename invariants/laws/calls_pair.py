"""Nothing that was begun is left hanging: model calls and tool starts come to an end that the log shows.

A model call ends with its reply, its abandonment (the seal of a takeover), a failed turn or the terminal entry.
A tool start ends with its result, or with the next start of the same call by a later owner, with the same input; a seal
leaves it to recovery, or with a notice and a rest to a person, and a failed turn or the terminal entry gives it up. A
call that was parked instead has its result from the wake that it waits for, and from nothing else; a failed turn, an
order to stop and the terminal entry give it up, too. A call that a gate asks a person about waits before its start: it
starts if it was approved, with what was approved, and otherwise ends denied and unstarted.
What is open where the log stops is in flight, not yet wrong: whether it may rest there is ``never-stuck``'s question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.parked_attempts import torn
from invariants.waits import approves
from invariants.wording import kind
from noeta.core.events import (
    ApprovalAsked,
    Ending,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.wake import ControlReceived, Item, WakeCondition, matches_wake


@dataclass(slots=True)
class _Parked:
    """A call that waits. ``woken``: what it waits for has come; of an approval, that was something else."""

    entry: LogEntry
    wake_on: WakeCondition
    woken: bool = False

    @property
    def source(self) -> str:
        """What its result must say of where it comes from."""
        return "denied" if isinstance(self.entry.event, ApprovalAsked) else "woken"


@dataclass(slots=True)
class _Open:
    """What is begun and not ended. ``asked``: calls of any reply so far; ``sealed``: tool starts left to recovery;
    ``parked``: calls that wait for their answer, in order; ``inputs``: what each call runs with, and where that is
    said."""

    model: LogEntry | None = None
    tools: dict[str, LogEntry] = field(default_factory=dict)
    sealed: set[str] = field(default_factory=set)
    parked: dict[str, _Parked] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    finished: dict[str, LogEntry] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    inputs: dict[str, tuple[Any, LogEntry]] = field(default_factory=dict)


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """One pass; what is open is carried along."""
    begun = _Open()
    for entry in task.log:
        tally.saw(isinstance(entry.event, ModelCalled | ToolStarted | ToolParked | ApprovalAsked))
        yield from _next(task, begun, entry)
    yield from torn(task)


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
        case ApprovalAsked(call_id=call_id):
            yield from _approval_asked(task, begun, entry, call_id)
            begun.parked.setdefault(call_id, _Parked(entry, entry.event.wake_on))
            begun.inputs[call_id] = entry.event.input, entry
        case ToolFinished(call_id=call_id):
            yield from _tool_finished(task, begun, entry, call_id, entry.event)
        case ToolParked(call_id=call_id, wake_on=wake_on):
            yield from _tool_parked(task, begun, entry, call_id, wake_on)
        case StepAttemptAbandoned():
            begun.model = None
            begun.sealed.update(begun.tools)
        case TurnFailed():
            begun.model = None
            begun.tools.clear()
            begun.parked.clear()
        case TaskSuspended(wake_on=wake_on, reason=reason):
            yield from _left_open(task, begun, entry)
            yield from _rests(task, begun, entry, wake_on, reason)
        case TaskWoken(event=event):
            yield from _left_open(task, begun, entry)
            if not isinstance(event, ControlReceived):
                _answered(begun, event)
        case _ if isinstance(entry.event, Ending):
            begun.model = None
            begun.tools.clear()
            begun.parked.clear()
        case _:
            pass


def _answered(begun: _Open, event: Item) -> None:
    """The first call that waits for this has its answer; one that was approved waits no more."""
    answered = (call for call, one in begun.parked.items() if not one.woken and matches_wake(one.wake_on, event))
    call_id = next(answered, None)
    if call_id is None:
        return
    if isinstance(begun.parked[call_id].entry.event, ApprovalAsked) and approves(event):
        del begun.parked[call_id]
    else:
        begun.parked[call_id].woken = True


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
    yield from _answers_left(task, begun, entry)
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
    elif call_id in begun.parked:
        yield _past_its_wake(task, begun, entry, call_id)
    elif before is not None and before.epoch >= entry.epoch:
        yield Finding(
            "start-unfinished",
            f"{task.holder(entry.epoch)} started call {call_id} of {task.task} at seq {before.seq} and again at seq "
            f"{entry.seq}, under the same epoch {entry.epoch}, with no result in between",
            (before, entry),
        )
    begun.tools[call_id] = entry
    begun.sealed.discard(call_id)
    begun.started.add(call_id)
    assert isinstance(entry.event, ToolStarted)
    given, where = begun.inputs.setdefault(call_id, (entry.event.input, entry))
    if given != entry.event.input:
        yield Finding(
            "other-input",
            f"seq {entry.seq} of {task.task} starts call {call_id} with another input than seq {where.seq} "
            f"{kind(where.event)} says",
            (where, entry),
        )


def _approval_asked(task: TaskEvidence, begun: _Open, entry: LogEntry, call_id: str) -> Iterator[Finding]:
    """A person is asked once, and before the call is started."""
    if call_id not in begun.asked:
        yield Finding(
            "unknown-call",
            f"seq {entry.seq} of {task.task} wants call {call_id} approved, which no reply asked for",
            (entry,),
        )
    elif call_id in begun.started or call_id in begun.finished or call_id in begun.inputs:
        how = "had its result" if call_id in begun.finished else "was started, or asked about"
        what = f"seq {entry.seq} of {task.task} wants call {call_id} approved"
        yield Finding("asked-late", f"{what}, which {how} before", (entry,))


def _tool_finished(
    task: TaskEvidence, begun: _Open, entry: LogEntry, call_id: str, finished: ToolFinished
) -> Iterator[Finding]:
    before, parked = begun.finished.get(call_id), begun.parked.pop(call_id, None)
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
    elif not _may_come_from(begun, call_id, finished.source, parked):
        waits = "" if parked is None else f" at seq {parked.entry.seq}"
        how = "was started" if call_id in begun.started else "was not parked"
        if parked is not None:
            how = f"was parked{waits} and woken" if parked.woken else f"was parked{waits} and its wake has not come"
            how += ", and not approved" if parked.woken and parked.source == "denied" else ""
        yield Finding(
            "other-answer",
            f"call {call_id} of {task.task} has its result at seq {entry.seq} as {finished.source!r}; but it {how}",
            (entry,) if parked is None else (parked.entry, entry),
        )
    elif call_id not in begun.started and not finished.is_error:
        # A call may be refused before it starts (an unknown tool, a gate): then its result is an error.
        yield Finding(
            "finished-unstarted",
            f"call {call_id} of {task.task} has its result at seq {entry.seq} but was never started",
            (entry,),
        )
    begun.finished.setdefault(call_id, entry)
    begun.tools.pop(call_id, None)
    begun.sealed.discard(call_id)


def _may_come_from(begun: _Open, call_id: str, source: str, parked: _Parked | None) -> bool:
    """Whether a call, as it stands, can have a result of this source."""
    if parked is not None:
        return parked.woken and source == parked.source
    return source != "woken" and (source != "denied" or call_id not in begun.started)


def _tool_parked(
    task: TaskEvidence, begun: _Open, entry: LogEntry, call_id: str, wake_on: WakeCondition
) -> Iterator[Finding]:
    """A call is parked once, by the tool that was started."""
    if call_id in begun.finished:
        yield Finding(
            "started-after-end",
            f"seq {entry.seq} of {task.task} parks call {call_id}, which had its result at seq "
            f"{begun.finished[call_id].seq}",
            (begun.finished[call_id], entry),
        )
    elif call_id in begun.parked:
        yield _past_its_wake(task, begun, entry, call_id)
    elif call_id not in begun.tools:
        yield Finding(
            "parked-unstarted", f"seq {entry.seq} of {task.task} parks call {call_id}, which was not started", (entry,)
        )
    begun.tools.pop(call_id, None)
    begun.sealed.discard(call_id)
    begun.parked.setdefault(call_id, _Parked(entry, wake_on))


def _past_its_wake(task: TaskEvidence, begun: _Open, entry: LogEntry, call_id: str) -> Finding:
    parked = begun.parked[call_id].entry
    return Finding(
        "other-answer",
        f"call {call_id} of {task.task} waits since seq {parked.seq}; but seq {entry.seq} {kind(entry.event)} follows, "
        f"and only its wake may answer it",
        (parked, entry),
    )


def _rests(task: TaskEvidence, begun: _Open, entry: LogEntry, wake_on: WakeCondition, reason: str) -> Iterator[Finding]:
    """Within a turn the task rests on what an open call waits for. A turn that ends has answered all, unless it was
    stopped, which its rest says."""
    if any(not one.woken and one.wake_on == wake_on for one in begun.parked.values()):
        return
    if not reason:
        yield from _answers_left(task, begun, entry)
    begun.parked.clear()


def _answers_left(task: TaskEvidence, begun: _Open, entry: LogEntry) -> Iterator[Finding]:
    for call_id, parked in begun.parked.items():
        yield Finding(
            "park-unanswered",
            f"call {call_id} of {task.task} waits since seq {parked.entry.seq}; but seq {entry.seq} "
            f"{kind(entry.event)} follows with no answer in between",
            (parked.entry, entry),
        )
    begun.parked.clear()


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
        if call_id not in begun.sealed:
            yield Finding(
                "start-unfinished",
                f"{task.holder(started.epoch)} started call {call_id} of {task.task} at seq {started.seq}; but seq "
                f"{entry.seq} {kind(entry.event)} follows with no result in between",
                (started, entry),
            )
    begun.tools.clear()
    begun.sealed.clear()


LAW = Law(
    key="calls-pair",
    title="Calls pair",
    statement=(
        "Every ModelCalled is followed by its reply, its abandonment or a terminal entry; every ToolStarted likewise, "
        "or by its park, which only its own wake, the end of the turn or a terminal entry answers. A call that a "
        "person must approve starts only after that, as it was approved, or ends denied; an attempt that is parked is "
        "sealed, noticed and at rest in one commit."
    ),
    source="One writer and crash recovery (the log invariants of make cluster); Gates and parks",
    reads="the log",
    codes={
        "call-unanswered": "a model call was followed by another one, or by a rest, with nothing in between",
        "reply-uncalled": "a reply to no open model call",
        "start-unfinished": "a tool start was followed by another step with no result in between",
        "started-after-end": "a finished call was started again",
        "finished-twice": "a call has two results",
        "finished-unstarted": "a call that was never started has a result that is no error",
        "parked-unstarted": "a call that was not started is parked",
        "park-unanswered": "a parked call was followed by another step, or by the turn's end, with no answer",
        "other-answer": "a call's result, or start, does not come from what it waits for, or from no start",
        "asked-late": "a person is asked about a call that was started, asked about or ended before",
        "other-input": "a call starts with another input than it was approved, or started, with",
        "park-torn": "an attempt is parked without its seal, its one notice and its rest in one epoch",
        "unknown-call": "a start or result of a call that no reply asked for",
    },
    check=check,
)
