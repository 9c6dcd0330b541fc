"""What the benches of waiting and delegating make of what they counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from bench import family, timers, waiting
from bench.bulk import WAITS, add_waiting
from bench.family_cost import BLOCK, WARM_UP, Pair
from bench.family_load import Load, Tally
from bench.fan_in import Costs
from bench.report import figure
from bench.site import Place, Session
from bench.waiting import Held, Idle
from noeta.backends.stores.memory import MemoryStore
from noeta.core.task import Status
from noeta.testing.clock import ManualClock


def verdicts_of_waiting(crowd: Idle, own: list[int]) -> dict[str, bool]:
    none = Idle(threads=4, connections=1, statements=184, buffers=18.0, private_mb=30.0)
    found = waiting.figures(none, crowd, own, "100 wait", "60 s")
    return {f.name.partition(",")[0]: f.holds for f in found if f.target}


def test_waiting_is_free_only_if_every_count_is_the_same() -> None:
    same = verdicts_of_waiting(Idle(4, 1, 184, 22.0, 31.0), [184, 184])

    assert same == {
        "threads": True,
        "connections": True,
        "statements in 60 s": True,
        "statements in 60 s of the loop's own clock": True,
    }
    assert not verdicts_of_waiting(Idle(5, 1, 184, 22.0, 31.0), [184, 184])["threads"]
    assert not verdicts_of_waiting(Idle(4, 2, 184, 22.0, 31.0), [184, 184])["connections"]
    assert verdicts_of_waiting(Idle(4, 1, 181, 22.0, 31.0), [184, 184])["statements in 60 s"]
    assert not verdicts_of_waiting(Idle(4, 1, 180, 22.0, 31.0), [184, 184])["statements in 60 s"]
    assert not verdicts_of_waiting(Idle(4, 1, 184, 22.0, 31.0), [184, 185])[
        "statements in 60 s of the loop's own clock"
    ]


def test_a_worker_may_not_keep_anything_for_what_it_drove_to_a_wait() -> None:
    same = waiting.figures_of_driven([Held(5, 3, 31_000), Held(5, 4, 31_490)], [20, 1_000])
    grown = waiting.figures_of_driven([Held(5, 3, 31_000), Held(985, 5, 31_490)], [20, 1_000])

    assert [f.holds for f in same if f.target] == [True, True]
    assert [f.holds for f in grown if f.target] == [False, False]
    assert same[-1].median == 0.5


def test_both_columns_are_told() -> None:
    idle = Idle(4, 1, 184, 18.0, 30.0)

    names = [f.name for f in waiting.figures(idle, idle, [184, 184], "100 wait", "60 s")]

    assert names[:3] == ["threads, nobody waits", "threads, 100 wait", "threads, difference"]
    assert sum(name.endswith(", nobody waits") for name in names) == sum(name.endswith(", 100 wait") for name in names)


def test_waiting_tasks_come_in_equal_parts() -> None:
    assert len(WAITS) == 5
    with pytest.raises(ValueError, match="multiple of 5"):
        add_waiting(cast("Session", None), 7)


def test_far_timers_may_not_make_a_due_one_much_dearer() -> None:
    without = [figure("timers", "claim, no far timers", "buffers", [20])]

    (found,) = timers.dearer(without, [figure("timers", "claim, 9 far timers", "buffers", [31])])

    assert (found.name, found.median, found.holds) == ("claim, 9 far timers: times as many", 1.55, False)


def test_the_growth_of_a_family_compares_its_ends() -> None:
    assert Costs([40] * 50 + [60] * 50, 20, 13, 700).growth == 1.5


def test_tallies_add_calls_and_keep_the_worst() -> None:
    one, other = Tally(refused=1, retries=2), Tally(unavailable=3)
    one.add("post", 0.2)
    one.add("post", 0.1)
    other.add("post", 0.3)
    other.add("renew", 0.05)

    both = one.plus(other)

    assert (both.calls, both.worst) == ({"post": 3, "renew": 1}, {"post": 0.3, "renew": 0.05})
    assert (both.refused, both.unavailable, both.retries) == (1, 3, 2)


def test_one_deadlock_fails_the_load_and_so_does_a_call_given_up() -> None:
    tally = Tally({"post": 120}, {"post": 0.25})

    assert all(f.holds for f in family.figures(tally, 0, 0, 60.0))
    assert [f.name for f in family.figures(tally, 1, 0, 60.0) if not f.holds] == ["deadlocks, 4 processes, 60 s"]
    tally.unavailable = 1
    assert [f.name for f in family.figures(tally, 0, 0, 60.0) if not f.holds] == ["calls that the store gave up"]
    told = {f.name: f.median for f in family.figures(tally, 0, 0, 60.0)}
    assert (told["calls"], told["worst post, of 120"]) == (2.0, 250.0)


def test_the_load_comes_to_every_verb_and_replaces_families_that_have_ended() -> None:
    store = MemoryStore(ManualClock().now)
    generations = [0, 0]
    load = Load(store, "load-0", generations)
    load.create_all()

    for _ in range(2_000):
        load.step()

    assert set(load.tally.calls) == {
        *("birth in the background", "birth of a group", "cancel of a child", "cancel of a root", "claim", "create"),
        *("end of a child", "end of a root", "fail at the bound", "post", "renew"),
    }
    assert load.tally.unavailable == 0
    assert min(generations) > 10
    alive = [store.task(f"fam-{family}-{generation}") for family, generation in enumerate(generations)]
    assert all(row.status is not Status.TERMINAL for row in alive)


class Ticks:
    """Stands for a session whose counters move by one call, some buffers and some milliseconds with each call made."""

    def __init__(self, buffers: dict[str, int], calls: int = 1) -> None:
        self._buffers = buffers
        self._calls = calls
        self._totals: dict[str, list[float]] = {name: [0, 0, 0.0] for name in buffers}
        self._asked = ""

    def made(self, name: str, ms: float) -> Callable[[], None]:
        def call() -> None:
            calls, buffers, before = self._totals[name]
            self._totals[name] = [calls + self._calls, buffers + self._buffers[name], before + ms]

        return call

    def execute(self, statement: str, values: list[Any]) -> Ticks:
        self._asked = values[0]
        return self

    def fetchone(self) -> tuple[float, ...]:
        return tuple(self._totals[self._asked.partition(".")[2].rstrip("(")])


def test_a_pair_is_compared_call_by_call_and_time_by_what_was_quick() -> None:
    ticks = Ticks({"renew_1": 400, "renew_2": 500})
    pair = Pair(cast("Session", ticks), Place("", "place"), "renew_1", "renew_2")
    noise = random.Random(1)
    for _ in range(WARM_UP + BLOCK):
        busy = noise.choice((0.0, 0.0, 50.0))
        pair.call(0, ticks.made("renew_1", 2.0 + busy))
        pair.call(1, ticks.made("renew_2", 3.0 + noise.choice((0.0, 0.0, 50.0))))

    time, buffers, alone = pair.figures("renew / without")

    assert (time.name, round(time.median, 6)) == ("renew / without: server time", 1.5)
    assert (buffers.median, alone.name, alone.median) == (1.25, "renew: buffers", 500)


def test_a_pair_refuses_a_figure_of_two_calls() -> None:
    ticks = Ticks({"renew_1": 400, "renew_2": 500}, calls=2)
    pair = Pair(cast("Session", ticks), Place("", "place"), "renew_1", "renew_2")

    with pytest.raises(ValueError, match="expected one call"):
        pair.call(0, ticks.made("renew_1", 2.0))
