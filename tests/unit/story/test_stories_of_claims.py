"""Stories of the claims of a task, read whole: those that wrote nothing, that nobody saw, or that broke a law; and how
their lines are broken."""

from __future__ import annotations

from noeta.core.events import ModelReplied, TaskCancelled, TaskCompleted, ToolStarted
from noeta.story.parts import Mark, Seen
from tests.unit.story.logs import CALLED, CREATED, asks, second, told


def test_a_claim_that_was_given_back_between_two_steps() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (1, 0.6, ModelReplied("go on", stop="max_tokens")),
            (2, 1.0, CALLED),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  asked the model
  +0.600  3  the model replied (cut at its limit): "go on"
    ~ silent for 0.400 s
    ~ nothing was cut short: it was given back, or lost between two steps
epoch 2, held by some worker
  +1.000  4  asked the model
"""
    )


def test_claims_that_wrote_nothing_are_told_if_somebody_saw_them() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (5, 9.0, CALLED),
            seen=Seen(
                {1: "w1", 2: "w2", 5: "w5", 6: "w6"},
                {2: ("w2 gave the task back",), 5: ("w5 broke",)},
                (Mark(second(4.0), "w4 was killed", 4),),
                7,
                names_holders=True,
            ),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by w1
  +0.500  2  asked the model
    ~ silent for 8.5 s
    ~ the model call was cut short: made again with the same request
    ~ the claim of epoch 3 wrote nothing
epoch 2, held by w2, wrote nothing
    ~ w2 gave the task back
epoch 4, held by a worker that nobody saw, wrote nothing
  +4.000  !  w4 was killed
epoch 5, held by w5
  +9.000  3  asked the model
    ~ nothing was written since
    ~ w5 broke
    ~ the model call was cut short: nobody has taken it up yet
    ~ the claim of epoch 7 wrote nothing
epoch 6, held by w6, wrote nothing
"""
    )


def test_claims_that_nobody_saw_are_counted() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, asks(2, "pay")),
            (1, 0.5, ToolStarted("2-0", 1)),
            seen=Seen(epoch=9),
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  the model asked for pay (call 2-0) with {}
  +0.500  3  started pay (call 2-0)
    ~ nothing was written since
    ~ pay (call 2-0) was cut short: nobody has taken it up yet
    ~ 8 claims wrote nothing, of epochs 2 to 9
"""
    )


def test_a_log_that_breaks_its_laws_is_told_all_the_same() -> None:
    assert (
        told(
            (2, 0.0, CALLED),
            (2, 0.1, ModelReplied("bye")),
            (2, 0.1, TaskCompleted("bye")),
            (1, 0.2, ModelReplied("late")),
            (3, 0.3, CALLED),
        )
        == """
epoch 2, held by some worker
  +0.000  1  asked the model
  +0.100  2  the model replied: "bye"
  +0.100  3  completed: "bye"
    ~ silent for 0.100 s
    ~ an older claim wrote behind a newer one
epoch 1, held by some worker
  +0.200  4  the model replied: "late"
    ~ silent for 0.100 s
    ~ nothing was cut short: it was given back, or lost between two steps
epoch 3, held by some worker
  +0.300  5  asked the model
"""
    )


def test_lines_are_broken_where_the_width_ends() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, ModelReplied("one two three four five six seven eight")),
            (2, 9.0, TaskCancelled()),
            width=44,
        )
        == """
epoch 0, before any worker
  +0.000  1  created: agent clerk, one-shot:
             "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500  2  the model replied: "one two
             three four five six seven
             eight"
    ~ silent for 8.5 s
    ~ nothing was cut short: it was given
      back, or lost between two steps
epoch 2, held by nobody, ended by an order
  +9.000  3  cancelled
"""
    )
