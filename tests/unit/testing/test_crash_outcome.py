"""What a user's check is told of a task, from its log."""

from __future__ import annotations

import pytest

from noeta.core.events import (
    Entry,
    Event,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.wake import HumanResponseReceived
from noeta.testing.crash_outcome import Outcome, TaskOutcome, outcome_of

WAITS = HumanResponseReceived()


def told(*events: Event) -> TaskOutcome:
    return outcome(*events)["t"]


def outcome(*events: Event) -> Outcome:
    every = (TaskCreated("main", "goal"), *events)
    return outcome_of({"t": [Entry(seq, 1, 0, event, "") for seq, event in enumerate(every, start=1)]})


def test_a_task_is_what_its_last_entry_says() -> None:
    assert told().status == "unfinished"
    assert told(TaskCompleted("done")).status == "completed"
    assert told(TaskSuspended(WAITS, "well?")).status == "waiting"
    assert told(TaskSuspended(WAITS), TaskWoken((1,), WAITS)).status == "unfinished"
    assert told(TaskCancelled("enough")).reason == "enough"
    failed = told(TurnFailed("llm_error", "no"), TaskFailed("internal_error", "no"))
    assert (failed.status, failed.reason, failed.failures) == ("failed", "internal_error", ("llm_error",))


def test_answers_are_those_of_every_turn() -> None:
    two = told(TaskSuspended(WAITS, "one"), TaskWoken((1,), WAITS), TaskSuspended(WAITS, "two"))

    assert (two.answers, two.answer) == (("one", "two"), "two")
    assert told(TaskCompleted(None)).answer is None


def test_a_call_tells_its_starts_and_its_end() -> None:
    asked = ModelReplied("", tuple(ToolCall(f"3-{n}", "pay", {"n": n}) for n in range(5)), "tool_use")
    found = outcome(
        asked,
        ToolStarted("3-0", 1),
        ToolStarted("3-0", 2),
        ToolFinished("3-0", "paid"),
        ToolFinished("3-1", "no", is_error=True),
        ToolFinished("3-2", "paid", source="recovered"),
        ToolFinished("3-3", "who knows", is_error=True, source="unknown"),
    )

    calls = found["t"].calls
    assert [call.ended for call in calls] == ["result", "error", "recovered", "unknown", "open"]
    assert [call.starts for call in calls] == [2, 0, 0, 0, 0]
    assert [call.id for call in found["t"].unknown] == ["3-3"]
    assert found.call("t:3-2") == calls[2]
    assert found.call("t:9-9") is None


def test_an_outcome_is_certain_if_no_call_is_unknown_or_open() -> None:
    asked = ModelReplied("", (ToolCall("2-0", "pay", {}),), "tool_use")

    assert outcome(asked, ToolFinished("2-0", "paid")).is_certain("t")
    assert not outcome(asked, ToolFinished("2-0", "?", source="unknown")).is_certain("t")
    assert not outcome(asked).is_certain("t")


def test_a_task_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(KeyError, match="no task 'x', only t"):
        outcome()["x"]


def test_statuses_and_answers_are_by_task() -> None:
    done = outcome(TaskCompleted("done"))

    assert done.statuses == {"t": "completed"}
    assert done.answers == {"t": "done"}
    assert done.completed("t")
