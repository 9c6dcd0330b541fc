"""The log, folded: what an entry means for the task's state. Pure, one pass, the same on every worker.

Recovery is this fold: there is no other procedure. Entries are applied in order; a state can be advanced by
the entries that follow. Ids of tool calls are minted here from the position of the reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, assert_never

from msgspec import UNSET, UnsetType

from noeta.core import texts
from noeta.core.errors import UnreadableLog
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    Ending,
    Entry,
    Event,
    JobEnded,
    JobLost,
    JobStarted,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.model import CallMade, ModelSaid, Said, ToolAnswered, UserSaid
from noeta.core.task import Status
from noeta.core.telling import told, told_of_cron, told_of_job
from noeta.core.wake import (
    CANCEL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskGroupCompleted,
    WakeCondition,
    due_at,
    item_group_key,
    matches_wake,
    timed_out,
)


class Approval(Enum):
    """How a call stands with the person whose approval a gate wants."""

    NONE = "none"
    ASKED = "asked"
    GIVEN = "given"
    DENIED = "denied"


@dataclass(slots=True)
class CronState:
    """One entry of the cron table, see ``noeta.core.tool.CronState``."""

    expression: str
    zone: str
    prompt: str
    last: float


@dataclass(slots=True)
class CallState:
    """One tool call of the last reply. ``running``: started, and neither finished, parked nor sealed.

    ``started_at``: when its last start was recorded, by the store's clock, in microseconds. ``parked``: what it waits
    for; ``answer``: the event that came. ``children``: the tasks it waits for. ``approval``: whether a gate asked a
    person about it. ``rewritten``: its input, if a gate changed it.
    """

    call: ToolCall
    approval: Approval = Approval.NONE
    rewritten: Any | UnsetType = UNSET
    starts: int = 0
    started_seq: int = 0
    started_at: int = 0
    running: bool = False
    finished: bool = False
    parked: WakeCondition | None = None
    answer: Item | None = None
    children: tuple[str, ...] = ()

    @property
    def input(self) -> Any:
        """What it runs with."""
        return self.call.input if self.rewritten is UNSET else self.rewritten

    @property
    def waits(self) -> bool:
        """Whether it is parked and nothing has come."""
        return self.parked is not None and self.answer is None and not self.finished


@dataclass(slots=True)
class TaskState:
    """What the log says. ``status`` is pending until the first entry after creation."""

    task_id: str
    last_seq: int = 0
    last_epoch: int = 0
    status: Status = Status.PENDING
    agent: str = ""
    interactive: bool = False
    parent_task_id: str | None = None
    root: str | None = None
    subtask_depth: int = 0
    said: list[Said] = field(default_factory=list)
    calls: dict[str, CallState] = field(default_factory=dict)
    wake_on: WakeCondition | None = None
    ending: Ending | None = None
    cancel: ControlReceived | None = None
    """A cancel was taken: the turn goes no further."""

    jobs: dict[str, str] = field(default_factory=dict)
    """Background jobs that were started and have neither ended nor been lost: their commands, by id."""
    crons: dict[str, CronState] = field(default_factory=dict)
    """The cron table, by id."""
    crons_due: float | None = None
    """The time came that the cron table named, in seconds since the epoch, and what it begins is not recorded yet."""

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

    @property
    def root_task_id(self) -> str:
        """The top of the tree; the task itself, if nobody delegated it."""
        return self.root or self.task_id

    def answered_call(self) -> CallState | None:
        """The first parked call whose answer has come and is not recorded as its result."""
        return next((call for call in self.calls.values() if call.answer is not None and not call.finished), None)

    def waiting_call(self) -> CallState | None:
        """The first parked call whose answer has not come."""
        return next((call for call in self.calls.values() if call.waits), None)

    def awaits(self, item: Item) -> bool:
        """Whether an open call still waits for this item, alone or with others of its group."""
        return any(call.waits and _answers(call, item) for call in self.calls.values())

    def awaited_children(self) -> tuple[str, ...]:
        """The tasks that open calls wait for."""
        return tuple(child for call in self.calls.values() if call.waits for child in call.children)

    def interrupted_calls(self) -> list[CallState]:
        """Calls that were started and have no result."""
        return [call for call in self.calls.values() if call.running]

    def next_call(self) -> CallState | None:
        """The first call of the reply that may be started and has not been."""
        return next((c for c in self.calls.values() if not c.starts and not c.finished and c.parked is None), None)

    @property
    def rests_between_turns(self) -> bool:
        """Whether it waits for the next turn, and not for the answer to a call."""
        return self.status is Status.SUSPENDED and self.waiting_call() is None


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
    _apply(state, entry.seq, entry.at, entry.event)


def _apply(state: TaskState, seq: int, at: int, event: Event) -> None:
    if seq > 1 and state.status is Status.PENDING:
        state.status = Status.RUNNING
    match event:
        case TaskCreated():
            state.agent, state.interactive = event.agent, event.interactive
            state.parent_task_id, state.root = event.parent_task_id, event.root_task_id
            state.subtask_depth = event.subtask_depth
            state.said.append(UserSaid(event.goal))
        case MessageTaken():
            _hear(state, event.message)
        case TaskWoken():
            state.status, state.wake_on = Status.RUNNING, None
            _wake(state, event.event)
        case ModelCalled():
            state.model_called_seq, state.model_hash = seq, event.request_hash
            state.model_attempts += 1
        case ModelReplied():
            _reply(state, event)
        case ApprovalAsked():
            call = _call(state, event.call_id)
            call.approval, call.parked, call.rewritten = Approval.ASKED, event.wake_on, event.input
        case ToolStarted():
            call = _call(state, event.call_id)
            call.starts, call.started_seq, call.started_at, call.running = event.start, seq, at, True
            call.rewritten = event.input
        case ToolFinished():
            call = _call(state, event.call_id)
            call.running, call.finished = False, True
            _tell_result(state, ToolAnswered(event.call_id, event.output, event.is_error))
        case ToolParked():
            call = _call(state, event.call_id)
            call.running, call.parked, call.children = False, event.wake_on, event.children
        case StepAttemptAbandoned():
            # Seals the open model call. Open tool calls stay open: recovery still has to decide about them.
            state.model_called_seq = None
            # The bound is for calls that kill their workers: one that a worker gave up alive does not count.
            state.model_attempts -= event.reason == texts.WORKER_STOPPED
        case NoticeGiven():
            pass
        case JobStarted():
            state.jobs[event.job_id] = event.command
        case JobEnded() | JobLost():
            # Who does not know a job, or knows its end, is told nothing. Keeps: jobs-told-once.
            if state.jobs.pop(event.job_id, None) is not None:
                _tell_outside(state, told_of_job(event))
        case CronSet():
            state.crons[event.cron_id] = CronState(event.expression, event.zone, event.prompt, event.since)
        case CronRemoved():
            state.crons.pop(event.cron_id, None)
        case CronFired():
            state.crons_due = None
            cron = state.crons.get(event.cron_id)
            if cron is not None:
                cron.last = event.due_at
                _tell_outside(state, told_of_cron(cron.prompt, event.missed))
        case TurnFailed():
            state.model_called_seq, state.model_hash, state.model_attempts = None, None, 0
            state.internal_errors += event.reason == texts.INTERNAL_ERROR
            state.turn_failed = True
            _close_calls(state)
        case TaskSuspended():
            state.status, state.wake_on, state.cancel = Status.SUSPENDED, event.wake_on, None
            state.crons_due = None
            if not any(call.waits and call.parked == event.wake_on for call in state.calls.values()):
                _close_calls(state)  # after an order that can be reopened, some may be open
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


def _wake(state: TaskState, event: Item) -> None:
    """The wait ended: an open call has its answer, an order came, or a new turn begins."""
    if isinstance(event, ControlReceived):
        _order(state, event)
        return
    call = next((call for call in state.calls.values() if call.waits and _answers(call, event)), None)
    if call is not None:
        _answer(call, event)
    elif timed_out(event):
        _open_turn(state)
        state.crons_due = due_at(event)  # a rest between turns has no other time limit
    else:
        _open_turn(state)
        _take(state, event)


def _answer(call: CallState, event: Item) -> None:
    """What a call waited for has come. A person's approval lets it be started. Keeps: effect-at-most-once."""
    if call.approval is not Approval.ASKED:
        call.answer = event
    elif isinstance(event, HumanResponseReceived) and event.text == texts.APPROVE and not event.sender:
        call.approval, call.parked = Approval.GIVEN, None
    else:
        call.approval, call.answer = Approval.DENIED, event


