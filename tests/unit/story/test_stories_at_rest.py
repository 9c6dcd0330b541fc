"""Stories of tasks that rest, read whole: what they wait for, how long, and what ended it."""

from __future__ import annotations

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    JobEnded,
    JobLost,
    JobStarted,
    ModelCalled,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
)
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived, SubtaskCompleted, SubtaskGroupCompleted
from tests.unit.story.logs import CALLED, CREATED, MESSAGE, REST, asked, asks, told

GROUP = SubtaskGroupCompleted("t.3-0", 2)
ALL = SubtaskGroupCompleted("t.3-0", 2, (SubtaskCompleted("t.3-0.1"), SubtaskCompleted("t.3-0.2", "failed")))


def test_a_group_with_children() -> None:
    assert (
        told(
            (0, 0.0, TaskCreated("clerk", "go", parent_task_id="top")),
            (1, 0.5, CALLED),
            (1, 0.6, asks(3, "AgentGroup")),
            (1, 0.6, ToolStarted("3-0", 1)),
            (1, 0.6, ToolParked("3-0", GROUP, ("t.3-0.1", "t.3-0.2"))),
            (1, 0.6, TaskSuspended(GROUP)),
            (2, 62.6, TaskWoken((2, 1), ALL)),
            (2, 62.6, ToolFinished("3-0", "both", source="woken")),
        )
        == """
epoch 0, before any worker
     +0.000  1  created: agent clerk, one-shot, for task top: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
     +0.500  2  asked the model
     +0.600  3  the model asked for AgentGroup (call 3-0) with {}
     +0.600  4  started AgentGroup (call 3-0)
     +0.600  5  AgentGroup (call 3-0) waits for 2 tasks of group t.3-0; born: t.3-0.1, t.3-0.2
     +0.600  6  rests, waiting for 2 tasks of group t.3-0
    ~ rested 1 min 02 s
epoch 2, held by some worker
  +1:02.600  7  woken by items 2, 1: group t.3-0 is complete: t.3-0.1 completed, t.3-0.2 failed
  +1:02.600  8  AgentGroup (call 3-0) has its answer: "both"
"""
    )


def test_an_order_to_end_while_nobody_runs_it() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, TaskSuspended(REST, "hi")),
            (2, 90.0, TaskCancelled("enough")),
        )
        == """
epoch 0, before any worker
     +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
     +0.500  2  rests, waiting for a message, having answered "hi"
    ~ rested 1 min 29 s
epoch 2, held by nobody, ended by an order
  +1:30.000  3  cancelled: "enough"
"""
    )


def test_a_task_that_was_parked() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CALLED),
            (1, 0.6, asks(3, "pay")),
            (1, 0.6, ToolStarted("3-0", 1)),
            (2, 9.0, StepAttemptAbandoned(4, texts.ATTEMPT_PARKED)),
            (2, 9.0, NoticeGiven(texts.PARKED_NOTICE.format(calls="pay (3-0)"))),
            (2, 9.0, TaskSuspended(REST, reason=texts.ATTEMPT_PARKED)),
            (3, 10_809.0, TaskWoken((1,), MESSAGE)),
            width=110,
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
    ~ pay (call 3-0) was cut short: left to a person: the task was parked, and people were told
epoch 2, held by some worker
        +9.000  5  gave up what was half done from seq 4 on: a person is to say how it goes on
        +9.000  6  told people: "The worker of this task was lost in the middle of: pay (3-0). What came of
                   that is unknown. The task waits for a message that says how to go on."
        +9.000  7  rests, waiting for a message, parked until a person says how it goes on
    ~ rested 3 h 00 min
epoch 3, held by some worker
  +3:00:09.000  8  woken by item 1: the message "hello"
"""
    )


def test_an_approval_that_is_given_and_one_that_is_not() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, asks(2, "pay", "drop")),
            (1, 0.5, ApprovalAsked("2-0", asked("2-0"), "Pay 9 euros?", {"euros": 9})),
            (1, 0.5, TaskSuspended(asked("2-0"))),
            (2, 5.0, TaskWoken((1,), asked("2-0", "approve"))),
            (2, 5.0, ToolStarted("2-0", 1, {"euros": 9})),
            (2, 5.1, ToolFinished("2-0", "paid")),
            (2, 5.1, ApprovalAsked("2-1", asked("2-1"), "Drop it?")),
            (2, 5.1, TaskSuspended(asked("2-1"))),
            (3, 7.0, TaskWoken((2,), asked("2-1", "no"))),
            (3, 7.0, ToolFinished("2-1", "Not done: no", is_error=True, source="denied")),
            width=110,
        )
        == """
epoch 0, before any worker
  +0.000   1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
  +0.500   2  the model asked for pay (call 2-0) with {}; drop (call 2-1) with {}
  +0.500   3  pay (call 2-0) waits for a person's approval, a gate having changed its input to {"euros": 9}:
              "Pay 9 euros?"
  +0.500   4  rests, waiting for an answer to approval:t:2-0
    ~ rested 4.5 s
epoch 2, held by some worker
  +5.000   5  woken by item 1: the answer "approve" to approval:t:2-0
  +5.000   6  started pay (call 2-0), a gate having changed its input to {"euros": 9}
  +5.100   7  pay (call 2-0) finished: "paid"
  +5.100   8  drop (call 2-1) waits for a person's approval: "Drop it?"
  +5.100   9  rests, waiting for an answer to approval:t:2-1
    ~ rested 1.9 s
