"""Background jobs of a real worker that is killed, frozen and resumed, or told to end, over a server and over a file:
nothing of them is left, nothing is written once they are lost, and the next owner tells it once and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.job_stage import FROZEN_LEASES, Address, JobStage, Struck, job_stage
from noeta.backends.stores.pg_migrate import migrate
from noeta.core.events import JobLost, ModelCalled

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

JOBS = 3
LEASE_SECONDS = 4.0
"""The margin before its end is then 0.4 s, also for a machine that is busy with other tests."""

LONG_LEASE_SECONDS = 600.0
"""Nobody takes anything over because this one is over."""

SECOND = 1_000_000


@pytest.fixture(params=["postgres", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    if request.param == "sqlite":
        return Address.of_file(tmp_path / "tasks.db")
    dsn, schema = request.getfixturevalue("pg_schema")
    migrate(dsn, schema)
    return Address(dsn, schema)


@contextmanager
def grown(address: Address, folder: Path, lease_seconds: float = LEASE_SECONDS) -> Iterator[JobStage]:
    with job_stage(address, folder / "trees", jobs=JOBS, lease_seconds=lease_seconds) as stage:
        yield stage


def assert_kept(found: Struck, stage: JobStage) -> None:
    """What holds however a worker goes. Keeps: jobs-told-once, one-writer."""
    assert found.left == 0, "processes of a job that is said to be lost"
    assert stage.trees.alive() == set()
    assert (found.lines_after, found.changed_after) == (0, 0), "written after the loss"
    assert found.told == (1,) * JOBS, "of each loss the next owner's model is told once"
    assert (found.ended, found.late_writes) == (0, 0)
    assert found.went_on
    log = stage.entries()
    losses = [n for n, entry in enumerate(log) if isinstance(entry.event, JobLost)]
    asked = next(n for n, entry in enumerate(log) if entry.epoch > 1 and isinstance(entry.event, ModelCalled))
    assert len(losses) == JOBS
    assert max(losses) < asked, "told before the model is asked anew"


@pytest.mark.parametrize("guard_too", [False, True], ids=["worker", "worker and guard"])
def test_nothing_is_left_of_the_jobs_of_a_killed_worker(address: Address, tmp_path: Path, guard_too: bool) -> None:
    with grown(address, tmp_path) as stage:
        found = stage.kill(guard_too=guard_too)

        assert_kept(found, stage)
        assert found.gone_at < found.lease_until, "they do not live until the lease is over"
        assert found.was_claimed_at >= found.lease_until


def test_a_frozen_worker_loses_its_jobs_before_its_lease_is_over_and_writes_nothing_when_it_is_resumed(
    address: Address, tmp_path: Path
) -> None:
    with grown(address, tmp_path) as stage:
        found = stage.freeze()

        assert_kept(found, stage)
        assert found.gone_at < found.lease_until <= found.was_claimed_at
        assert found.was_claimed_at < found.at + FROZEN_LEASES * LEASE_SECONDS * SECOND, "taken over while it is frozen"
        assert found.exit_code == 0


def test_a_worker_that_is_told_to_end_stops_its_jobs_and_gives_the_task_back_at_once(
    address: Address, tmp_path: Path
) -> None:
    with grown(address, tmp_path, LONG_LEASE_SECONDS) as stage:
        found = stage.terminate()

        assert_kept(found, stage)
        assert found.exit_code == 0
        assert found.released_at is not None and found.lines_after_release == 0, "given back before they were gone"
        assert found.released_at <= found.was_claimed_at < found.lease_until
