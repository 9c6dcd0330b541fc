"""Scripts are data that survive their JSON; those that could not be foretold are refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noeta.core import codec
from scripted_model.script import (
    Arguments,
    BadScript,
    Call,
    Cut,
    Empty,
    Fail,
    Kill,
    Odd,
    Say,
    Script,
    Step,
    Tools,
    Turn,
    from_goal,
    to_goal,
)


def script(*steps: Step, turns: Sequence[Turn] = (), interactive: bool = False) -> Script:
    return Script("t1", "test", tuple(turns) or (Turn(steps),), interactive)


def tools(tool: str = "plain", tag: str = "a", **more: object) -> Tools:
    return Tools((Call(tool, Arguments(tag, **more)),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "steps",
    [
        (Say(odd=Odd.SURROGATE, chars=1_000_000),),
        (tools("killer", dies_through_start=1, dies="before"), Fail(3), Kill()),
        (Cut(2), tools("slow", seconds=1.5), Empty(2), Fail(1), Say()),
        (Fail(None, retryable=False),),
        (Cut(),),
        (Empty(),),
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
