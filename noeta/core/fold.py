"""The log, folded: what an entry means for the task's state. Pure, one pass, the same on every worker.

Recovery is this fold: there is no other procedure. Entries are applied in order; a state can be advanced by
the entries that follow. Ids of tool calls are minted here from the position of the reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from noeta.core import texts
from noeta.core.errors import UnreadableLog
from noeta.core.events import (
    Ending,
    Entry,
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.model import CallMade, ModelSaid, Said, ToolAnswered, UserSaid
from noeta.core.task import Status
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)


@dataclass(slots=True)
class CallState:
    """One tool call of the last reply. ``running``: started, and neither finished nor sealed."""

    call: ToolCall
    starts: int = 0
    started_seq: int = 0
    running: bool = False
    finished: bool = False


@dataclass(slots=True)
class TaskState:
    """What the log says. ``status`` is pending until the first entry after creation."""

    task_id: str
    last_seq: int = 0
    last_epoch: int = 0
    status: Status = Status.PENDING
    agent: str = ""
    interactive: bool = False
    parent: str | None = None
    said: list[Said] = field(default_factory=list)
    calls: dict[str, CallState] = field(default_factory=dict)
    wake_on: WakeCondition | None = None
    ending: Ending | None = None
    cancel: ControlReceived | None = None
    """A cancel was taken: the turn goes no further."""

    model_called_seq: int | None = None
    """The ``ModelCalled`` that has no reply yet."""
    model_hash: str | None = None
    """The request hash of the model call that is still to be answered, sealed attempts included."""
    model_attempts: int = 0
    """``ModelCalled`` entries in this turn since the last reply."""
    truncated: int = 0
    empty: int = 0
    internal_errors: int = 0
    """Turns in a row that a bug of the runner ended."""
    turn_failed: bool = False
    reply: ModelReplied | None = None
    """The last thing the model said in this turn; None if it has not been asked since the turn was opened."""

    def interrupted_calls(self) -> list[CallState]:
        """Calls that were started and have no result."""
        return [call for call in self.calls.values() if call.running]

    def next_call(self) -> CallState | None:
        """The first call of the reply that has not been started."""
        return next((call for call in self.calls.values() if not call.starts and not call.finished), None)


def fold(task_id: str, entries: Iterable[Entry]) -> TaskState:
    """The state after these entries, from an empty one.

    Raises:
        UnreadableLog: an entry does not follow from those before it.
    """
    state = TaskState(task_id)
    for entry in entries:
        advance(state, entry)
    return state


def advance(state: TaskState, entry: Entry) -> None:
    """Apply the next entry to the state, in place. Keeps: gapless-log, terminal-is-final."""
    if entry.seq != state.last_seq + 1:
        raise UnreadableLog(f"task {state.task_id!r}: seq {entry.seq} follows {state.last_seq}", newer=False)
    if state.ending is not None:
        raise UnreadableLog(f"task {state.task_id!r}: seq {entry.seq} follows its ending", newer=False)
    if (entry.seq == 1) != isinstance(entry.event, TaskCreated):
        raise UnreadableLog(f"task {state.task_id!r}: seq {entry.seq} is {type(entry.event).__name__}", newer=False)
    state.last_seq = entry.seq
    state.last_epoch = entry.epoch
    _apply(state, entry.seq, entry.event)


def _apply(state: TaskState, seq: int, event: Event) -> None:
    if seq > 1 and state.status is Status.PENDING:
        state.status = Status.RUNNING
    match event:
        case TaskCreated():
            state.agent, state.interactive, state.parent = event.agent, event.interactive, event.parent
            state.said.append(UserSaid(event.goal))
        case MessageTaken():
            _take(state, event.message)
        case TaskWoken():
            state.status, state.wake_on = Status.RUNNING, None
            _open_turn(state)
            _take(state, event.event)
        case ModelCalled():
            state.model_called_seq, state.model_hash = seq, event.request_hash
            state.model_attempts += 1
        case ModelReplied():
            _reply(state, event)
        case ToolStarted():
            call = _call(state, event.call_id)
            call.starts, call.started_seq, call.running = event.start, seq, True
        case ToolFinished():
            call = _call(state, event.call_id)
            call.running, call.finished = False, True
            state.said.append(ToolAnswered(event.call_id, event.output, event.is_error))
        case StepAttemptAbandoned():
            # Seals the open model call. Open tool calls stay open: recovery still has to decide about them.
            state.model_called_seq = None
            # The bound is for calls that kill their workers: one that a worker gave up alive does not count.
            state.model_attempts -= event.reason == texts.WORKER_STOPPED
        case TurnFailed():
            state.model_called_seq, state.model_hash, state.model_attempts = None, None, 0
            state.internal_errors += event.reason == texts.INTERNAL_ERROR
            state.turn_failed = True
            _close_calls(state)
        case TaskSuspended():
            state.status, state.wake_on, state.cancel = Status.SUSPENDED, event.wake_on, None
            _close_calls(state)  # after a cancel that can be reopened, some may be open
            if not state.turn_failed:
                state.internal_errors = 0
        case TaskCompleted() | TaskFailed() | TaskCancelled():
            state.status, state.wake_on, state.ending = Status.TERMINAL, None, event
        case _:
            assert_never(event)


def _reply(state: TaskState, reply: ModelReplied) -> None:
    state.model_called_seq, state.model_hash, state.model_attempts = None, None, 0
    state.reply = reply
    state.calls = {call.id: CallState(call) for call in reply.calls}
    state.said.append(ModelSaid(reply.text, tuple(CallMade(c.id, c.tool, c.input) for c in reply.calls)))
    cut = reply.stop == "max_tokens"
    state.truncated = state.truncated + 1 if cut else 0
    state.empty = state.empty + 1 if is_empty(reply) else 0
    if cut:
        state.said.append(UserSaid(texts.CONTINUE_TRUNCATED))


def is_empty(reply: ModelReplied) -> bool:
    """A reply that says nothing and asks for nothing."""
    return not reply.text and not reply.calls and reply.stop != "max_tokens"


def _open_turn(state: TaskState) -> None:
    state.reply = None
    state.calls = {}
    state.model_called_seq, state.model_hash, state.model_attempts = None, None, 0
    state.truncated = state.empty = 0
    state.turn_failed = False


def _take(state: TaskState, item: Item) -> None:
    """What the model is told of an item. A message after the model's last word asks for another one."""
    match item:
        case ControlReceived():
            state.cancel = item
            return
        case HumanResponseReceived():
            text = item.text
        case TimerFired():
            text = "The timer you asked for has fired."
        case SubtaskCompleted():
            text = f"Task {item.subtask_id} ended {item.status}: {item.output}"
        case SubtaskGroupCompleted():
            text = "\n".join(f"Task {one.subtask_id} ended {one.status}: {one.output}" for one in item.results)
        case ExternalEvent():
            text = f"Event {item.event_kind}."
        case _:
            assert_never(item)
    state.said.append(UserSaid(text))
    state.reply = None if not state.calls else state.reply


def _close_calls(state: TaskState) -> None:
    """A turn that ends early answers its open calls, so that the next request is well formed."""
    for call in state.calls.values():
        if not call.finished:
            state.said.append(ToolAnswered(call.call.id, texts.OUTCOME_UNKNOWN, is_error=True))
            call.running, call.finished = False, True


def _call(state: TaskState, call_id: str) -> CallState:
    call = state.calls.get(call_id)
    if call is None:
        raise UnreadableLog(f"task {state.task_id!r} has no open call {call_id!r}", newer=False)
    return call
