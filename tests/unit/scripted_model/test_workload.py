"""What a client says and does, and when, is decided from the task's row alone."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.core.lower import lower_item
from noeta.core.task import Status
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    TimerFired,
    WakeCondition,
)
from scripted_model.workload import MessageKind, ScheduledMessage, answer_for, child_cancel_key, is_due
from tests.unit.scripted_model.rows import row_of

QUESTION = HumanResponseReceived("question:t:7-0")
TIMED = HumanResponseReceived("question:t:7-0", timeout_at=5.0)
GOAL, EVENT, CHILD, TIMER = HumanResponseReceived(), ExternalEvent("x"), SubtaskCompleted("t.7-0.1"), TimerFired(5.0)
WAITS: tuple[WakeCondition, ...] = (GOAL, QUESTION, TIMED, EVENT, CHILD, TIMER)


def message(kind: MessageKind, **more: Any) -> ScheduledMessage:
    return ScheduledMessage("t", 1, kind, 1, **more)


def due_while(one: ScheduledMessage) -> list[Status | WakeCondition]:
    """The statuses and waits in which it is due."""
    statuses = [Status.PENDING, Status.RUNNING, Status.TERMINAL]
    due: list[Status | WakeCondition] = [s for s in statuses if is_due(one, row_of(s), (), set())]
    return due + [wait for wait in WAITS if is_due(one, row_of(Status.SUSPENDED, wait), (), set())]


@pytest.mark.parametrize(
    ("one", "due"),
    [
        (message("turn"), [Status.TERMINAL, GOAL, QUESTION, EVENT]),
        (message("note"), [Status.RUNNING, Status.TERMINAL, *WAITS]),
        (message("answer"), [Status.TERMINAL, GOAL, QUESTION, TIMED, EVENT]),
        (message("event", when="waiting"), [Status.TERMINAL, GOAL, QUESTION, TIMED, EVENT]),
        (message("event", when="begun"), [Status.RUNNING, Status.TERMINAL, *WAITS]),
        (message("event", when="created"), [Status.PENDING, Status.RUNNING, Status.TERMINAL, *WAITS]),
        (message("cancel", when="created"), [Status.PENDING, Status.RUNNING, Status.TERMINAL, *WAITS]),
        (message("cancel", when="begun"), [Status.RUNNING, Status.TERMINAL, *WAITS]),
        (message("close", when="waiting"), [Status.TERMINAL, *WAITS]),
    ],
    ids=lambda one: f"{one.kind} {one.when}" if isinstance(one, ScheduledMessage) else "",
)
def test_each_kind_is_due_where_it_belongs_and_always_once_the_task_has_ended(
    one: ScheduledMessage, due: list[Status | WakeCondition]
) -> None:
    assert due_while(one) == due


@pytest.mark.parametrize("kind", ["turn", "note", "answer", "event", "cancel", "close"])
def test_nothing_is_due_before_what_stands_before_it(kind: MessageKind) -> None:
    earlier = (message("event", event_kind="x"),)
    ended = row_of(Status.TERMINAL)

    assert not is_due(message(kind), ended, earlier, set())
    assert is_due(message(kind), ended, earlier, {earlier[0].key})


@pytest.mark.parametrize(
    ("one", "item", "key"),
    [
        (message("turn", text="turn 2: go on"), HumanResponseReceived(text="turn 2: go on"), "human:next-goal:t/1"),
        (message("note", text="by the way"), HumanResponseReceived(text="by the way"), "human:next-goal:t/1"),
        (message("event", event_kind="x", payload={"n": 1}), ExternalEvent("x", {"n": 1}), "event:x:t/1"),
        (message("event", event_kind="x"), ExternalEvent("x", None), "event:x:t/1"),
        (message("cancel", text="enough"), ControlReceived("cancel", "enough"), "cancel:t/1"),
        (message("close"), ControlReceived("close"), "close:t/1"),
    ],
)
def test_what_is_posted_and_under_which_key(one: ScheduledMessage, item: object, key: str) -> None:
    assert one.post_for(row_of(Status.RUNNING)) == (item, key) == (one.item, one.key)
    lower_item("t", one.item, one.key)


def test_an_answer_goes_to_the_question_in_the_row_whoever_gives_it_and_is_the_same_each_time() -> None:
    asking = row_of(Status.SUSPENDED, QUESTION)
    item, key = answer_for(asking) or (None, None)

    assert isinstance(item, HumanResponseReceived)
    assert (item.handle, key) == (QUESTION.handle, f"human:{QUESTION.handle}:answer")
    assert item.text
    assert message("answer").post_for(asking) == message("answer", posts=3).post_for(asking) == (item, key)
    assert answer_for(row_of(Status.SUSPENDED, HumanResponseReceived("question:t:8-0"))) != (item, key)
    with pytest.raises(ValueError, match="stands in the row"):
        message("answer").item  # noqa: B018


def test_answers_hold_odd_text_now_and_then_and_can_all_be_posted() -> None:
    answers = [answer_for(row_of(Status.SUSPENDED, HumanResponseReceived(f"question:t:{n}-0"))) for n in range(200)]

    odd = 0
    for answer in answers:
        assert answer is not None
        lower_item("t", *answer)
        assert isinstance(answer[0], HumanResponseReceived)
        odd += not answer[0].text.isascii()
    assert 20 < odd < 80


def test_some_sub_agents_are_cancelled_instead_and_no_root_is() -> None:
    rows = [row_of(Status.SUSPENDED, HumanResponseReceived(f"question:t.3-0.1:{n}-0")) for n in range(200)]
    said = [answer_for(row) for row in rows]
    cancels = [one for one in said if one is not None and isinstance(one[0], ControlReceived)]

    assert 20 < len(cancels) < 80
    assert {key for _, key in cancels} == {child_cancel_key("t.3-0.1")}


@pytest.mark.parametrize("wait", [GOAL, EVENT, CHILD, TIMER])
def test_nobody_answers_what_is_no_question(wait: WakeCondition) -> None:
    row = row_of(Status.SUSPENDED, wait)

    assert answer_for(row) is None
    assert message("answer").post_for(row) is None


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.TERMINAL])
def test_nobody_answers_a_task_that_does_not_wait(status: Status) -> None:
    assert answer_for(row_of(status, QUESTION)) is None
    assert message("answer").post_for(row_of(status, QUESTION)) is None


def test_a_question_with_a_time_limit_is_left_to_its_scheduled_answer() -> None:
    row = row_of(Status.SUSPENDED, TIMED)

    assert answer_for(row) is None
    assert message("answer").post_for(row) == answer_for(row_of(Status.SUSPENDED, QUESTION))
