"""What the log says comes next: one pure decision, the same on every worker."""

from __future__ import annotations

from dataclasses import dataclass

from noeta.core import texts
from noeta.core.fold import CallState, TaskState, is_empty
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, WakeCondition


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. ``attempt`` counts the calls of this request that got no reply, from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class StartCall:
    """Run the next tool call of the reply, for the first time."""

    call: CallState


@dataclass(frozen=True, slots=True)
class FireCrons:
    """The time that the cron table named has come: what is due by now begins a turn."""


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """What a parked call waited for has come: it becomes the call's result."""

    call: CallState


@dataclass(frozen=True, slots=True)
class Rest:
    """Every open call waits for its answer: the task rests until the first call has its own. The others are looked at
    after it: the model is asked again only when all have theirs, so that their order makes no difference to it."""

    wake_on: WakeCondition


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The last owner of the task left something half done: a model call, or tool calls, from this seq on."""

    model_called_seq: int | None
    calls: tuple[CallState, ...]


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over with this answer (None: the model gave none)."""

    answer: str | None


@dataclass(frozen=True, slots=True)
class FailTurn:
    """The turn is over without an answer. Keeps: bounded."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class EndCancelled:
    """An order to end the task, or to stop its turn, was taken."""

    order: ControlReceived


@dataclass(frozen=True, slots=True)
class Wait:
    """The task waits for this."""

    wake_on: WakeCondition


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing follows."""


Action = (
    CallModel
    | StartCall
    | FireCrons
    | AnswerCall
    | Rest
    | Interrupted
    | EndTurn
    | FailTurn
    | EndCancelled
    | Wait
    | Ended
)


def next_action(state: TaskState, *, ordered: bool = True) -> Action:
    """What comes next. An order to end or to stop comes first (``ordered`` False: as if none had come). ``Interrupted``
    comes before all else that a running task may do: its owner is dead, since a living owner asks only between calls.
    """
    if state.status is Status.TERMINAL:
        return Ended()
    if state.status is Status.SUSPENDED:
        assert state.wake_on is not None
        return Wait(state.wake_on)
    if ordered and state.cancel is not None:
        return EndCancelled(state.cancel)
    interrupted = tuple(state.interrupted_calls())
    if interrupted or state.model_called_seq is not None:
        return Interrupted(state.model_called_seq, interrupted)
    return _within_turn(state)


def _within_turn(state: TaskState) -> Action:
    if state.crons_due is not None:
        return FireCrons()
    answered = state.answered_call()
    if answered is not None:
        return AnswerCall(answered)
    unstarted = state.next_call()
    if unstarted is not None:
        return StartCall(unstarted)
    waiting = state.waiting_call()
    if waiting is not None:
        assert waiting.parked is not None
        return Rest(waiting.parked)
    if state.model_attempts >= texts.MAX_MODEL_ATTEMPTS:
        return FailTurn(texts.LLM_ERROR, texts.MODEL_CALL_INTERRUPTED)
    reply = state.reply
    if reply is None or state.calls:
        return CallModel(state.model_attempts + 1)
    if state.truncated:
        if state.truncated >= texts.MAX_TRUNCATED_REPLIES:
            return FailTurn(texts.LLM_TRUNCATED, texts.REPLY_TRUNCATED)
        return CallModel(state.model_attempts + 1)
    if is_empty(reply):
        return EndTurn(None) if state.empty >= texts.MAX_EMPTY_REPLIES else CallModel(state.model_attempts + 1)
    return EndTurn(reply.text)
