"""Stories of steps that were cut short, read whole: what was half done, who took it up, and what became of it."""

from __future__ import annotations

from noeta.core import texts
from noeta.core.events import (
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.wake import ControlReceived, HumanResponseReceived
from noeta.story.parts import Mark, Seen
from tests.unit.story.logs import CALLED, CREATED, REDRIVEN, asks, second, told

W1_W2 = {1: "w1", 2: "w2"}


def test_a_kill_in_a_tool_that_is_run_again() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (1, 0.6, asks(3, "pay")),
            (1, 0.6, ToolStarted("3-0", 1)),
            (2, 3.1, REDRIVEN),
            (2, 3.1, ToolStarted("3-0", 2)),
            (2, 3.2, ToolFinished("3-0", "paid")),
            (2, 3.2, CALLED),
            (2, 3.3, ModelReplied("bye")),
            (2, 3.3, TaskCompleted("bye")),
            seen=Seen(
                W1_W2,
                {1: ("the lease of w1 ran out",)},
                (Mark(second(0.7), "w1 was killed", 1),),
                2,
                names_holders=True,
            ),
        )
        == """
epoch 0, before any worker
  +0.000   1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by w1
  +0.500   2  asked the model
  +0.600   3  the model asked for pay (call 3-0) with {}
  +0.600   4  started pay (call 3-0)
  +0.700   !  w1 was killed
    ~ silent for 2.5 s
    ~ the lease of w1 ran out
    ~ pay (call 3-0) was cut short: started again (start 2)
epoch 2, held by w2
  +3.100   5  gave up what was half done from seq 4 on: the task is taken up again
  +3.100   6  started pay (call 3-0) again, start 2
  +3.200   7  pay (call 3-0) finished: "paid"
  +3.200   8  asked the model
  +3.300   9  the model replied: "bye"
  +3.300  10  completed: "bye"
"""
    )


def test_a_freeze_with_takeover() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (2, 3.0, StepAttemptAbandoned(2, texts.AUTO_REDRIVE)),
            (2, 3.0, ModelCalled("h", 2)),
            (2, 3.5, ModelReplied("bye")),
            (2, 3.5, TaskCompleted("bye")),
            seen=Seen(
                W1_W2,
                {1: ("w1's append of seq 3 was refused",)},
                (Mark(second(3.2), "w1 goes on"), Mark(second(0.6), "w1 was frozen", 1)),
            ),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by w1
  +0.500  2  asked the model
  +0.600  !  w1 was frozen
    ~ silent for 2.5 s
    ~ w1's append of seq 3 was refused
    ~ the model call was cut short: made again with the same request
epoch 2, held by w2
  +3.000  3  gave up what was half done from seq 2 on: the task is taken up again
  +3.000  4  asked the model (attempt 2)
  +3.200  !  w1 goes on
  +3.500  5  the model replied: "bye"
  +3.500  6  completed: "bye"
"""
    )


def test_calls_whose_outcome_is_unknown_and_looked_up() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (1, 0.6, asks(3, "pay", "look")),
            (1, 0.6, ToolStarted("3-0", 1)),
            (1, 0.6, ToolStarted("3-1", 1)),
            (4, 9.0, REDRIVEN),
            (4, 9.0, ToolFinished("3-0", "who knows", is_error=True, source="unknown")),
            (4, 9.0, ToolFinished("3-1", "found", source="recovered")),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  asked the model
  +0.600  3  the model asked for pay (call 3-0) with {}; look (call 3-1) with {}
  +0.600  4  started pay (call 3-0)
  +0.600  5  started look (call 3-1)
    ~ silent for 8.4 s
    ~ pay (call 3-0) was cut short: its outcome is unknown, and the model was told so
    ~ look (call 3-1) was cut short: its outcome was looked up
    ~ 2 claims wrote nothing, of epochs 2 to 3
epoch 4, held by some worker
  +9.000  6  gave up what was half done from seq 4 on: the task is taken up again
  +9.000  7  pay (call 3-0) has an unknown outcome, and the model is told so: "who knows"
  +9.000  8  look (call 3-1) was looked up: "found"
"""
    )


def test_a_call_that_waits_when_it_is_looked_up_and_one_that_nobody_took_up() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (1, 0.6, asks(3, "pay", "look")),
            (1, 0.6, ToolStarted("3-0", 1)),
            (1, 0.6, ToolStarted("3-1", 1)),
            (2, 9.0, REDRIVEN),
            (2, 9.0, ToolParked("3-0", HumanResponseReceived("pin"))),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  asked the model
  +0.600  3  the model asked for pay (call 3-0) with {}; look (call 3-1) with {}
  +0.600  4  started pay (call 3-0)
  +0.600  5  started look (call 3-1)
    ~ silent for 8.4 s
    ~ pay (call 3-0) was cut short: its outcome was looked up, and it waits for its answer
    ~ look (call 3-1) was cut short: nobody has taken it up yet
epoch 2, held by some worker
  +9.000  6  gave up what was half done from seq 4 on: the task is taken up again
  +9.000  7  pay (call 3-0) waits for an answer to pin
"""
    )


def test_a_model_call_given_up_by_a_worker_that_stops() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, ModelCalled("h", 1, "e1")),
            (1, 0.6, StepAttemptAbandoned(2, texts.WORKER_STOPPED)),
            (2, 4.0, ModelCalled("h2", 1, "e2")),
            (2, 4.1, TurnFailed("llm_error", "overloaded")),
            (2, 4.1, TaskFailed("llm_error", "overloaded")),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  asked the model
  +0.600  3  gave up what was half done from seq 2 on: the worker is told to stop
    ~ silent for 3.4 s
    ~ the worker was told to stop, and gave the task back
    ~ the model call was given up: made again with another request, since the agent's code had changed
epoch 2, held by some worker
  +4.000  4  asked the model
  +4.100  5  the turn failed: llm_error: "overloaded"
  +4.100  6  failed: llm_error: "overloaded"
"""
    )


def test_a_model_call_that_keeps_being_cut_short() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (2, 2.0, StepAttemptAbandoned(2, texts.AUTO_REDRIVE)),
            (2, 2.0, ModelCalled("other", 2)),
            (3, 4.0, StepAttemptAbandoned(4, texts.AUTO_REDRIVE)),
            (3, 4.0, TurnFailed("llm_error", texts.MODEL_CALL_INTERRUPTED)),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  asked the model
    ~ silent for 1.5 s
    ~ the model call was cut short: made again with another request
epoch 2, held by some worker
  +2.000  3  gave up what was half done from seq 2 on: the task is taken up again
  +2.000  4  asked the model (attempt 2)
    ~ silent for 2.0 s
    ~ the model call was cut short: the turn failed instead (llm_error)
epoch 3, held by some worker
  +4.000  5  gave up what was half done from seq 4 on: the task is taken up again
  +4.000  6  the turn failed: llm_error: "the model call kept being interrupted"
"""
    )


def test_an_order_to_end_while_a_tool_runs() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (1, 0.6, asks(3, "pay")),
            (1, 0.6, ToolStarted("3-0", 1)),
            (2, 9.0, MessageTaken(1, ControlReceived("cancel", "enough"))),
            (2, 9.0, TaskCancelled("enough")),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  asked the model
  +0.600  3  the model asked for pay (call 3-0) with {}
  +0.600  4  started pay (call 3-0)
    ~ silent for 8.4 s
    ~ pay (call 3-0) was cut short: the task ended instead
epoch 2, held by some worker
  +9.000  5  took item 1: an order to cancel: "enough"
  +9.000  6  cancelled: "enough"
"""
    )
