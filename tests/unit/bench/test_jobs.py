"""What the bench of background jobs makes of what it saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import jobs, jobs_cost
from bench.job_stage import Struck
from bench.jobs import FROZEN, KILLED, TOLD
from bench.jobs_cost import Idle

FINE = Struck(
    at=1_000_000,
    gone_at=1_040_000,
    lease_until=4_000_000,
    lost_at=(4_100_000, 4_100_000),
    lines_after=0,
    changed_after=0,
    left=0,
    told=(1, 1),
    ended=0,
    late_writes=0,
    went_on=True,
    was_claimed_at=4_100_000,
)


def failing(way: str, *seen: Struck) -> list[str]:
    return [figure.name for figure in jobs.figures("it", way, seen, 30.0) if not figure.holds]


def test_times_are_told_and_promises_are_targets() -> None:
    found = {figure.name: figure for figure in jobs.figures("it", KILLED, [FINE], 3.0)}

    assert found["it: last process gone after"].median == 40
    assert found["it: from there until it is lost"].median == 3060
    assert [name for name, figure in found.items() if figure.target is not None] == [
        "it: lines after it is lost",
        "it: processes left when it is lost",
        "it: losses not told exactly once",
    ]
    assert failing(KILLED, FINE) == []


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (replace(FINE, lines_after=1), "it: lines after it is lost"),
        (replace(FINE, changed_after=1), "it: lines after it is lost"),
        (replace(FINE, left=1), "it: processes left when it is lost"),
        (replace(FINE, told=(1, 2)), "it: losses not told exactly once"),
        (replace(FINE, told=(0, 1)), "it: losses not told exactly once"),
        (replace(FINE, ended=1), "it: losses not told exactly once"),
    ],
)
def test_one_bad_round_of_three_fails(bad: Struck, name: str) -> None:
    assert failing(KILLED, FINE, bad, FINE) == [name]


def test_a_tree_that_lives_until_the_lease_is_over_lives_too_long() -> None:
    assert failing(FROZEN, replace(FINE, gone_at=4_000_001)) == ["it: last process gone after the lease's end"]
    assert failing(FROZEN, replace(FINE, late_writes=1)) == ["it: entries of the resumed worker"]


def test_a_worker_that_was_told_to_end_gives_back_at_once_what_is_still() -> None:
    given_back = replace(FINE, released_at=4_050_000)

    assert failing(TOLD, given_back) == []
    assert failing(TOLD, replace(given_back, was_claimed_at=8_000_000)) == ["it: taken over after it was given back"]
    assert failing(TOLD, replace(given_back, lines_after_release=1)) == ["it: lines after it was given back"]


def test_the_costs_of_kept_tasks_stand_beside_nothing() -> None:
    none, crowd = Idle(4, 1, 180, 20_000, 0, 0), Idle(5, 2, 186, 22_000, 201, 90_000)

    found = {figure.name: figure.median for figure in jobs_cost.figures_of_kept(none, crowd, 100, 60.0)}

    assert found["statements in 60 s, nothing kept"] == 180
    assert found["statements in 60 s, 100 kept tasks with a job each"] == 186
    assert found["memory of the worker, growth a kept task"] == 20
    assert found["memory of the processes below it, a kept task"] == 900
