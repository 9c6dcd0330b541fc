"""Nothing of a job's tree outlives its worker, its claim, or the processes that watch over it: every event, and for
each every kind of descendant that is hard to end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from noeta.runtime.jobs import tree
from tests.unit.runtime.jobs.stage import KINDS, AWorker, Trees, is_stopped, wait_until

pytestmark = pytest.mark.slow

SHORT_LEASE_SECONDS = 4.0
"""The worker's claim began with a longer lease, so that the margin before its end is the longest there is, 2 s: this
test must hold on a machine that is busy with others, too."""


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[Trees]:
    grown = Trees(tmp_path)
    yield grown
    grown.kill()


@pytest.fixture
def worker(trees: Trees) -> Iterator[AWorker]:
    """A worker with one job of each kind, all grown."""
    with AWorker() as started:
        for kind in KINDS:
            started.ask("start", job=kind, command=trees.command(kind), environment=trees.environment(kind))
        trees.wait_grown()
        assert trees.left() == list(KINDS)
        yield started


def kill_all(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def wait_dead(pids: set[int]) -> None:
    def all_are() -> bool:
        return all((process := tree.look(pid)) is None or process.is_dead for pid in pids)

    wait_until(all_are, f"{pids} dead")


def ends(worker: AWorker) -> dict[str, tuple[str, str]]:
    """How each job ended, and its detail, once all have."""
    wait_until(lambda: len(worker.ask("ended")) == len(KINDS), "the worker knows all ends")
    return {end["job_id"]: (end["how"], end["detail"]) for end in worker.ask("ended")}


def stop_supervisors_and_kill(worker: AWorker) -> None:
    for pid in worker.supervisors:
        os.kill(pid, signal.SIGSTOP)
    kill_all(worker.process.pid)


DEATHS: dict[str, Callable[[AWorker], None]] = {
    "worker": lambda worker: kill_all(worker.process.pid),
    "guard, then worker": lambda worker: kill_all(worker.guard, worker.process.pid),
    "worker, then guard": lambda worker: kill_all(*(worker.process.pid, worker.guard)),
    "worker, its supervisors stopped": stop_supervisors_and_kill,
}


@pytest.mark.parametrize("death", DEATHS)
def test_nothing_is_left_after_kill_9(death: str, worker: AWorker, trees: Trees) -> None:
    """Also of the guard and the supervisors themselves."""
    watchers = {worker.guard, *worker.supervisors}

    DEATHS[death](worker)

    trees.wait_gone()
    wait_dead(watchers)


def test_a_fork_of_the_worker_does_not_keep_its_jobs_alive(worker: AWorker, trees: Trees) -> None:
    """It holds the worker's end of every pipe, so that no end of file ever comes."""
    fork = worker.ask("fork")
    try:
        kill_all(worker.process.pid)

        trees.wait_gone()
    finally:
        kill_all(fork)


@pytest.mark.parametrize(
    ("victims", "detail"),
    [
        (lambda worker: {worker.guard}, "killed because the guard of its worker was gone"),
        (lambda worker: worker.supervisors, "killed because the process that watched over it was gone"),
    ],
    ids=["guard", "supervisors"],
)
def test_the_others_end_what_a_killed_watcher_leaves(
    victims: Callable[[AWorker], set[int]], detail: str, worker: AWorker, trees: Trees
) -> None:
    kill_all(*victims(worker))

    assert ends(worker) == dict.fromkeys(KINDS, ("killed", detail))
    assert trees.left() == [], "an end was told before the tree was gone"


def test_a_job_can_be_started_after_the_guard_was_killed(worker: AWorker, trees: Trees) -> None:
    """By a new guard, which ends like the first."""
    first = worker.guard
    kill_all(first)
    ends(worker)

    again = {"command": trees.command("own-session"), "environment": trees.environment("own-session")}
    worker.ask("start", job="again", **again)

    assert worker.guard != first
    assert trees.left() == ["own-session"]
    kill_all(worker.process.pid)
    trees.wait_gone()


def test_a_frozen_workers_trees_are_gone_before_its_lease_is_over(worker: AWorker, trees: Trees) -> None:
    """By the guard's timer alone: the worker says nothing, and is not dead. Keeps: jobs-told-once."""
    deadline = worker.ask("extend", seconds=SHORT_LEASE_SECONDS)
    worker.stop()

    trees.wait_gone()

    stamps = {kind: max(trees.stamps(kind), default=0.0) for kind in KINDS}
    assert is_stopped(worker.process.pid)
    assert all(last < deadline for last in stamps.values()), (stamps, deadline)
    assert max(stamps.values()) > deadline - SHORT_LEASE_SECONDS, "they were killed before the lease was extended"
    worker.process.send_signal(signal.SIGCONT)
    assert ends(worker) == dict.fromkeys(
        KINDS, ("killed", "killed because the lease of its claim was about to be over")
    )


@pytest.mark.holds("lost/kept-too")
def test_a_lost_claims_trees_are_killed_at_once(worker: AWorker, trees: Trees) -> None:
    worker.ask("lost")

    trees.wait_gone()
    assert ends(worker) == dict.fromkeys(KINDS, ("killed", "killed because its claim was lost"))
    wait_until(lambda: worker.supervisors == set(), "no supervisor is left")


def test_close_leaves_nothing_also_of_the_guard(worker: AWorker, trees: Trees) -> None:
    watchers = {worker.guard, *worker.supervisors}

    worker.ask("close")

    assert trees.left() == []
    assert ends(worker) == dict.fromkeys(KINDS, ("killed", "killed because its worker closed"))
    wait_dead(watchers)


def test_stop_leaves_nothing(worker: AWorker, trees: Trees) -> None:
    """SIGTERM ends the shells, which have no say in what becomes of the rest."""
    assert worker.ask("stop") is True

    assert trees.left() == []
    assert {how for how, _ in ends(worker).values()} == {"stopped"}
