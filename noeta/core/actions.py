"""What the log says comes next: one pure decision, the same on every worker."""

from __future__ import annotations

from dataclasses import dataclass

from noeta.core import texts
from noeta.core.fold import CallState, TaskState, is_empty
from noeta.core.task import Status
from noeta.core.wake import WakeCondition


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. ``attempt`` counts the calls of this request that got no reply, from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class StartCall:
    """Run the next tool call of the reply, for the first time."""

    call: CallState


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
    """A cancel was taken."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The task waits for this."""

    wake_on: WakeCondition


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing follows."""


Action = CallModel | StartCall | Interrupted | EndTurn | FailTurn | EndCancelled | Wait | Ended


def next_action(state: TaskState) -> Action:
    """What comes next. ``Interrupted`` comes before all else that a running task may do: its owner is dead,
    since a living owner asks only between calls."""
    if state.status is Status.TERMINAL:
        return Ended()
    if state.status is Status.SUSPENDED:
        assert state.wake_on is not None
        return Wait(state.wake_on)
    interrupted = tuple(state.interrupted_calls())
    if interrupted or state.model_called_seq is not None:
        return Interrupted(state.model_called_seq, interrupted)
    if state.cancel is not None:
        return EndCancelled(state.cancel.reason)
    return _within_turn(state)


def _within_turn(state: TaskState) -> Action:
    waiting = state.next_call()
    if waiting is not None:
        return StartCall(waiting)
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
