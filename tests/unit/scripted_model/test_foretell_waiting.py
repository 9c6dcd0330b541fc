"""What is foretold of tasks that wait and delegate, and what nobody could foretell is refused."""

from __future__ import annotations

import pytest

from scripted_model.foretell import depth_of, foretell, foretell_child
from scripted_model.foretold import Foretold
from scripted_model.script import (
    Agent,
    AgentGroup,
    Asked,
    AwaitEvent,
    BadScript,
    Cut,
    Fail,
    Handback,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    Turn,
    asking,
    to_goal,
)
from scripted_model.words import turn_message
from scripted_model.workload import MessageKind, ScheduledMessage, ScriptedTask

FAST = Script("t/1", "child", (Turn((Say(),)),))
FAILING = Script("t/2", "child", (Turn((Fail(),)),))


def steps(*asked: Asked) -> tuple[Step, ...]:
    return tuple(Tools((asking(f"t#{asked.index(one)}", one),)) for one in asked)


def task(*asked: Asked, interactive: bool = False, turns: tuple[Turn, ...] = ()) -> ScriptedTask:
    return ScriptedTask("t", Script("t", "test", (Turn((*steps(*asked), Say())), *turns), interactive))


def said(*kinds: MessageKind | tuple[MessageKind, int]) -> list[ScheduledMessage]:
    """Messages of these kinds, of turn 1 unless said otherwise; every event is of kind ``x``."""
    pairs = [one if isinstance(one, tuple) else (one, 1) for one in kinds]
    return [
        ScheduledMessage(
            "t", n, kind, turn, turn_message(turn, "t") if kind == "turn" else "", event_kind="x" * (kind == "event")
        )
        for n, (kind, turn) in enumerate(pairs, 1)
    ]


def ends(told: Foretold) -> list[tuple[str, str, bool | None]]:
    return [(call.tool, call.source, call.is_error) for call in told.calls]


@pytest.mark.parametrize(
    ("asked", "kinds", "ending"),
    [
        (Agent(FAST), (), ("Agent", "woken", False)),
        (Agent(FAILING), (), ("Agent", "woken", True)),
        (Agent(FAILING, background=True), (), ("Agent", "ran", False)),
        (AgentGroup((FAST, FAILING)), (), ("AgentGroup", "woken", False)),
        (AgentGroup((FAILING,)), (), ("AgentGroup", "woken", True)),
        (Timer(1.0), (), ("ScheduleWakeup", "woken", False)),
        (Question("?"), ("answer",), ("AskUser", "woken", False)),
        (Question("?", 1.0), (), ("AskUser", "woken", True)),
        (Question("?", 1.0), ("answer",), ("AskUser", "woken", None)),
        (AwaitEvent("x"), ("event",), ("WaitForEvent", "woken", False)),
        (AwaitEvent("x", 1.0), (), ("WaitForEvent", "woken", True)),
        (AwaitEvent("x", 1.0), ("event",), ("WaitForEvent", "woken", None)),
    ],
)
def test_each_wait_ends_as_its_kind_does(
    asked: Asked, kinds: tuple[MessageKind, ...], ending: tuple[str, str, bool | None]
) -> None:
    told = foretell(task(asked), said(*kinds))

    assert ends(told) == [ending]
    assert (told.calls[0].starts, told.deaths, told.bounds) == (1, 0, ())
    assert told.outcomes() == {"completed"}


def test_only_events_that_a_call_needs_must_be_taken() -> None:
    assert foretell(task(AwaitEvent("x")), said("event")).message_keys == ("event:x:t/1",)
    assert foretell(task(AwaitEvent("x", 1.0)), said("event")).message_keys == ()
    assert foretell(task(Timer(1.0)), said("event")).message_keys == ()
    # A close may come before the event, which nobody waits for then.
    closed = task(AwaitEvent("x"), interactive=True, turns=(Turn((Say(),)),))
    kinds: list[MessageKind | tuple[MessageKind, int]] = ["event", ("turn", 2)]
    assert len(foretell(closed, said(*kinds)).message_keys) == 2
    assert foretell(closed, said("event", "close", ("turn", 2), ("event", 2))).message_keys == ("human:next-goal:t/3",)


