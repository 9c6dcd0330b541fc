"""The runner: folds a claimed task's log, does what it says comes next, and commits before every effect.

What is known together is committed together: events are noted in memory and flushed in one commit right before
something leaves (a model request, a tool) or the task rests. ``ModelCalled`` is durable before the request
leaves, ``ToolStarted`` before the tool runs. Any refusal of the store ends the drive without further writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Literal, assert_never

from noeta.core import codec, limits, texts
from noeta.core.actions import (
    CallModel,
    EndCancelled,
    Ended,
    EndTurn,
    FailTurn,
    Interrupted,
    StartCall,
    Wait,
    next_action,
)
from noeta.core.errors import NoetaError
from noeta.core.events import (
    Entry,
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.fold import CallState, TaskState, advance
from noeta.core.model import ProviderError
from noeta.core.runner import calls, model_step
from noeta.core.runner.engine import Engine
from noeta.core.runner.lease import Held
from noeta.core.store import Appended, Commit, Continue, End, LogPage, Next, Store, Suspend, UnreadItem
from noeta.core.tool import StepCancelled
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    HumanResponseReceived,
    Item,
    WakeCondition,
    find_wake,
    matches_wake,
)
from noeta.core.world import World

Outcome = Literal["woken", "drained", "skipped", "cancelled", "stopped"]
"""What became of one drive: it ended in a wait after being woken or begun (``woken``), or in the terminal status
(``drained``, ``cancelled``); nothing it waits for had come (``skipped``); it was asked to stop (``stopped``)."""

NOTED_MAX: Final = limits.COMMIT_PARTS_MAX // 2
NOTED_CHARS_MAX: Final = limits.COMMIT_BYTES_MAX // 16
"""What is noted at the most before it is flushed: a character takes six bytes at the most when it is encoded."""

_log = logging.getLogger("noeta.runner")


class Runner:
    """One drive of one claim.

    ``resolve`` names the engine of a folded task; ``on_seal`` hears of a sealed attempt: its reason, and the
    seq it was abandoned from.
    """

    def __init__(
        self,
        resolve: Callable[[TaskState], Engine],
        world: World,
        store: Store,
        held: Held,
        *,
        next_goal_handle: str | None = None,
        on_seal: Callable[[str, int], None] | None = None,
    ) -> None:
        self._resolve = resolve
        self._world = world
        self._store = store
        self._held = held
        self._next_goal_handle = next_goal_handle
        self._on_seal = on_seal or (lambda reason, seq: None)
        self._state = TaskState(held.claim.task_id)
        self._noted: list[Event] = []
        self._noted_chars = 0
        self._durable_seq = 0
        self._unread: list[UnreadItem] = []
        self._inbox_seen = 0

    def drive(self) -> Outcome:
        """Run the task until it waits, ends, or the step is told to stop.

        Raises:
            Conflict, StoreUnavailable, CommitUnknown: stop, write nothing more, charge nobody.
        """
        self._load()
        self._engine = self._resolve(self._state)
        try:
            return self._drive()
        except NoetaError as error:
            if not _is_bug(error):
                raise
            return self._fail(error)
        except StepCancelled:
            self._held.check()
            self._seal_stopped()
            return "stopped"
        except Exception as error:
            return self._fail(error)

    def _drive(self) -> Outcome:
        while True:
            if self._held.stopping:
                if self._noted:  # what is known is recorded: a finished tool is not asked about again
                    self._flush(Continue())
                return "stopped"
            match next_action(self._state):
                case Wait(wake_on=wake_on):
                    if not self._wake(wake_on):
                        return self._put_back(wake_on)
                case Interrupted() as interrupted:
                    self._recover(interrupted)
                case CallModel(attempt=attempt):
                    self._call_model(attempt)
                case StartCall(call=call):
                    self._start_call(call)
                case FailTurn(reason=reason, message=message):
                    return self._fail_turn(reason, message)
                case EndTurn(answer=answer):
                    ended = self._end_turn(answer)
                    if ended is not None:
                        return ended
                case EndCancelled(reason=reason):
                    return self._end_cancelled(reason)
                case Ended():
                    return "drained"
                case action:
                    assert_never(action)

    # -- the log -------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Fold the log from its start, and see the inbox as it is."""
        self._state = TaskState(self._held.claim.task_id)
        self._noted, self._noted_chars = [], 0
        self._unread, self._inbox_seen = [], 0
        more = True
        while more:
            page = self._read(self._state.last_seq)
            for entry in page.entries:
                advance(self._state, entry)
            more = page.more or page.inbox_seen < page.row.inbox_seq
        self._durable_seq = self._state.last_seq

    def _look_again(self) -> None:
        """See what came since the inbox was last read, if anything did."""
        more = self._held.inbox_seq > self._inbox_seen
        while more:
            page = self._read(self._durable_seq)
            if page.entries:
                self._held.cut("another worker has written to the log")
                self._held.check()
            more = page.inbox_seen < page.row.inbox_seq

    def _read(self, after: int) -> LogPage:
        """Entries after this seq, and the items that were not seen before."""
        page = self._store.read(self._held.claim.task_id, after, inbox_after=self._inbox_seen)
        self._unread += page.unread
        self._inbox_seen = page.inbox_seen
        return page

    def _note(self, event: Event) -> None:
        """Let an event count for the decisions that follow; it becomes durable with the next flush."""
        seq = self._state.last_seq + 1
        advance(self._state, Entry(seq, self._held.claim.epoch, 0, event, ""))
        self._noted.append(event)
        self._noted_chars += _chars(event)

    def _flush(self, next: Next, *more: Event) -> Appended:
        """Commit what was noted, and more entries that only count once they are durable."""
        commit = Commit((*self._noted, *more), next, self._seen(next))
        sealed = [event for event in self._noted if isinstance(event, StepAttemptAbandoned)]
        appended = self._held.append(self._durable_seq, commit)
        self._noted, self._noted_chars = [], 0
        self._durable_seq = appended.last_seq
        for seal in sealed:
            self._on_seal(seal.reason, seal.abandoned_from_seq)
        return appended

    def _seen(self, next: Next) -> int:
        """The newest item this decision took into account. An unread one that would end the wait at once is not of
        them, though it was read (an open turn is called again before it is taken): the row becomes pending, and
        the next claim is woken by it. Keeps: wake-once."""
        if isinstance(next, Suspend):
            ready = [item.number for item in self._unread if matches_wake(next.wake_on, item.item)]
            return min([self._inbox_seen, *(number - 1 for number in ready)])
        return self._inbox_seen

    # -- waking --------------------------------------------------------------------------------------------

    def _wake(self, wake_on: WakeCondition) -> bool:
        """Take what ends the wait, if it is there. Keeps: wake-once, taken-once."""
        found = find_wake(wake_on, [(item.number, item.item) for item in self._unread])
        if found is None:
            return False
        numbers, event = found
        self._unread = [item for item in self._unread if item.number not in numbers]
        self._note(TaskWoken(numbers, event))
        return True

    def _put_back(self, wake_on: WakeCondition) -> Outcome:
        """Nothing that ends the wait has come: wait again, knowing of the items that were seen."""
        known: tuple[Item, ...] = tuple(item.item for item in self._unread)
        self._flush(Suspend(wake_on, known=known))
        return "skipped"

    def _take_messages(self) -> None:
        """Take what people said while the task ran: between a result and the next model call."""
        self._look_again()
        for item in list(self._unread):
            if len(self._noted) >= NOTED_MAX or self._noted_chars >= NOTED_CHARS_MAX:
                self._flush(Continue())  # a flooded inbox is taken in several commits
            match item.item:
                case HumanResponseReceived(handle=handle) if handle == NEXT_GOAL:
                    self._unread.remove(item)
                    self._note(MessageTaken(item.number, item.item))
                case ControlReceived():
                    self._unread.remove(item)
                    self._note(MessageTaken(item.number, item.item))
                case _:
                    pass

    # -- calls ---------------------------------------------------------------------------------------------

    def _call_model(self, attempt: int) -> None:
        if self._state.model_hash is None:  # an open call is made again before any new item is taken: same-request
            self._take_messages()
            if self._state.cancel is not None:
                return
        request = self._engine.request(self._state)
        self._note(ModelCalled(request.hash(), attempt, request.engine_hash()))
        self._flush(Continue())
        self._world.point("model.before", task=self._held.claim.task_id, attempt=attempt)
        try:
            reply = model_step.ask(self._engine, self._held, request)
            self._world.point("model.after", task=self._held.claim.task_id, attempt=attempt)
            self._note(model_step.replied(reply, self._state.last_seq + 1))
        except ProviderError as error:
            raise _TurnError(texts.LLM_ERROR, str(error)) from error

    def _start_call(self, call: CallState) -> None:
        if call.call.tool not in self._engine.tools:
            self._note(calls.unknown_tool(call))
            return
        self._note(ToolStarted(call.call.id, call.starts + 1))
        self._flush(Continue())
        self._note(calls.run_call(self._engine, self._world, self._held, call))

    def _recover(self, interrupted: Interrupted) -> None:
        """Seal what the last owner left half done, and decide about each call in it."""
        started = [call.started_seq for call in interrupted.calls]
        model = [] if interrupted.model_called_seq is None else [interrupted.model_called_seq]
        self._note(StepAttemptAbandoned(min(started + model), "auto_redrive"))
        for call in interrupted.calls:
            finished = calls.recover_call(self._engine, self._world, self._held, call)
            if finished is None:
                self._start_call(call)
            else:
                self._note(finished)

    def _seal_stopped(self) -> None:
        """The worker stops in the middle of a model call: nobody died in it, and it must not count as if. An open
        tool call stays open: its next owner asks what it did."""
        if self._state.model_called_seq is not None:
            self._note(StepAttemptAbandoned(self._state.model_called_seq, texts.WORKER_STOPPED))
            self._flush(Continue())

    # -- rests ---------------------------------------------------------------------------------------------

    def _end_turn(self, answer: str | None) -> Outcome | None:
        """Wait for the next message, or end; None if a message came before the end: the task goes on."""
        if self._state.interactive:
            wake_on = HumanResponseReceived(NEXT_GOAL)
            self._flush(Suspend(wake_on), TaskSuspended(wake_on, answer))
            return "woken"
        self._look_again()
        before = self._state.last_seq
        if any(isinstance(item.item, HumanResponseReceived | ControlReceived) for item in self._unread):
            self._take_messages()
            if self._state.last_seq > before:
                return None
        if self._flush(End(TaskCompleted(answer))).moved:
            return None
        return "drained"

    def _fail_turn(self, reason: str, message: str) -> Outcome:
        """Keeps: bounded. The entry names the reason."""
        message = codec.escape_text(message)[: limits.REASON_CHARS_MAX]
        bug_again = reason == texts.INTERNAL_ERROR and self._state.internal_errors + 1 >= texts.MAX_INTERNAL_ERRORS
        self._note(TurnFailed(reason, message))
        if self._state.interactive and not bug_again:
            wake_on = HumanResponseReceived(NEXT_GOAL)
            self._flush(Suspend(wake_on), TaskSuspended(wake_on))
            return "woken"
        self._flush(End(TaskFailed(reason, message)))
        return "drained"

    def _end_cancelled(self, reason: str) -> Outcome:
        if self._next_goal_handle is None:
            self._flush(End(TaskCancelled(reason)))
            return "cancelled"
        wake_on = HumanResponseReceived(self._next_goal_handle)
        self._flush(Suspend(wake_on), TaskSuspended(wake_on))
        return "stopped"

    def _fail(self, error: Exception) -> Outcome:
        """A failed turn, or a bug: the first fails the turn, the second in a row ends the task."""
        if isinstance(error, _TurnError):
            return self._fail_turn(error.reason, str(error))
        _log.error("task %s: the runner failed", self._held.claim.task_id, exc_info=error)
        self._load()
        return self._fail_turn(texts.INTERNAL_ERROR, f"{type(error).__name__}: {error}")


class _TurnError(Exception):
    """The turn cannot go on; not a bug."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _is_bug(error: NoetaError) -> bool:
    """Errors that mean the runner asked for something impossible, unlike refusals and outages."""
    return error.code in ("bad_input", "illegal_transition", "unknown_task")


def _chars(event: Event) -> int:
    """About how much text an event holds."""
    match event:
        case (
            MessageTaken(message=HumanResponseReceived(text=text)) | ToolFinished(output=text) | ModelReplied(text=text)
        ):
            return len(text)
        case _:
            return 0
