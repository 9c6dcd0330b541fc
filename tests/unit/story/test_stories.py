"""Stories of logs written by hand, read whole: what was cut short, how it went on, and what lay between."""

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
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
)
from noeta.story.parts import Mark, Seen
from tests.unit.story.logs import CREATED, MESSAGE, REST, second, told

CALLED = ModelCalled("h", 1)
REDRIVEN = StepAttemptAbandoned(4, "auto_redrive")
W1_W2 = {1: "w1", 2: "w2"}


def asks(seq: int, *tools: str) -> ModelReplied:
    """A reply at this seq that asks for these tools."""
    return ModelReplied("", tuple(ToolCall(f"{seq}-{n}", tool, {}) for n, tool in enumerate(tools)), "tool_use")


GROUP = SubtaskGroupCompleted("t.3-0", 2)
ALL = SubtaskGroupCompleted("t.3-0", 2, (SubtaskCompleted("t.3-0.1"), SubtaskCompleted("t.3-0.2", "failed")))


def asked(call: str, text: str = "") -> HumanResponseReceived:
    """What a call waits for that a person is to approve."""
    return HumanResponseReceived(f"approval:t:{call}", text)


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
  +3.100   5  gave up what was half done from seq 4 on: it is taken up again
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
            (2, 3.0, StepAttemptAbandoned(2, "auto_redrive")),
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
  +3.000  3  gave up what was half done from seq 2 on: it is taken up again
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
  +9.000  6  gave up what was half done from seq 4 on: it is taken up again
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
  +9.000  6  gave up what was half done from seq 4 on: it is taken up again
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
            (2, 2.0, StepAttemptAbandoned(2, "auto_redrive")),
            (2, 2.0, ModelCalled("other", 2)),
            (3, 4.0, StepAttemptAbandoned(4, "auto_redrive")),
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
  +2.000  3  gave up what was half done from seq 2 on: it is taken up again
  +2.000  4  asked the model (attempt 2)
    ~ silent for 2.0 s
    ~ the model call was cut short: the turn failed instead (llm_error)
epoch 3, held by some worker
  +4.000  5  gave up what was half done from seq 4 on: it is taken up again
  +4.000  6  the turn failed: llm_error: "the model call kept being interrupted"
"""
    )


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
        +9.000  6  told people: "The worker of this task was lost in the middle of: pay (3-0). Their outcome
                   is unknown. The task waits for a message that says how to go on."
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
    ~ job 2-2 ("watch") was running: lost with its worker, and the model was told so
epoch 2, held by some worker
  +3:20.700  12  job 2-2 is lost with the worker that ran it; the model is told
"""
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
