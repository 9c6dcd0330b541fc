"""A sweep over Dask is the same sweep, also when workers die in the middle of it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import psutil
import pytest
from distributed import LocalCluster

from invariants import Verdict
from noeta.chaos.sim import dask_cluster, executors
from noeta.chaos.sim.executors import open_executor
from noeta.chaos.sim.sweep import record_path, sweep
from noeta.chaos.sim.sweep_found import Found
from noeta.chaos.sim.sweep_plan import Plan
from noeta.core.errors import BadInput

pytestmark = pytest.mark.slow

WORKERS = 4
PLAN = Plan(0, 199)


@pytest.fixture
def cluster() -> Iterator[Executor]:
    with open_executor("dask", WORKERS) as executor:
        yield executor


def noisy() -> bool:
    """Whether the runtime would log anything in this process."""
    return logging.getLogger("noeta").isEnabledFor(logging.CRITICAL)


def worker_pids(executor: Executor) -> set[int]:
    """Worker processes that answer, and are children of this one."""
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    return {future.result() for future in [executor.submit(os.getpid) for _ in range(50)]} & children


def test_a_cluster_that_loses_a_worker_finds_what_processes_find(
    cluster: Executor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_executor("processes", 2) as executor:
        there = sweep(PLAN, executor, directory=tmp_path / "processes")
    before = worker_pids(cluster)
    victim = psutil.Process(min(before))
    killed_at: list[int] = []

    def kill_one(found: Found) -> None:
        if found.done >= 50 and not killed_at:
            os.kill(victim.pid, signal.SIGKILL)
            killed_at.append(found.done)

    found = sweep(PLAN, cluster, directory=tmp_path, progress=kill_one)

    assert len(before) == WORKERS
    assert killed_at
    assert killed_at[0] < PLAN.seeds
    assert not victim.is_running()
    assert found.complete
    assert found.verdict is Verdict.VALID
    chunks = [line.split(b'"last"')[0] for line in record_path(tmp_path, PLAN).read_bytes().splitlines()[1:-1]]
    assert len(chunks) == len(set(chunks)) == 8, "every chunk once"
    assert found.trace_hash == there.trace_hash
    assert found.sums == there.sums
    assert not any(future.result() for future in [cluster.submit(noisy) for _ in range(50)])
    assert capfd.readouterr() == ("", ""), "what became of the worker is the cluster's to mend, and nobody's to read"


def test_the_workers_of_a_cluster_that_others_started_can_be_used(tmp_path: Path) -> None:
    plan = Plan(0, 19)
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=2, memory_limit=0, dashboard_address=None, silence_logs=logging.ERROR
    ) as theirs:
        with open_executor("dask", 1, theirs.scheduler_address) as executor:
            there = sweep(plan, executor, directory=tmp_path / "dask")
            noise = executor.submit(noisy).result()
    with open_executor("processes", 1) as executor:
        here = sweep(plan, executor, directory=tmp_path)

    assert there.trace_hash == here.trace_hash
    assert there.sums == here.sums
    assert not noise


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://here"])
def test_an_address_where_nobody_answers_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS_MAX", 1)

    with pytest.raises(BadInput, match="address: expected a Dask scheduler that answers"):
        with open_executor("dask", 1, address):
            pass


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "find_spec", lambda name: None)

    with pytest.raises(BadInput, match="dask needs an extra"):
        open_executor("dask", 2)
