"""What comes next: every branch, and every bound reached. Keeps: bounded."""

from __future__ import annotations

import pytest
from hypothesis import given

from noeta.core import texts
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
from noeta.core.events import (
    Entry,
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
)
from noeta.core.fold import fold
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, HumanResponseReceived, TimerFired
from tests.unit.core.logs import CALLED, CHAT, CREATED, folded, replied, valid_logs

CUT = ModelReplied("half", (), "max_tokens")
EMPTY = ModelReplied("")
SEAL = StepAttemptAbandoned(2, "auto_redrive")

KILLED: list[Event] = [CALLED, SEAL]
"""A model call whose worker died."""

CUT_SHORT: list[Event] = [CALLED, CUT]
SAID_NOTHING: list[Event] = [CALLED, EMPTY]


@given(valid_logs())
def test_every_log_says_what_comes_next(log: list[Entry]) -> None:
    """Keeps: never-stuck."""
    state = fold("t", log)
    action = next_action(state)

    assert isinstance(action, Ended) == (state.status is Status.TERMINAL)
    assert isinstance(action, Wait) == (state.status is Status.SUSPENDED)


def test_a_new_task_asks_the_model() -> None:
    assert next_action(folded(CREATED)) == CallModel(1)


def test_an_ended_task_does_nothing() -> None:
    assert next_action(folded(CREATED, TaskCompleted())) == Ended()


def test_a_suspended_task_waits() -> None:
    assert next_action(folded(CREATED, TaskSuspended(TimerFired(5.0)))) == Wait(TimerFired(5.0))


def test_a_model_call_without_a_reply_was_interrupted() -> None:
    assert next_action(folded(CREATED, CALLED)) == Interrupted(2, ())


def test_a_started_tool_call_was_interrupted() -> None:
    state = folded(CREATED, CALLED, replied(3, "a", "b"), ToolStarted("3-0", 1))

    assert next_action(state) == Interrupted(None, (state.calls["3-0"],))


def test_interruption_comes_before_cancel() -> None:
    cancel = MessageTaken(1, ControlReceived())

    assert isinstance(next_action(folded(CREATED, cancel, CALLED)), Interrupted)
    assert next_action(folded(CREATED, cancel, ModelCalled("h", 1), SEAL)) == EndCancelled("")


def test_a_taken_cancel_ends_the_task() -> None:
    state = folded(CREATED, CALLED, replied(3, "a"), MessageTaken(1, ControlReceived("cancel", "enough")))

    assert next_action(state) == EndCancelled("enough")


def test_calls_start_in_turn_and_then_the_model_is_asked_again() -> None:
    log = (CREATED, CALLED, replied(3, "a", "b"))
    first = folded(*log)
    second = folded(*log, ToolStarted("3-0", 1), ToolFinished("3-0", "x"))
    done = folded(*log, ToolStarted("3-0", 1), ToolFinished("3-0", "x"), ToolFinished("3-1", "y"))

    assert next_action(first) == StartCall(first.calls["3-0"])
    assert next_action(second) == StartCall(second.calls["3-1"])
    assert next_action(done) == CallModel(1)


def test_a_reply_without_calls_ends_the_turn() -> None:
    assert next_action(folded(CREATED, CALLED, ModelReplied("answer"))) == EndTurn("answer")


def test_a_message_after_the_answer_asks_again() -> None:
    message = MessageTaken(1, HumanResponseReceived(text="and?"))

    assert next_action(folded(CREATED, CALLED, ModelReplied("answer"), message)) == CallModel(1)


def test_a_woken_task_asks_the_model() -> None:
    woken = TaskWoken((1,), HumanResponseReceived(text="hi"))

    assert next_action(folded(CHAT, TaskSuspended(HumanResponseReceived()), woken)) == CallModel(1)


@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupted_call_is_made_again_below_the_bound(calls: int) -> None:
    assert next_action(folded(CREATED, *KILLED * calls)) == CallModel(calls + 1)


def test_three_calls_without_a_reply_fail_the_turn() -> None:
    failed = next_action(folded(CREATED, *KILLED * 3))

    assert failed == FailTurn("llm_error", "the model call kept being interrupted")


@pytest.mark.parametrize("replies", [1, 2])
def test_a_cut_reply_is_gone_on_with_below_the_bound(replies: int) -> None:
    assert next_action(folded(CREATED, *CUT_SHORT * replies)) == CallModel(1)


def test_three_cut_replies_in_a_row_fail_the_turn() -> None:
    failed = next_action(folded(CREATED, *CUT_SHORT * 3))

    assert failed == FailTurn("llm_truncated", texts.REPLY_TRUNCATED)


@pytest.mark.parametrize("replies", [1, 2])
def test_an_empty_reply_is_asked_again_below_the_bound(replies: int) -> None:
    assert next_action(folded(CREATED, *SAID_NOTHING * replies)) == CallModel(1)


def test_three_empty_replies_in_a_row_end_the_turn_without_an_answer() -> None:
    assert next_action(folded(CREATED, *SAID_NOTHING * 3)) == EndTurn(None)


def test_cut_and_empty_replies_are_not_in_one_row() -> None:
    assert next_action(folded(CREATED, *[*CUT_SHORT, *SAID_NOTHING] * 4)) == CallModel(1)


def test_the_bounds_begin_again_with_the_next_turn() -> None:
    woken = TaskWoken((1,), HumanResponseReceived(text="hi"))
    rest = TaskSuspended(HumanResponseReceived())

    assert next_action(folded(CHAT, *CUT_SHORT * 3, rest, woken)) == CallModel(1)
    assert next_action(folded(CHAT, *KILLED * 3, rest, woken)) == CallModel(1)
