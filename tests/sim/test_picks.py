"""Who goes on next: what the pickers promise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from noeta.chaos.sim import picks
from noeta.chaos.sim.scheduler import Pick, Scheduler
from noeta.chaos.sim.world import SimWorld
from scripted_model.seeds import Stream


def order_of(pick: Callable[[Scheduler], Pick], *, workers: int = 3, steps: int = 3) -> tuple[str, Scheduler]:
    """Which process goes on, step by step, when all are ready all the time."""
    scheduler = Scheduler(0)
    scheduler.pick = pick(scheduler)
    went: list[str] = []

    def body(world: SimWorld, name: str) -> None:
        for _ in range(steps):
            went.append(name)
            world.point("step")

    for name in "abcdef"[:workers]:
        process = scheduler.process(name)
        process.start("main", lambda process=process, name=name: body(SimWorld(process), name))  # type: ignore[misc]
    scheduler.run(seconds_max=100, points_max=1000)
    scheduler.close()
    return "".join(went), scheduler


def by_priority(seed: int, *, choices: int) -> Callable[[Scheduler], Pick]:
    return lambda scheduler: picks.ByPriority(Stream(seed, "p"), depth=2, choices=choices)


def test_first_come_first_served_makes_no_turns() -> None:
    went, scheduler = order_of(lambda scheduler: picks.replay((), scheduler))

    assert went == "abcabcabc"
    assert scheduler.turns == []


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_decided_is_decided_again_from_its_turns(seed: int) -> None:
    went, scheduler = order_of(lambda scheduler: picks.at_random(Stream(seed, "pick")), workers=5, steps=6)

    again, repeated = order_of(lambda other: picks.replay(scheduler.turns, other), workers=5, steps=6)

    assert again == went
    assert repeated.turns == scheduler.turns


def test_by_priority_one_goes_on_until_it_falls() -> None:
    """Depth 1: no fall, so each goes through to its end; depth 2: exactly one of them is interrupted."""
    calm, _ = order_of(lambda scheduler: picks.ByPriority(Stream(1, "pick"), depth=1, choices=9))
    assert sorted(calm[place : place + 3] for place in (0, 3, 6)) == ["aaa", "bbb", "ccc"]

    changes = set()
    for seed in range(30):
        went, _ = order_of(by_priority(seed, choices=6))
        changes.add(sum(one != other for one, other in pairwise(went)))
    assert changes <= {2, 3, 4}
    assert max(changes) > 2, "nobody ever fell"


def test_by_priority_reaches_every_order_of_two_steps() -> None:
    """A bug of depth 2 that needs b's first step between a's two: within the promised number of executions."""
    activities, choices = 2, 4
    for executions in range(1, 400):
        went, _ = order_of(by_priority(executions, choices=choices), workers=2, steps=2)
        if went.startswith("ab") and went.index("b") < went.rindex("a"):
            break
    missed = picks.chance_of_missing(activities=activities, choices=choices, depth=2, executions=executions)
    assert missed > 1e-6, f"found only by execution {executions}"


def test_by_priority_who_falls_later_may_stay_above_who_fell_before() -> None:
    """Depth 4: a0 before b0 before a1 before both b1 and c0. Three falls, the first of them the deepest."""
    executions = 3_000
    met = 0
    for seed in range(executions):

        def pick(scheduler: Scheduler, seed: int = seed) -> Pick:
            return picks.ByPriority(Stream(seed, "p"), depth=4, choices=5)

        went, _ = order_of(pick, steps=2)
        met += went.startswith("aba")

    promised = executions / (3 * 5**3)
    assert met > promised / 2, f"met {met} times, promised {promised:g}"


def test_the_chance_of_missing_falls_with_every_execution() -> None:
    def missing(executions: int, depth: int = 2) -> float:
        return picks.chance_of_missing(activities=3, choices=10, depth=depth, executions=executions)

    assert missing(0) == 1.0
    assert missing(1) == pytest.approx(1 - 1 / 30)
    assert missing(1, depth=1) == pytest.approx(1 - 1 / 3)
    assert missing(1000) < 1e-14
