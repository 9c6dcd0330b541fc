"""When the guard kills: a margin before the lease is over, and not if the lease was renewed; and it never blocks the
activity that renews it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from noeta.core.jobs import JobSpec
from noeta.runtime.jobs.kernel import AbsoluteTimer
from noeta.runtime.jobs.table import JobTable
from noeta.runtime.threads import ThreadWorld
from tests.unit.runtime.jobs.stage import (
    LONG,
    MARK,
    alive,
    children_named,
    claim_held,
    is_stopped,
    job_table,
    wait_ends,
    wait_until,
)


@pytest.mark.parametrize(
    ("lease_seconds", "margin"), [(0.5, 0.1), (1.0, 0.1), (5.0, 0.5), (15.0, 1.5), (20.0, 2.0), (600.0, 2.0)]
)
def test_the_margin_is_a_bounded_part_of_the_lease(lease_seconds: float, margin: float) -> None:
    world = ThreadWorld(seed=1)
    told, guessed = JobTable(world, lease_seconds=lease_seconds), JobTable(world)

    assert told.margin(1.0) == pytest.approx(margin)
    assert guessed.margin(lease_seconds) == pytest.approx(margin)


def test_only_the_claim_that_was_not_extended_is_killed() -> None:
    """Both had the same lease."""
    with job_table(lease_seconds=1.0) as (table, world):
        left, extended = claim_held(world, 1.0, token="a"), claim_held(world, 1.0, token="b")
        for held in (left, extended):
            table.of(held).start("1-0", JobSpec("sleep 600"))

        extended.deadline += LONG
        table.extended(extended)

        (end,) = wait_ends(table.of(left), 1)
        assert (end.how, end.detail) == ("killed", "killed because the lease of its claim was about to be over")
        assert world.monotonic() >= left.deadline - table.margin(1.0), "it was killed before its time"
        assert table.of(extended).live() == {"1-0"}


def test_each_job_of_a_claim_dies_by_the_newest_deadline() -> None:
    """A job that starts later brings the later deadline with it."""
    with job_table(lease_seconds=1.0) as (table, world):
        held = claim_held(world, 1.0)
        first_deadline = held.deadline
        table.of(held).start("1-0", JobSpec("sleep 600"))
        held.deadline += LONG
        table.of(held).start("1-1", JobSpec("sleep 600"))

        other = claim_held(world, first_deadline - world.monotonic(), token="other")
        table.of(other).start("1-0", JobSpec("sleep 600"))
        wait_ends(table.of(other), 1)

        assert table.of(held).live() == {"1-0", "1-1"}


def test_a_job_whose_lease_is_about_to_be_over_does_not_begin(tmp_path: Path) -> None:
    with job_table(lease_seconds=1.0) as (table, world):
        held = claim_held(world, 0.05)  # within the margin
        table.of(held).start("1-0", JobSpec(f"touch {tmp_path / 'begun'}"))

        (end,) = table.of(held).ended()
        assert (end.how, end.detail) == ("not_started", "the lease of its claim is about to be over")
        assert not (tmp_path / "begun").exists()


def test_a_stopped_guard_does_not_block_whoever_tells_it_something() -> None:
    """Above all not the keeper, which renews every claim of the process. When it goes on, it hears all of it."""
    with job_table() as (table, world):
        held = claim_held(world, LONG)
        table.of(held).start("1-0", JobSpec("sleep 600", environment={MARK: "stopped-guard"}))
        (guard,) = children_named(os.getpid(), "noeta-guard")
        os.kill(guard, signal.SIGSTOP)
        wait_until(lambda: is_stopped(guard), "the guard stopped")

        for _ in range(5_000):
            table.extended(held)
        table.lost(held)

        assert alive("stopped-guard")
        os.kill(guard, signal.SIGCONT)
        wait_until(lambda: not alive("stopped-guard"), "the claim's tree is killed")


def test_closing_with_a_stopped_guard_kills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noeta.runtime.jobs.table.CLOSE_SECONDS_MAX", 0.2)
    with job_table() as (table, world):
        jobs = table.of(claim_held(world, LONG))
        jobs.start("1-0", JobSpec("sleep 600", environment={MARK: "closing-guard"}))
        (guard,) = children_named(os.getpid(), "noeta-guard")
        os.kill(guard, signal.SIGSTOP)
        wait_until(lambda: is_stopped(guard), "the guard stopped")

        table.close()

        wait_until(lambda: not alive("closing-guard"), "the supervisors kill")
        wait_ends(jobs, 1)


def test_an_idle_guard_does_not_wake() -> None:
    """Neither it nor a supervisor looks around: both wait for something to be said."""
    with job_table() as (table, world):
        table.of(claim_held(world, LONG)).start("1-0", JobSpec("exec sleep 600"))
        (guard,) = children_named(os.getpid(), "noeta-guard")
        (supervisor,) = children_named(guard, "noeta-job")

        def wakes() -> list[str]:
            return [
                line
                for pid in (guard, supervisor)
                for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                if line.startswith("voluntary")
            ]

        wait_until(lambda: (before := wakes(), world.event().wait(0.05), before == wakes())[2], "both at rest")
        before = wakes()
        world.event().wait(0.5)

        assert wakes() == before


def test_a_timer_is_over_at_its_instant_also_if_that_has_passed() -> None:
    world, timer = ThreadWorld(seed=1), AbsoluteTimer()
    try:
        timer.set(world.monotonic() + LONG)
        assert not timer.is_over
        for past in (world.monotonic() - 1.0, 0.0, -5.0):
            timer.set(past)
            assert timer.is_over
        timer.set(world.monotonic() + 0.01)
        wait_until(lambda: timer.is_over, "the timer fires")
        assert os.read(timer.fileno(), 8) == (1).to_bytes(8, "little")
    finally:
        timer.close()
