"""What comes next: every branch, and every bound reached. Keeps: bounded."""

from __future__ import annotations

import pytest
from hypothesis import given

from noeta.core import texts
from noeta.core.actions import (
    AnswerCall,
    CallModel,
    EndCancelled,
    Ended,
    EndTurn,
    FailTurn,
    Interrupted,
    Rest,
    StartCall,
    Wait,
    next_action,
)
from noeta.core.events import (
    Entry,
    Event,
    MessageTaken,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
)
from noeta.core.fold import fold
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, TimerFired
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


@pytest.mark.holds("recovery/two-things", "model/left-open")
def test_a_model_call_without_a_reply_was_interrupted() -> None:
    assert next_action(folded(CREATED, CALLED)) == Interrupted(2, ())


@pytest.mark.holds("recovery/two-things", "tool/interrupted")
def test_a_started_tool_call_was_interrupted() -> None:
    state = folded(CREATED, CALLED, replied(3, "a", "b"), ToolStarted("3-0", 1))

    assert next_action(state) == Interrupted(None, (state.calls["3-0"],))


def test_an_order_comes_before_what_was_interrupted() -> None:
    """A call that was left half done is not looked up, and not started again, in a task that is to end."""
    order = ControlReceived()
    state = folded(CREATED, CALLED, replied(3, "a"), ToolStarted("3-0", 1), MessageTaken(1, order))

    assert next_action(state) == EndCancelled(order)
    assert isinstance(next_action(state, ordered=False), Interrupted)


def test_a_cancel_stands_whatever_comes_after_it() -> None:
    cancel, close = ControlReceived("cancel", "enough"), ControlReceived("close")
    log = (CREATED, CALLED, replied(3, "a"))

    assert next_action(folded(*log, MessageTaken(1, cancel), MessageTaken(2, close))) == EndCancelled(cancel)
    assert next_action(folded(*log, MessageTaken(1, close), MessageTaken(2, cancel))) == EndCancelled(cancel)


def test_a_parked_call_lets_the_others_run_and_then_the_task_rests() -> None:
    wait = HumanResponseReceived("question")
    log = (CREATED, CALLED, replied(3, "ask", "a"), ToolStarted("3-0", 1), ToolParked("3-0", wait))
    parked = folded(*log)
    rested = folded(*log, ToolStarted("3-1", 1), ToolFinished("3-1", "x"))

    assert next_action(parked) == StartCall(parked.calls["3-1"])
    assert next_action(rested) == Rest(wait)


def test_an_answer_becomes_the_result_of_its_call() -> None:
    wait = HumanResponseReceived("question")
    log = (CREATED, CALLED, replied(3, "ask"), ToolStarted("3-0", 1), ToolParked("3-0", wait), TaskSuspended(wait))
    answer = HumanResponseReceived("question", "yes")
    woken = folded(*log, TaskWoken((1,), answer))

    assert next_action(folded(*log)) == Wait(wait)
    assert next_action(woken) == AnswerCall(woken.calls["3-0"])
    assert woken.calls["3-0"].answer == answer
    told = folded(*log, TaskWoken((1,), answer), ToolFinished("3-0", "yes", source="woken"))
    assert next_action(told) == CallModel(1)


def test_two_parked_calls_are_waited_for_one_after_the_other() -> None:
    first, second = HumanResponseReceived("one"), ExternalEvent("two")
    log = (
        CREATED,
        CALLED,
        replied(3, "ask", "wait"),
        ToolStarted("3-0", 1),
        ToolParked("3-0", first),
        ToolStarted("3-1", 1),
        ToolParked("3-1", second),
        TaskSuspended(first),
        TaskWoken((1,), first),
        ToolFinished("3-0", "", source="woken"),
    )

    assert next_action(folded(*log)) == Rest(second)


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
