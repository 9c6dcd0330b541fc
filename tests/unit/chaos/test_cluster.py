"""Worker processes: born with what they need, gone with the cluster, and never a password where others can read."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noeta.backends.stores.pg_migrate import migrate
from noeta.chaos.cluster import Cluster, ClusterClosed, Worker
from noeta.chaos.config import Config
from noeta.chaos.reaper import Reapers

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEADLINE_SECONDS = 60.0


def wait_until_answered(cluster: Cluster) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not all(cluster.answers(worker) for worker in cluster.workers.values()):
        assert time.monotonic() < deadline, [worker.log_tail() for worker in cluster.workers.values()]
        time.sleep(0.02)


@pytest.fixture
def config(tmp_path: Path, pg_schema: tuple[str, str]) -> Config:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    return Config(seed="t", tasks=1, seconds=60, run_dir=tmp_path, schema=schema, address=dsn, workers=2, concurrency=1)


@pytest.fixture
def reapers() -> Iterator[Reapers]:
    with Reapers() as made:
        yield made


def test_workers_start_answer_and_end_in_order(config: Config, reapers: Reapers) -> None:
    with Cluster(config, reapers) as cluster:
        cluster.start()
        wait_until_answered(cluster)
        first = cluster.workers["w1"]
        second = cluster.spawn("w1")
        names = [worker.process for worker in cluster.all]
        lines = b"".join(Path(f"/proc/{worker.pid}/cmdline").read_bytes() for worker in cluster.all)

        assert names == ["w1#1", "w2#1", "w1#2"]
        assert cluster.alive() == ["w1", "w2"] and first.is_running and second.is_running
        assert b"password" not in lines and config.address.encode() not in lines
        assert os.getsid(first.pid) == first.pid  # the terminal's Ctrl-C is not for them
        wait_until_answered(cluster)

    assert [worker.child.returncode for worker in (cluster.workers["w1"], cluster.workers["w2"])] == [0, 0]
    assert not any(worker.is_running for worker in cluster.all)
    cluster.stop_all()  # twice does no harm


def test_a_stopped_worker_is_ended_too_and_nobody_is_born_afterwards(config: Config, reapers: Reapers) -> None:
    with Cluster(config, reapers) as cluster:
        cluster.start()
        wait_until_answered(cluster)
        stopped = cluster.workers["w2"]
        stopped.signal(signal.SIGSTOP)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not stopped.is_stopped:
            assert time.monotonic() < deadline
        began = time.monotonic()
        cluster.stop_all()

        assert stopped.child.returncode == 0 and time.monotonic() - began < 10
        with pytest.raises(ClusterClosed):
            cluster.spawn("w1")


def test_a_signal_never_hits_a_process_that_only_has_the_same_id(config: Config, reapers: Reapers) -> None:
    with Cluster(config, reapers) as cluster:
        cluster.start()
        real = cluster.workers["w1"]
        assert real.start is not None
        other = Worker("w1", 1, real.child, real.start - 1, real.log, real.number)

        assert not other.signal(signal.SIGKILL)
        assert real.is_running
        assert real.signal(signal.SIGKILL)
        real.child.wait()
        assert not real.signal(signal.SIGKILL)


def test_a_planted_bug_is_called_in_every_worker_before_its_app_is_built(config: Config, reapers: Reapers) -> None:
    with Cluster(config, reapers, mutant="tests.unit.chaos.test_cluster:plant") as cluster:
        cluster.start()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(worker.is_running for worker in cluster.workers.values()):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    assert [worker.child.returncode for worker in cluster.all] == [77, 77]


def plant() -> None:
    os._exit(77)