epoch 3, held by some worker
  +7.000  10  woken by item 2: the answer "no" to approval:t:2-1
  +7.000  11  drop (call 2-1) was denied, and not started: "Not done: no"
"""
    )


def test_jobs_that_end_are_killed_and_lost() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, asks(2, "Shell", "Shell")),
            (1, 0.5, ToolStarted("2-0", 1)),
            (1, 0.6, ToolFinished("2-0", "started")),
            (1, 0.6, JobStarted("2-0", "make all")),
            (1, 0.6, JobStarted("2-1", "sleep 9")),
            (1, 0.6, JobStarted("2-2", "watch")),
            (1, 0.6, TaskSuspended(REST, "they run")),
            (1, 60.6, JobEnded("2-0", "exited", exit_code=2, output="no rule")),
            (1, 60.6, JobEnded("2-1", "killed", signal=9)),
            (1, 60.7, TaskSuspended(REST, "two are over")),
            (2, 200.7, JobLost("2-2")),
        )
        == """
epoch 0, before any worker
     +0.000   1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
     +0.500   2  the model asked for Shell (call 2-0) with {}; Shell (call 2-1) with {}
     +0.500   3  started Shell (call 2-0)
     +0.600   4  Shell (call 2-0) finished: "started"
     +0.600   5  started job 2-0 in the background: "make all"
     +0.600   6  started job 2-1 in the background: "sleep 9"
     +0.600   7  started job 2-2 in the background: "watch"
     +0.600   8  rests, waiting for a message, having answered "they run"
    ~ rested 1 min 00 s, its worker keeping the claim
  +1:00.600   9  job 2-0 exited with code 2: "no rule"
  +1:00.600  10  job 2-1 was killed by signal 9, having written nothing
  +1:00.700  11  rests, waiting for a message, having answered "two are over"
    ~ rested 2 min 20 s
    ~ job 2-2 ("watch") was running: lost with that claim, and the model was told so
epoch 2, held by some worker
  +3:20.700  12  job 2-2 is lost with the claim that ran it; the model is told
"""
    )


def test_a_job_is_lost_with_the_claim_that_ran_it_and_not_again_with_a_later_one() -> None:
    """The claim after it may end before anybody writes of the loss."""
    told_of = told(
        (0, 0.0, CREATED),
        (1, 0.5, asks(2, "Shell")),
        (1, 0.5, ToolStarted("2-0", 1)),
        (1, 0.6, ToolFinished("2-0", "started")),
        (1, 0.6, JobStarted("2-0", "make all")),
        (1, 0.6, CALLED),
        (2, 9.0, StepAttemptAbandoned(6, texts.AUTO_REDRIVE)),
        (2, 9.0, ModelCalled("h", 2)),
        (3, 18.0, StepAttemptAbandoned(8, texts.AUTO_REDRIVE)),
        (3, 18.0, JobLost("2-0")),
    )

    (line,) = [line for line in told_of.splitlines() if "was running" in line]
    assert line == (
        '    ~ job 2-0 ("make all") was running: lost with that claim, and the model was told so (under epoch 3)'
    )


def test_a_job_of_a_task_that_ends_before_anybody_wrote_of_it() -> None:
    """Its claim ended it, whatever the log says; only how is not known."""
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, asks(2, "Shell")),
            (1, 0.5, ToolStarted("2-0", 1)),
            (1, 0.6, ToolFinished("2-0", "started")),
            (1, 0.6, JobStarted("2-0", "make all")),
            (2, 9.0, TaskFailed("stale_reclaim_exceeded", "too often")),
        ).splitlines()[-4:]
        == """\
    ~ silent for 8.4 s
    ~ job 2-0 ("make all") was running: it ended with that claim, and nobody wrote down how
epoch 2, held by some worker
  +9.000  6  failed: stale_reclaim_exceeded: "too often"
""".splitlines()
    )


def test_crons_that_fire() -> None:
    assert (
        told(
            (0, 0.0, CREATED),
            (1, 0.5, CronSet("c1", "0 6 * * *", "Europe/Berlin", "tidy up", 1_700_000_000.0)),
            (1, 0.5, TaskSuspended(HumanResponseReceived(NEXT_GOAL, timeout_at=1_700_086_400.0), "set")),
            (2, 200_000.0, TaskWoken((1,), HumanResponseReceived(NEXT_GOAL, timeout_at=1_700_086_400.0))),
            (2, 200_000.0, CronFired("c1", 1_700_172_800.0, 1)),
            (2, 200_000.0, CronRemoved("c1")),
        )
        == """
epoch 0, before any worker
           +0.000  1  created: agent clerk, one-shot: "go"
    ~ waited 0.500 s for a worker
epoch 1, held by some worker
           +0.500  2  cron c1 is set, "0 6 * * *" in Europe/Berlin, to say "tidy up"
           +0.500  3  rests, waiting for a message, or its cron table, at 2023-11-15 22:13:20Z, having answered "set"
    ~ rested 2 d 07 h
epoch 2, held by some worker
  +2d 7:33:20.000  4  woken by item 1: its cron table
  +2d 7:33:20.000  5  cron c1 fired, due 2023-11-16 22:13:20Z; 1 earlier skipped
  +2d 7:33:20.000  6  cron c1 is removed
"""
    )
