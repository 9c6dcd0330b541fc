"""What each kind that works in the background, asks first or is parked is made of, over many seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from noeta.core.texts import APPROVE
from scripted_model.background_kinds import BACKGROUND_BUILDERS
from scripted_model.profile import Kind, Profile
from scripted_model.script import Agent, AwaitEvent, Cron, Question, ReadJob, Shell, StopCron, StopJob, Timer
from scripted_model.waiting_kinds import WAITING_BUILDERS
from tests.unit.scripted_model.test_waiting_kinds import Drawn, asked_by, asks, drawn, every_child


def shells(one: Drawn) -> list[Shell]:
    return [asked for asked in asked_by(one[0].script) if isinstance(asked, Shell)]


def sources(one: Drawn) -> set[str]:
    return {call.source for call in one[2].calls}


ALWAYS: Final[dict[Kind, Callable[[Drawn], bool]]] = {
    Kind.JOB: lambda one: all(shell.lines is not None for shell in shells(one)) and not one[0].interactive,
    Kind.JOB_WAKES: lambda one: one[0].interactive and not one[2].turns_counted and len(one[2].jobs) == 1,
    Kind.JOB_OUTLIVES: lambda one: [job.lines for job in one[2].jobs] == [None] and not one[2].jobs[0].is_stopped,
    Kind.JOB_BELOW: lambda one: not shells(one) and all(any_shell(one)),
    Kind.JOB_SEVERAL: lambda one: len(shells(one)) >= 2,
    Kind.JOB_CALLS: lambda one: asks(ReadJob)(one) and asks(StopJob)(one) and one[2].jobs[0].is_stopped,
    Kind.KEPT: lambda one: [job.lines for job in one[2].jobs] == [None],
    Kind.CRON: lambda one: asks(Cron)(one) and asks(StopCron)(one) and one[2].crons[0].is_removed,
    Kind.APPROVAL: lambda one: any(message.kind == "decision" for message in one[1]),
    Kind.GATED: lambda one: not one[1],
    Kind.PARKED: lambda one: one[2].may_be_parked and one[2].deaths == 0 and sources(one) == {"ran"},
    Kind.PARKED_KILLER: lambda one: one[2].may_be_parked and "parked" in sources(one) and one[2].deaths > 0,
}
"""What holds of every task of a kind."""


def any_shell(one: Drawn) -> list[bool]:
    return [any(isinstance(asked, Shell) for asked in asked_by(child)) for child in every_child(one)]


SOMETIMES: Final[dict[Kind, dict[str, Callable[[Drawn], bool]]]] = {
    Kind.JOB: {
        "fails": lambda one: any(shell.exit_code == 3 for shell in shells(one)),
        "stubborn": lambda one: any(shell.stubborn for shell in shells(one)),
    },
    Kind.JOB_OUTLIVES: {"stubborn": lambda one: shells(one)[0].stubborn},
    Kind.JOB_BELOW: {
        "in the background": lambda one: any(child.background for child in one[2].children),
        "for ever": lambda one: any(
            isinstance(asked, Shell) and asked.lines is None for child in every_child(one) for asked in asked_by(child)
        ),
        "at once": lambda one: any(len(child.turns[0].steps) == 2 for child in every_child(one)),
    },
    Kind.JOB_CALLS: {"of a chat": lambda one: one[0].interactive},
    Kind.KEPT: {
        "at a timer": asks(Timer),
        "at a question": asks(Question),
        "at an event": asks(AwaitEvent),
        "at a sub-agent": asks(Agent),
        "stopped": asks(StopJob),
    },
    Kind.APPROVAL: {
        "approved": lambda one: all(message.text == APPROVE for message in one[1]),
        "rewritten": lambda one: "approve_rewritten" in one[0].goal,
        "twice": lambda one: len(one[1]) == 2,
    },
    Kind.GATED: {"denied": lambda one: "denied" in sources(one)},
    Kind.PARKED_KILLER: {
        "at the bound": lambda one: "tool_starts" in one[2].bounds,
        "since the gate would ask": lambda one: bool(one[1]),
    },
}
"""What holds of some, in so many seeds."""


def test_every_kind_that_goes_on_in_the_background_is_described_here() -> None:
    assert set(ALWAYS) == set(BACKGROUND_BUILDERS)
    assert not set(BACKGROUND_BUILDERS) & set(WAITING_BUILDERS)


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


def test_the_profile_says_at_which_pace_shells_write_and_when_a_cron_table_is_removed() -> None:
    profile = Profile(lease_seconds=2.0, shell_leases=(0.5, 0.75), cron_seconds=(120.0, 130.0))

    paces = [shell.every_seconds for one in drawn(Kind.JOB, profile) for shell in shells(one)]
    assert all(1.0 <= pace <= 1.5 for pace in paces)
    delays = [message.delay_seconds for _, messages, _ in drawn(Kind.CRON, profile) for message in messages]
    assert delays
    assert all(120.0 <= delay <= 130.0 for delay in delays)