def test_below_the_budget_nobody_is_born_and_the_call_is_refused() -> None:
    deepest = Script("t/1/1", "child", (Turn((*steps(Agent(Script("t/1/1/1", "no", (Turn((Say(),)),)))), Say())),))
    middle = Script("t/1", "child", (Turn((Tools((asking("m", Agent(deepest)),)), Say())),))
    root = foretell(ScriptedTask("t", Script("t", "test", (Turn((Tools((asking("r", Agent(middle)),)), Say())),))))

    assert [(child.name, child.above, child.depth, child.number) for child in root.descendants] == [
        ("t/1", "t", 1, 1),
        ("t/1/1", "t/1", 2, 1),
        ("t/1/1/1", "t/1/1", 3, 1),
    ]
    assert [child.name for child in root.children] == ["t/1"]
    for depth_max, ending, born in ((2, ("Agent", "ran", True), 0), (3, ("Agent", "woken", False), 1)):
        told = foretell_child("t.3-0.1.5-0.1", to_goal(deepest), root=root, max_subtask_depth=depth_max)
        assert (ends(told), len(told.children)) == ([ending], born)
    assert len(foretell(task(Agent(FAST)), max_subtask_depth=0).descendants) == 0
    assert ends(foretell(task(Agent(FAST, background=True)), max_subtask_depth=0)) == [("Agent", "ran", True)]


@pytest.mark.parametrize(("task_id", "depth"), [("t", 0), ("t.3-0.1", 1), ("t.3-0.1.15-2.10", 2)])
def test_the_depth_stands_in_the_id(task_id: str, depth: int) -> None:
    assert depth_of(task_id) == depth


@pytest.mark.parametrize(
    ("interactive", "background", "kinds", "may"),
    [
        (False, False, (), False),
        (False, True, (), True),
        (True, True, (), False),
        (True, False, ("cancel",), True),
        (True, True, ("cancel",), True),
        (False, False, ("cancel",), True),
    ],
)
def test_a_sub_agent_may_be_cancelled_only_where_something_above_may_end_early(
    interactive: bool, background: bool, kinds: tuple[MessageKind, ...], may: bool
) -> None:
    """Whoever works for one in the background shares its fate."""
    below = Script("t/1/1", "child", (Turn((Fail(),)),))
    child = Script("t/1", "child", (Turn((Tools((asking("b", Agent(below)),)), Say())),))
    root = foretell(task(Agent(child, background), interactive=interactive), said(*kinds))

    for one, plain in ((child, "completed"), (below, "failed")):
        told = foretell_child(f"t.3-0.1{'.3-0.1' * (one is below)}", to_goal(one), root=root)
        assert told.outcomes() == ({plain, "cancelled"} if may else {plain})
    assert foretell_child("t.3-0.1", to_goal(child)).may_be_cancelled


def test_a_cancel_decides_by_what_became_of_its_post() -> None:
    done = foretell(task(Timer(1.0)), said("cancel"))
    failing = foretell(ScriptedTask("t", Script("t", "test", (Turn((Cut(),)),))), said("cancel"))
    (key,) = done.cancel_keys

    assert done.outcomes() == done.outcomes({"human:next-goal:t/9"}) == {"completed"}
    assert done.outcomes({key}) == {"cancelled"}
    assert failing.outcomes({key}) == {"failed", "cancelled"}
    # What a cancelled task would still have waited for nobody need bring.
    assert foretell(task(Question("?")), said("cancel")).outcomes({key}) == {"cancelled"}


def test_after_a_close_the_calls_and_the_last_answer_stand_but_turns_are_not_counted() -> None:
    closed = task(Agent(FAST), interactive=True, turns=(Turn((Say(),)),))
    told = foretell(closed, said("close", ("turn", 2)))
    plain = foretell(closed, said(("turn", 2)))

    assert told.close_keys == ("close:t/1",)
    assert (told.outcome, told.answer, told.calls) == (plain.outcome, plain.answer, plain.calls)
    assert not told.turns_counted
    assert all(child.may_be_cancelled for child in told.descendants)


