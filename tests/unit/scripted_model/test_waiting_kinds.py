"""What each kind that waits and delegates is made of, over many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pytest

from scripted_model.foretell import foretell
from scripted_model.foretold import Foretold
from scripted_model.generate import workload
from scripted_model.kinds import BUILDERS
from scripted_model.profile import Kind, Profile
from scripted_model.script import (
    Agent,
    AgentGroup,
    Asked,
    AwaitEvent,
    Handback,
    Question,
    Say,
    Script,
    Timer,
    calls_of,
    children_of,
    tree_of,
)
from scripted_model.waiting_kinds import WAITING_BUILDERS
from scripted_model.workload import ScheduledMessage, ScriptedTask

SEEDS: Final = range(40)

Drawn = tuple[ScriptedTask, tuple[ScheduledMessage, ...], Foretold]


def drawn(kind: Kind, profile: Profile | None = None) -> Iterator[Drawn]:
    """A task of this kind from each seed, with what is said to it and what is foretold of it."""
    only = replace(profile or Profile(), weights={kind: 1})
    for seed in SEEDS:
        load = workload(seed, 1, only)
        yield load.tasks[0], load.messages, foretell(load.tasks[0], load.messages)


def asked_by(script: Script) -> list[Asked]:
    return [call.asked for _, call in calls_of(script) if call.asked is not None]


def asks(what: type[Asked]) -> Callable[[Drawn], bool]:
    return lambda one: any(isinstance(asked, what) for asked in asked_by(one[0].script))


def every_child(one: Drawn) -> list[Script]:
    return [child for _, call in calls_of(one[0].script) for child in children_of(call)]


ALWAYS: Final[dict[Kind, Callable[[Drawn], bool]]] = {
    Kind.TIMER: asks(Timer),
    Kind.QUESTION: lambda one: asks(Question)(one) and any(m.kind == "answer" for m in one[1]),
    Kind.QUESTION_TIMEOUT: lambda one: all(
        asked.timeout_seconds for asked in asked_by(one[0].script) if isinstance(asked, Question)
    ),
    Kind.EVENT: lambda one: asks(AwaitEvent)(one) and bool(one[2].message_keys),
    Kind.AGENT: asks(Agent),
    Kind.AGENT_FAST: lambda one: all(isinstance(child.turns[0].steps[0], Say) for child in every_child(one)),
    Kind.AGENT_FAILS: lambda one: [c.is_error for c in one[2].calls if c.tool == "Agent"] == [True],
    Kind.GROUP: asks(AgentGroup),
    Kind.NESTED: lambda one: max(child.depth for child in one[2].descendants) == 2,
    Kind.TOO_DEEP: lambda one: (
        max(child.depth for child in one[2].descendants) == 3
        and len(one[2].descendants) < len(list(tree_of(one[0].script))) - 1
    ),
    Kind.BACKGROUND: lambda one: all(child.background for child in one[2].children),
    Kind.HANDBACK: lambda one: any(
        isinstance(asked, Handback) for child in every_child(one) for asked in asked_by(child)
    ),
    Kind.CANCELLED: lambda one: len(one[2].cancel_keys) == 1 and "cancelled" in one[2].outcomes(one[2].cancel_keys),
    Kind.CLOSED: lambda one: one[0].interactive and len(one[2].close_keys) == len(one[0].script.turns) - 1,
    Kind.FLOOD: lambda one: sum(m.kind == "event" for m in one[1]) == Profile().flood_events,
}
"""What holds of every task of a kind."""

SOMETIMES: Final[dict[Kind, dict[str, Callable[[Drawn], bool]]]] = {
    Kind.TIMER: {"two at once": lambda one: sum(c.tool == "ScheduleWakeup" for c in one[2].calls) == 2},
    Kind.QUESTION: {
        "of a chat": lambda one: one[0].interactive,
        "of a task that ends": lambda one: not one[0].interactive,
        "answered twice": lambda one: any(m.kind == "answer" and m.posts > 1 for m in one[1]),
    },
    Kind.QUESTION_TIMEOUT: {
        "nobody answers": lambda one: not one[1],
        "an answer and the clock": lambda one: any(call.is_error is None for call in one[2].calls),
    },
    Kind.EVENT: {
        "early": lambda one: any(m.when == "created" for m in one[1]),
        "late": lambda one: any(m.when == "waiting" for m in one[1]),
        "twice": lambda one: any(m.posts > 1 for m in one[1]),
        "without payload": lambda one: any(m.payload is None for m in one[1]),
        "with payload": lambda one: any(m.payload is not None for m in one[1]),
        "not at all in time": lambda one: any(call.is_error for call in one[2].calls),
    },
    Kind.AGENT: {"two at once": lambda one: len(one[2].children) == 2},
    Kind.AGENT_FAILS: {"without a call": lambda one: not list(calls_of(every_child(one)[0]))},
    Kind.GROUP: {
        "of one": lambda one: len(one[2].children) == 1,
        "of the most": lambda one: len(one[2].children) == Profile().group_members,
    },
    Kind.NESTED: {"a group below": lambda one: any(asks(AgentGroup)((c, (), one[2])) for c in as_tasks(one))},
    Kind.TOO_DEEP: {
        "a group": lambda one: any(isinstance(a, AgentGroup) for s in tree_of(one[0].script) for a in asked_by(s)),
        "in the background": lambda one: any(
            isinstance(a, Agent) and a.background for s in tree_of(one[0].script) for a in asked_by(s)
        ),
    },
    Kind.BACKGROUND: {
        "of a chat": lambda one: one[0].interactive and not one[2].children[0].may_be_cancelled,
        "of a task that ends": lambda one: not one[0].interactive and one[2].children[0].may_be_cancelled,
    },
    Kind.HANDBACK: {
        "to one that waits": lambda one: not one[2].children[0].background,
        "to one that may have ended": lambda one: one[2].children[0].background,
    },
    Kind.CANCELLED: {
        "at once": lambda one: any(m.when == "created" for m in one[1]),
        "at work": lambda one: any(m.when == "begun" for m in one[1]),
        "of a chat": lambda one: one[0].interactive,
        "at a timer": asks(Timer),
        "at a question": asks(Question),
        "at an event": asks(AwaitEvent),
        "at a sub-agent": asks(Agent),
        "at a group": asks(AgentGroup),
    },
    Kind.CLOSED: {
        "at a timer": asks(Timer),
        "at a question": asks(Question),
        "at a sub-agent": asks(Agent),
        "at work": lambda one: any(call.tool.startswith("slow") for call in one[2].calls),
        "twice": lambda one: len(one[2].close_keys) == 2,
        "answered before it is closed again": lambda one: "answer close" in " ".join(m.kind for m in one[1]),
    },
}
"""What holds of some, in so many seeds."""


def as_tasks(one: Drawn) -> list[ScriptedTask]:
    return [ScriptedTask(child.task, child) for child in every_child(one)]


def test_every_kind_that_waits_is_described_here_and_drawn_with_the_others() -> None:
    assert set(ALWAYS) == set(WAITING_BUILDERS) < set(BUILDERS) == set(Kind)


@pytest.mark.parametrize("kind", list(ALWAYS), ids=lambda kind: kind.value)
def test_a_kind_is_always_about_what_its_name_says(kind: Kind) -> None:
    assert all(ALWAYS[kind](one) for one in drawn(kind))


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, some in SOMETIMES.items() for name in some], ids=lambda one: str(one)
)
def test_a_kind_is_sometimes_one_way_and_sometimes_another(kind: Kind, name: str) -> None:
    held = [SOMETIMES[kind][name](one) for one in drawn(kind)]

    assert any(held)
    assert not all(held)


def test_the_profile_says_how_many_and_how_long() -> None:
    profile = Profile(group_members=1, flood_events=3, wait_leases=(7.0, 8.0))

    assert all(len(told.children) == 1 for _, _, told in drawn(Kind.GROUP, profile))
    assert all(len(messages) == 3 for _, messages, _ in drawn(Kind.FLOOD, profile))
    timers = [a for task, _, _ in drawn(Kind.TIMER, profile) for a in asked_by(task.script) if isinstance(a, Timer)]
    assert all(7.0 <= timer.seconds <= 8.0 for timer in timers)
