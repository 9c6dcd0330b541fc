"""The runner: drives one claim from entry to entry, until the task waits or ends.

It folds the log and does what ``next_action`` says; there is no other state (`desk.py` holds what was read and noted).
``ModelCalled`` is durable before the request leaves, ``ToolStarted`` before the tool runs. Any refusal of the store
ends the drive without further writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Literal, assert_never

from noeta.core import codec, limits, texts
from noeta.core.actions import (
    AnswerCall,
    CallModel,
    EndCancelled,
    Ended,
    EndTurn,
    FailTurn,
    FireCrons,
    Interrupted,
    Rest,
    StartCall,
    Wait,
    next_action,
)
from noeta.core.errors import NoetaError
from noeta.core.events import (
    ApprovalAsked,
    Event,
    MessageTaken,
    ModelCalled,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.fold import Approval, CallState, TaskState
from noeta.core.gates import Allow, Ask, Deny, approval_handle
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.lower import cancelled_by
from noeta.core.model import ProviderError
from noeta.core.runner import calls, crontab, model_step
from noeta.core.runner.calls import Undecided
from noeta.core.runner.desk import Desk, is_left_over, is_message
from noeta.core.runner.engine import Engine
from noeta.core.runner.lease import Held
from noeta.core.runner.outcome import Recorded, answered, denied
from noeta.core.store import Continue, End, Post, Store, Suspend, UnreadItem
from noeta.core.task import Status
from noeta.core.tool import OnUnknown, StepCancelled
from noeta.core.wake import (
    CANCEL,
    CLOSE,
    NEXT_GOAL,
    ControlReceived,
    HumanResponseReceived,
    WakeCondition,
    find_wake,
)
from noeta.core.world import World

Outcome = Literal["woken", "drained", "skipped", "cancelled", "stopped"]
"""What became of one drive: it ended in a wait after being woken or begun (``woken``), or in the terminal status
(``drained``, ``cancelled``); nothing it waits for had come (``skipped``); it was asked to stop (``stopped``)."""

LOOKS_MAX: Final = 3
"""Looks at an inbox that keeps moving before the task is left pending. Keeps: bounded."""

MOVED_ENDINGS_MAX: Final = 10
"""Endings in a row that a message came before. Then the task ends all the same, and what is unread then is stamped so:
a flood cannot keep a task from ending. Keeps: bounded."""

GIVEN_UP_MAX: Final = limits.COMMIT_PARTS_MAX // 2
"""Children that are given up in one commit."""

_log = logging.getLogger("noeta.runner")


class Runner:
    """One drive of one claim.

    ``resolve`` names the engine of a folded task; ``on_unknown``: what happens to a call whose outcome nobody can tell,
    unless the engine says so; ``on_seal`` hears of a sealed attempt: its reason, and the seq it was abandoned from.
    """

    def __init__(
        self,
        resolve: Callable[[TaskState], Engine],
        world: World,
        store: Store,
        held: Held,
        *,
        next_goal_handle: str | None = None,
        on_unknown: OnUnknown = OnUnknown.TELL,
        on_seal: Callable[[str, int], None] | None = None,
    ) -> None:
        self._resolve = resolve
        self._world = world
        self._held = held
        self._next_goal_handle = next_goal_handle
        self._on_unknown = on_unknown
        self._desk = Desk(store, held, on_seal or (lambda reason, seq: None))
        self._moved_endings = 0
        self._ordered_by = 0

    @property
    def _state(self) -> TaskState:
        return self._desk.state

    def drive(self) -> Outcome:
        """Run the task until it waits, ends, or the step is told to stop.

        Raises:
            Conflict, StoreUnavailable, CommitUnknown: stop, write nothing more, charge nobody.
        """
        self._desk.load()
        crontab.check(self._state)
        self._engine = self._resolve(self._state)
        try:
            return self._drive()
        except NoetaError as error:
            if not _is_bug(error):
                raise
            return self._fail(error)
        except Exception as error:
            return self._fail(error)

    def _drive(self) -> Outcome:
        """Act until the task rests. A step that was cancelled half way ends here: by the order, or by the stop."""
        while True:
            try:
                outcome = self._act()
            except StepCancelled:
                self._held.check()
                if self._take_orders(for_certain=self._held.stopping):
                    continue
                self._note_ended_jobs()
                self._seal_stopped()
                return "stopped"
            if outcome is not None:
                return outcome

    def _act(self) -> Outcome | None:
        """Do what comes next; the outcome, once the task rests."""
        if self._held.stopping:
            self._note_ended_jobs()
            if self._desk.has_notes:  # what is known is recorded: a finished tool is not asked about again
                self._desk.flush(Continue())
            if not self._take_orders(for_certain=True):
                return "stopped"
        if self._desk.is_full:  # calls that are denied, asked about or answered leave nothing to flush them
            self._desk.flush(Continue())
        self._take_orders()
        match next_action(self._state):
            case Wait(wake_on=wake_on):
                self._desk.note_jobs()
                if self._state.status is Status.SUSPENDED and not self._wake(wake_on):
                    return self._put_back(wake_on)
            case FireCrons():
                return self._fire_crons()
            case Interrupted() as interrupted:
                return self._recover(interrupted)
            case CallModel(attempt=attempt):
                self._call_model(attempt)
            case StartCall(call=call):
                self._start_call(call)
            case AnswerCall(call=call):
                self._desk.note(answered(call))
            case Rest(wake_on=wake_on):
                return self._rest(wake_on)
            case FailTurn(reason=reason, message=message):
                return self._fail_turn(reason, message)
            case EndTurn(answer=answer):
                return self._end_turn(answer)
            case EndCancelled(order=order):
                return self._end_cancelled(order)
            case Ended():
                return "drained"
            case action:
                assert_never(action)
        return None

    # -- waking --------------------------------------------------------------------------------------------

    def _wake(self, wake_on: WakeCondition) -> bool:
        """Take what ends the wait, if it is there. Keeps: wake-once, taken-once."""
        found = find_wake(wake_on, [(item.number, item.item) for item in self._desk.unread])
        if found is None:
            return False
        numbers, event = found
        if isinstance(event, ControlReceived):
            self._ordered_by = numbers[0]
        self._desk.take([item for item in self._desk.unread if item.number in numbers])
        self._desk.note(TaskWoken(numbers, event))
        return True

    def _put_back(self, wake_on: WakeCondition) -> Outcome | None:
        """Nothing that ends the wait has come: wait again, knowing of the items that were seen. If more came meanwhile,
        look again; None: the wait has ended."""
        for look in range(1, LOOKS_MAX + 1):
            known = tuple(item.item for item in self._desk.unread)
            again = look < LOOKS_MAX
            if self._suspend(Suspend(wake_on, known=known, again=again)) or not again:
                break
            self._desk.look_again()
            if self._wake(wake_on):
                return None
        return "skipped"

    def _suspend(self, suspend: Suspend, *more: Event, posts: Sequence[Post] = ()) -> bool:
        """Rest, keeping the claim for the sake of live jobs; whether nothing came before that. A kept claim that
        something came before stays running, and is driven again. Keeps: wake-once."""
        suspend = replace(suspend, keep=bool(self._state.jobs))
        appended = self._desk.flush(suspend, *more, posts=posts)
        self._held.rests_on = suspend.wake_on
        self._held.kept = suspend.keep and not (appended.moved and suspend.again)
        # The keeper raises the number before it looks whether the task is kept: read the other way round, nothing that
        # came in between is missed. A group that was complete already leaves the row running.
        if appended.moved or appended.status is Status.RUNNING or self._held.inbox_seq > appended.inbox_seq:
            self._held.heard = True
        return not appended.moved

    def _rest(self, wake_on: WakeCondition) -> Outcome:
        """Every open call waits. A result that is already there, or comes meanwhile, makes the task pending at once.
        Keeps: wake-once, children-once."""
        self._desk.look_again()
        self._desk.note_jobs()
        known = tuple(item.item for item in self._desk.unread)
        self._suspend(Suspend(wake_on, known=known), TaskSuspended(wake_on))
        return "woken"

    def _take_orders(self, *, for_certain: bool = False) -> bool:
        """Take an order to end or to stop, before anything else is done; whether there is one. A task that waits takes
        it as what ended its wait. ``for_certain``: look, even if no renewal said that there is one: a worker that stops
        ends what it was told to end."""
        if for_certain or self._held.ordered_at is not None:
            self._desk.look_again(for_certain=for_certain)
        orders = [item for item in self._desk.unread if isinstance(item.item, ControlReceived)]
        if orders and not isinstance(next_action(self._state), Wait | Ended):
            self._take(orders)
        return bool(orders) or self._state.cancel is not None

    def _take_messages(self) -> None:
        """Take what people said while the task ran: between a result and the next model call. What a wait that is over
        still brought in is taken, too, and told to nobody: a later wait must not be ended by it."""
        self._desk.look_again()
        taken = []
        for item in self._desk.unread:
            if is_message(item) or is_left_over(self._state, item):
                taken.append(item)
            if isinstance(item.item, ControlReceived):
                break  # what was said after an order is not of this turn
        self._take(taken)

    def _take(self, items: Sequence[UnreadItem]) -> None:
        self._desk.take(items)
        for item in items:
            if self._desk.is_full:
                self._desk.flush(Continue())  # a flooded inbox is taken in several commits
            if isinstance(item.item, ControlReceived):
                self._ordered_by = item.number
            self._desk.note(MessageTaken(item.number, item.item))

    # -- calls ---------------------------------------------------------------------------------------------

    def _call_model(self, attempt: int) -> None:
        if self._state.model_hash is None:  # an open call is made again before any new item is taken: same-request
            self._desk.note_jobs()
            self._take_messages()
            if self._state.cancel is not None:
                return
        request = self._engine.request(self._state)
        self._desk.note(ModelCalled(request.hash(), attempt, request.engine_hash()))
        self._desk.flush(Continue())
        self._world.point("model.before", task=self._held.claim.task_id, attempt=attempt)
        try:
            reply = model_step.ask(self._engine, self._held, request)
            self._world.point("model.after", task=self._held.claim.task_id, attempt=attempt)
            self._desk.note(model_step.replied(reply, self._state.last_seq + 1))
        except ProviderError as error:
            raise _TurnError(texts.LLM_ERROR, str(error)) from error

    def _start_call(self, call: CallState) -> None:
        if call.call.tool not in self._engine.tools:
            self._desk.note(calls.unknown_tool(call))
            return
        if call.approval is Approval.GIVEN:
            self._run_call(call)
            return
        match calls.gate(self._engine, self._state, call):
            case Deny(reason=reason):
                self._desk.note(denied(call, reason))
            case Ask(question=question, input=input):
                handle = HumanResponseReceived(approval_handle(self._state.task_id, call.call.id))
                self._desk.note(ApprovalAsked(call.call.id, handle, question, input))
            case Allow(input=input):
                call.rewritten = input
                self._run_call(call)

    def _run_call(self, call: CallState) -> None:
        self._desk.note(ToolStarted(call.call.id, call.starts + 1, call.rewritten))
        self._desk.flush(Continue())
        self._record(calls.run_call(self._engine, self._world, self._held, self._state, call))

    def _record(self, recorded: Recorded) -> None:
        self._desk.note(recorded.event, children=recorded.children, posts=recorded.posts)
        for event in recorded.more:
            self._desk.note(event, job=recorded.job)

    def _recover(self, interrupted: Interrupted) -> Outcome | None:
        """Seal what the last owner left half done, and decide about each call in it; or park the task, if it is for a
        person to decide. A call that is started again is not gated again: it was allowed when it ran."""
        found = [
            (call, calls.recover_call(self._engine, self._world, self._held, self._state, call))
            for call in interrupted.calls
        ]
        on_unknown = self._on_unknown if self._engine.on_unknown is None else self._engine.on_unknown
        if on_unknown is OnUnknown.PARK and calls.is_for_a_person(self._engine, self._state, found):
            return self._park(interrupted, found)
        self._desk.note(StepAttemptAbandoned(_open_from(interrupted), texts.AUTO_REDRIVE))
        for call, recorded in found:
            if recorded is Undecided.RUN_AGAIN:
                self._run_call(call)
            else:
                self._record(calls.unknown(call) if recorded is Undecided.UNKNOWN else recorded)
        return None

    def _park(
        self, interrupted: Interrupted, found: Sequence[tuple[CallState, Recorded | Undecided]]
    ) -> Outcome | None:
        """Seal, notice and rest are one commit: a crash leaves all of them or none. None: an order came before it."""
        self._desk.look_again()
        if any(isinstance(item.item, ControlReceived) for item in self._desk.unread):
            return None
        # Whoever spoke before the notice did not know of it: that is no word about how to go on.
        self._take([item for item in self._desk.unread if is_message(item)])
        posts = self._giving_up()
        self._desk.note(StepAttemptAbandoned(_open_from(interrupted), texts.ATTEMPT_PARKED))
        for _, recorded in found:
            # A wait that was looked up is not begun, nor a job started: this turn ends here.
            if isinstance(recorded, Recorded) and isinstance(recorded.event, ToolFinished) and recorded.job is None:
                self._record(recorded)
        names = ", ".join(f"{call.call.tool} ({call.call.id})" for call in interrupted.calls)
        self._desk.note(NoticeGiven(codec.escape_text(texts.PARKED_NOTICE.format(calls=names))))
        self._desk.stop_jobs()  # a person says how it goes on, and not the end of a job
        wake_on = HumanResponseReceived(self._next_goal_handle or NEXT_GOAL)
        self._suspend(Suspend(wake_on), TaskSuspended(wake_on, reason=texts.ATTEMPT_PARKED), posts=posts)
        return "stopped"

    def _note_ended_jobs(self) -> None:
        """Before a worker that stops gives the task up: its next owner would take for lost what has ended by itself.
        Not while a model call is open, which is made again with the same request."""
        if self._state.model_hash is None and self._held.jobs is not None and self._held.jobs.ended():
            self._desk.note_jobs()

    def _seal_stopped(self) -> None:
        """The worker stops in the middle of a model call: nobody died in it, and it must not count as if. An open
        tool call stays open: its next owner asks what it did."""
        if self._state.model_called_seq is not None:
            self._desk.note(StepAttemptAbandoned(self._state.model_called_seq, texts.WORKER_STOPPED))
        if self._desk.has_notes:
            self._desk.flush(Continue())

    # -- rests ---------------------------------------------------------------------------------------------

    def _end_turn(self, answer: str | None) -> Outcome | None:
        """Wait for the next message, or end; None if a message came before the end: the task goes on."""
        if self._desk.note_jobs():
            return None  # the model is told before its turn ends
        if self._state.interactive:
            wake_on = crontab.rest(self._state, NEXT_GOAL)
            self._suspend(Suspend(wake_on), TaskSuspended(wake_on, answer))
            return "woken"
        for_certain = self._moved_endings >= MOVED_ENDINGS_MAX
        if not for_certain:
            self._desk.look_again()
            before = self._state.last_seq
            if any(is_message(item) for item in self._desk.unread):
                self._take_messages()
                if self._state.last_seq > before:
                    self._moved_endings += 1
                    return None
        self._desk.stop_jobs()
        seen = limits.INTEGER_MAX if for_certain else None
        if self._desk.flush(End(TaskCompleted(answer)), inbox_seen=seen).moved:
            self._moved_endings += 1
            return None
        return "drained"

    def _fail_turn(self, reason: str, message: str) -> Outcome:
        """Keeps: bounded. The entry names the reason."""
        message = codec.escape_text(message)[: limits.REASON_CHARS_MAX]
        bug_again = reason == texts.INTERNAL_ERROR and self._state.internal_errors + 1 >= texts.MAX_INTERNAL_ERRORS
        posts = self._giving_up()
        self._desk.note(TurnFailed(reason, message))
        if self._state.interactive and not bug_again:
            self._rest_on(NEXT_GOAL, texts.TURN_FAILED.format(code=reason), posts)
            return "woken"
        self._desk.stop_jobs()
        self._desk.flush(End(TaskFailed(reason, message)))
        return "drained"

    def _end_cancelled(self, order: ControlReceived) -> Outcome:
        """A cancel ends the task, unless this loop's host reopens it by a message; a close stops the turn of a task
        that can be spoken to. Keeps: terminal-is-final."""
        # A sub-agent is never reopened: its parent waits for its result.
        handle = self._next_goal_handle if self._state.parent_task_id is None else None
        if handle is None and order.action == CLOSE and self._state.interactive:
            handle = NEXT_GOAL
        if handle is None:
            self._desk.stop_jobs()
            self._desk.flush(End(cancelled_by(order)))
            return "cancelled"
        # What was said before the order belongs to the turn it stops; what came after it begins the next one.
        self._take([item for item in self._desk.unread if item.number < self._ordered_by and is_message(item)])
        posts = self._giving_up()
        interrupted = next_action(self._state, ordered=False)
        if isinstance(interrupted, Interrupted):
            self._desk.note(StepAttemptAbandoned(_open_from(interrupted), order.action))
        reason = _ORDERED[order.action] + (f": {order.reason}" if order.reason else "")
        if order.action == CANCEL:  # only a person opens it again
            self._desk.stop_jobs()
            wake_on = HumanResponseReceived(handle)
            self._suspend(Suspend(wake_on), TaskSuspended(wake_on, reason=reason), posts=posts)
        else:
            self._rest_on(handle, reason, posts)
        return "stopped"

    def _rest_on(self, handle: str, reason: str, posts: Sequence[Post]) -> None:
        self._desk.note_jobs()
        wake_on = crontab.rest(self._state, handle)
        self._suspend(Suspend(wake_on), TaskSuspended(wake_on, reason=reason), posts=posts)

    def _fire_crons(self) -> Outcome | None:
        """What is due by now begins a turn, once for a whole outage. Keeps: timers-once."""
        assert self._state.crons_due is not None
        if self._held.store_now() is None and self._desk.has_notes:  # an adopted claim: the answer tells the time
            self._desk.flush(Continue())
        now = (self._held.store_now() or 0) / MICROS_PER_SECOND
        fired = crontab.due(self._state.crons, max(self._state.crons_due, now))
        for event in fired:
            self._desk.note(event)
        if fired:
            return None
        self._rest_on(NEXT_GOAL, "", ())
        return "woken"

    def _giving_up(self) -> list[Post]:
        """Orders to end for the children that open calls wait for: the turn ends without them. More than a commit holds
        are sent before it."""
        order = ControlReceived(CANCEL, texts.WAIT_GIVEN_UP)
        posts = [Post(child, order, texts.GIVEN_UP_KEY) for child in self._state.awaited_children()]
        while len(posts) > GIVEN_UP_MAX:
            self._desk.flush(Continue(), posts=posts[:GIVEN_UP_MAX])
            posts = posts[GIVEN_UP_MAX:]
        return posts

    def _fail(self, error: Exception) -> Outcome:
        """A failed turn, or a bug: the first fails the turn, the second in a row ends the task."""
        if isinstance(error, _TurnError):
            return self._fail_turn(error.reason, str(error))
        _log.error("task %s: the runner failed", self._held.claim.task_id, exc_info=error)
        self._desk.load()
        return self._fail_turn(texts.INTERNAL_ERROR, f"{type(error).__name__}: {error}")


_ORDERED: Final = {CANCEL: "cancelled", CLOSE: "closed"}


class _TurnError(Exception):
    """The turn cannot go on; not a bug."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _is_bug(error: NoetaError) -> bool:
    """Errors that mean the runner asked for something impossible, unlike refusals and outages."""
    return error.code in ("bad_input", "illegal_transition", "unknown_task")


def _open_from(interrupted: Interrupted) -> int:
    """The first seq of what was left half done."""
    started = [call.started_seq for call in interrupted.calls]
    model = [] if interrupted.model_called_seq is None else [interrupted.model_called_seq]
    return min(started + model)