@pytest.mark.parametrize(
    ("one", "kinds", "counted"),
    [
        (task(Timer(1.0)), (), True),
        (task(Timer(1.0)), ("note", "event"), True),
        (task(Timer(1.0), interactive=True), (), True),
        (task(Timer(1.0), interactive=True), ("event",), True),
        (task(Timer(1.0), interactive=True), ("note",), False),
        (task(Agent(FAST, background=True)), (), True),
        (task(Agent(FAST, background=True), interactive=True), (), False),
    ],
)
def test_turns_are_counted_unless_something_may_share_or_open_one(
    one: ScriptedTask, kinds: tuple[MessageKind, ...], counted: bool
) -> None:
    assert foretell(one, said(*kinds)).turns_counted == counted


TWO = (Turn((Say(),)),)


@pytest.mark.parametrize(
    ("one", "kinds", "problem"),
    [
        (task(Question("?")), (), "nobody brings the answer"),
        (task(Question("?"), Question("?!")), ("answer",), "nobody brings the answer"),
        (task(Question("?", 1.0), Question("?!")), ("answer",), "nobody brings the answer"),
        (task(AwaitEvent("x")), (), "nobody brings the event 'x'"),
        (task(AwaitEvent("x"), Question("?")), ("answer", "event"), "nobody brings the answer"),
        (task(Question("?"), interactive=True, turns=TWO), (("turn", 2), ("answer", 1)), "nobody brings the answer"),
        (task(Timer(1.0)), ("close",), "only the turn of an interactive task"),
        (task(Timer(1.0), interactive=True), ("close",), "the message of turn 2 must follow"),
        (task(Timer(1.0), interactive=True, turns=TWO), (("turn", 2), "close"), "the message of turn 2 must follow"),
        (
            task(Question("?"), interactive=True, turns=TWO),
            ("answer", "close", ("turn", 2)),
            "nobody brings the answer",
        ),
    ],
)
def test_a_task_that_would_be_left_waiting_is_refused(
    one: ScriptedTask, kinds: tuple[MessageKind | tuple[MessageKind, int], ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        foretell(one, said(*kinds))


@pytest.mark.parametrize(
    ("one", "kinds"),
    [
        (task(Question("?"), AwaitEvent("x")), ("answer", "event")),
        (task(AwaitEvent("x"), Question("?")), ("event", "answer")),
        (task(Question("?"), AwaitEvent("x")), ("event", "answer")),
        (task(Question("?", 1.0), Question("?")), ("answer", "answer")),
        (task(Question("?", 1.0), Question("?")), ("note", "answer", "answer", "event")),
        (task(Question("?"), interactive=True, turns=TWO), ("close", ("turn", 2), ("answer", 2))),
        (task(AwaitEvent("x"), interactive=True, turns=TWO), ("event", "close", ("turn", 2))),
    ],
)
def test_what_brings_everything_in_time_is_foretold(
    one: ScriptedTask, kinds: tuple[MessageKind | tuple[MessageKind, int], ...]
) -> None:
    assert foretell(one, said(*kinds)).reason is None


def test_a_turn_that_fails_cannot_be_closed() -> None:
    hurt = ScriptedTask("t", Script("t", "test", (Turn((Cut(),)), Turn((Say(),))), interactive=True))

    with pytest.raises(ValueError, match="a turn that fails cannot be closed"):
        foretell(hurt, said("close", ("turn", 2)))


def test_a_task_without_a_parent_hands_nothing_back() -> None:
    with pytest.raises(BadScript, match="nobody to hand back to"):
        foretell(task(Handback("done")))


def test_failures_of_a_sub_agent_that_exhaust_the_retry_policy_are_refused_with_the_root() -> None:
    child = Script("t/1", "child", (Turn((Fail(3), Say())),))

    with pytest.raises(ValueError, match="t/1: 3 failures pass only"):
        foretell(task(Agent(child)), retry_attempts=3)
