"""Scripts are data that survive their JSON; those that could not be foretold are refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noeta.core import codec
from scripted_model.script import (
    Agent,
    AgentGroup,
    Arguments,
    Asked,
    AwaitEvent,
    BadScript,
    Call,
    Cut,
    Empty,
    Fail,
    Handback,
    Kill,
    Odd,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    Turn,
    asking,
    from_goal,
    to_goal,
    tree_of,
)


def script(*steps: Step, turns: Sequence[Turn] = (), interactive: bool = False) -> Script:
    return Script("t1", "test", tuple(turns) or (Turn(steps),), interactive)


def tools(tool: str = "plain", tag: str = "a", **more: object) -> Tools:
    return Tools((Call(tool, Arguments(tag, **more)),))  # type: ignore[arg-type]


def asks(asked: Asked, tag: str = "a") -> Tools:
    return Tools((asking(tag, asked),))


def child(*steps: Step, name: str = "t1/1", interactive: bool = False) -> Script:
    return Script(name, "child", (Turn(steps or (Say(),)),), interactive)


@pytest.mark.parametrize(
    "steps",
    [
        (Say(odd=Odd.SURROGATE, chars=1_000_000),),
        (tools("killer", dies_through_start=1, dies="before"), Fail(3), Kill()),
        (Cut(2), tools("slow", seconds=1.5), Empty(2), Fail(1), Say()),
        (Fail(None, retryable=False),),
        (Cut(),),
        (Empty(),),
        (asks(Agent(child(asks(Handback("done", Odd.NUL), "b"), Say()), background=True)), Say()),
        (asks(AgentGroup((child(), child(asks(Agent(child(name="t1/2/1")), "b"), Say(), name="t1/2")))), Say()),
        (asks(Timer(0.5)), asks(Question("which?", 2.0, Odd.SURROGATE), "b"), asks(AwaitEvent("news"), "c"), Say()),
    ],
)
def test_a_script_survives_its_goal_which_any_store_can_hold(steps: tuple[Step, ...]) -> None:
    goal = to_goal(script(*steps))

    assert from_goal(goal) == script(*steps)
    codec.check("goal", goal)
    assert to_goal(from_goal(goal)) == goal


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (Script("t1", "test", ()), "at least one turn"),
        (script(turns=(Turn((Say(),)), Turn((Say(),)))), "one-shot task has one turn"),
        (script(), "exactly the last step ends it, found endings at \\[\\]"),
        (script(tools()), "exactly the last step ends it"),
        (script(Say(), Say()), "exactly the last step ends it, found endings at \\[0, 1\\]"),
        (script(Fail(1)), "exactly the last step ends it"),
        (script(Fail(1), Fail(1), Say()), "failures of one model call stand in one step"),
        (script(Fail(0), Say()), "at least one failure"),
        (script(Fail(1, retryable=False), Say()), "retryable if the call goes on"),
        (script(Cut(3), Say()), "from 1 to 2 times"),
        (script(Empty(0), Say()), "from 1 to 2 times"),
        (script(Cut(1), Fail(1), Cut(1), Say()), "a tools step stands between"),
        (script(Empty(1), Cut()), "a tools step stands between"),
        (script(Tools(()), Say()), "at least one call"),
        (script(tools("rm"), Say()), "there is no tool 'rm'"),
        (script(tools(seconds=1.0), Say()), "plain does not wait"),
        (script(tools("slow", seconds=-1.0), Say()), "seconds: from 0"),
        (script(tools(chars=1_000_001), Say()), "chars: from 0 to 1e\\+06"),
        (script(Say(chars=-1)), "chars: from 0"),
        (script(tools("killer"), Say()), "killers, and only they"),
        (script(tools(dies_through_start=1), Say()), "killers, and only they"),
        (script(tools(text="x"), Say()), "names its kind in odd"),
        (script(tools(tag="a"), tools(tag="a"), Say()), "tags are not empty and name one call each, found 'a'"),
        (script(tools(tag=""), Say()), "found ''"),
        (script(Tools((Call("Agent", Arguments("a")),)), Say()), "there is no tool 'Agent'"),
        (script(Tools((Call("AskUser", Arguments("a"), Timer(1.0)),)), Say()), "asked of ScheduleWakeup, not of"),
        (script(Tools((Call("ScheduleWakeup", Arguments("a", chars=1), Timer(1.0)),)), Say()), "no arguments but its"),
        (script(asks(Timer(0.0)), Say()), "seconds: above 0"),
        (script(asks(Timer(float("nan"))), Say()), "seconds: from 0"),
        (script(asks(Question("")), Say()), "a question is not empty"),
        (script(asks(Question("?", 0.0)), Say()), "timeout_seconds: above 0"),
        (script(asks(AwaitEvent("")), Say()), "event kinds are not empty"),
        (script(asks(AwaitEvent("x" * 201)), Say()), "at most 200 characters"),
        (script(asks(AwaitEvent("x")), asks(AwaitEvent("x"), "b"), Say()), "waited for once each, found 'x'"),
        (script(asks(Handback("")), Say()), "a report is not empty"),
        (script(asks(Handback("turn 2: go on")), Say()), "starts no turn"),
        (script(asks(AgentGroup(())), Say()), "1 to 100 members, found 0"),
        (script(asks(AgentGroup(tuple(child(name=f"t1/{n}") for n in range(101)))), Say()), "members, found 101"),
        (script(asks(Agent(child(interactive=True))), Say()), "t1/1: nobody talks to a sub-agent"),
        (script(asks(Agent(child(Kill()))), Say()), "t1/1: a model call that kills"),
        (script(asks(Agent(child(asks(AwaitEvent("x"), "b"), Say()))), Say()), "t1/1: nobody can send it an event"),
        (script(asks(Agent(child(Say(), Say()))), Say()), "sub-agent t1/1, turn 1: exactly the last step"),
        (script(asks(Agent(child(tools(tag="a"), Say()))), Say()), "tags are not empty and name one call each"),
        (script(asks(Agent(child(name="t1"))), Say()), "names of tasks are not empty and name one script each"),
        (script(asks(AgentGroup((child(), child()))), Say()), "name one script each, found 't1/1'"),
        (Script("t1", "test", (Turn((Say(),)),), think_seconds=float("inf")), "think_seconds: from 0"),
    ],
)
def test_a_script_that_cannot_be_foretold_is_refused_with_the_reason(bad: Script, problem: str) -> None:
    with pytest.raises(BadScript, match=problem):
        to_goal(bad)


def test_a_goal_with_an_unknown_step_or_argument_is_refused() -> None:
    goal = to_goal(script(tools(), Say()))

    for wrong in (goal.replace('"say"', '"sing"'), goal.replace('"tag"', '"gat"'), goal[:-1]):
        with pytest.raises(BadScript, match="holds no script"):
            from_goal(wrong)


def test_a_script_that_does_not_wait_has_the_bytes_it_always_had() -> None:
    """Schedules that were kept hold such scripts, and must mean the same task for ever."""
    assert to_goal(script(tools(), Say())) == (
        '{"task":"t1","kind":"test","turns":[{"steps":['
        '{"step":"tools","calls":[{"tool":"plain","arguments":{"tag":"a"}}]},{"step":"say"}]}]}'
    )


def test_a_tree_names_everybody_those_above_first() -> None:
    below = child(asks(Agent(child(name="t1/1/1")), "b"), Say())

    assert [one.task for one in tree_of(script(asks(AgentGroup((below, child(name="t1/2")))), Say()))] == [
        "t1",
        "t1/1",
        "t1/1/1",
        "t1/2",
    ]