def _answers(call: CallState, item: Item) -> bool:
    """Whether this item is what a parked call waits for, or one of the results it waits for."""
    assert call.parked is not None
    if matches_wake(call.parked, item):
        return not isinstance(item, ControlReceived)
    key = item_group_key(item)
    return isinstance(call.parked, SubtaskGroupCompleted) and key == f"group:{call.parked.group_id}"


def _hear(state: TaskState, item: Item) -> None:
    """An item that came while the task ran: what a wait that is over still brought in is not told."""
    if isinstance(item, ControlReceived):
        _order(state, item)
    elif isinstance(item, HumanResponseReceived) and not timed_out(item):
        _take(state, item)


def _order(state: TaskState, order: ControlReceived) -> None:
    """A cancel stands, whatever comes after it."""
    if state.cancel is None or state.cancel.action != CANCEL:
        state.cancel = order


def _take(state: TaskState, item: Item) -> None:
    """The model is told of an item. A message after the model's last word asks for another one."""
    text, _ = told(item)
    if isinstance(item, ExternalEvent):  # as the answer of a call its kind is known; here it begins a turn
        text = f"Event {item.event_kind}: {text}"
    state.said.append(UserSaid(text))
    state.reply = None if not state.calls else state.reply


def _tell_outside(state: TaskState, text: str) -> None:
    """Something happened that the model is told of; to a task that rests between turns, it begins the next one."""
    if state.rests_between_turns:
        state.status, state.wake_on = Status.RUNNING, None
        _open_turn(state)
    state.said.append(UserSaid(text))
    state.reply = None if not state.calls else state.reply


def _close_calls(state: TaskState) -> None:
    """A turn that ends early answers its open calls, so that the next request is well formed."""
    for call in state.calls.values():
        if not call.finished:
            text = texts.OUTCOME_UNKNOWN if call.running else texts.TURN_ENDED_FIRST
            _tell_result(state, ToolAnswered(call.call.id, text, is_error=True))
            call.running, call.finished = False, True


def _tell_result(state: TaskState, result: ToolAnswered) -> None:
    """Behind the reply and the results before it, also if somebody spoke meanwhile: providers refuse a result that
    stands anywhere else. No request was made since the reply, so that none changes."""
    place = len(state.said)
    while place and isinstance(state.said[place - 1], UserSaid):
        place -= 1
    state.said.insert(place, result)


def _call(state: TaskState, call_id: str) -> CallState:
    call = state.calls.get(call_id)
    if call is None:
        raise UnreadableLog(f"task {state.task_id!r} has no open call {call_id!r}", newer=False)
    return call
