"""A small storm to try one fault in: real workers, slow tasks, a store, and nothing that strikes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from invariants.evidence import Attempt
from noeta.backends.open import open_store
from noeta.backends.stores.pg_migrate import migrate
from noeta.chaos.cluster import Cluster, Worker
from noeta.chaos.config import Config
from noeta.chaos.nemesis import DatabaseServer, FaultLine, Nemesis, read_faults
from noeta.chaos.proxy import Wire, resolve
from noeta.chaos.reaper import Reapers
from noeta.chaos.schedule import Fault, Quotas, Schedule
from noeta.core.store import NewTask, Store
from scripted_model import Profile, workload
from scripted_model.profile import Kind as TaskKind
from scripted_model.workload import AGENT

DEADLINE_SECONDS = 60.0
LONG_SECONDS = 120.0
"""A storm that no test waits for: what is to strike, strikes in its first seconds."""


def wait_until(what: str, is_so: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


@dataclass
class Stage:
    """The parts, for a test to look at."""

    config: Config
    store: Store
    cluster: Cluster
    reapers: Reapers
    open: Callable[[int], Store]
    server: DatabaseServer | None = None
    wire: Wire | None = None
    loads: int = 0

    def load(self, tasks: int) -> None:
        """More tasks that take a few leases each, in steps of tools that journal."""
        kinds = {TaskKind.SLOW: 3, TaskKind.RETRY_SAFE: 1, TaskKind.RECOVERABLE: 1}
        self.loads += 1
        profile = Profile(weights=kinds, slow_leases=(0.5, 1.5), think_leases=(0.1, 0.4), spread_leases=0.0)
        for task in workload(self.loads, tasks, profile, prefix=f"l{self.loads}t").tasks:
            self.store.create(NewTask(task.id, AGENT, task.goal, self.config.queue))

    def keep_loaded(self) -> None:
        """At least two tasks a loop that are not done, few enough that nobody waits long for a takeover."""
        open_tasks = sum(
            row.status.value in ("pending", "running") for row in self.store.tasks(queue=self.config.queue)
        )
        if open_tasks < 2 * self.config.workers * self.config.concurrency:
            self.load(4)

    @contextmanager
    def nemesis(
        self,
        *faults: Fault,
        spares: tuple[Fault, ...] = (),
        quotas: Quotas | None = None,
        keeps_out: Callable[[int], bool] = lambda pid: False,
    ) -> Iterator[Nemesis]:
        """A nemesis at work on these faults; the record is read with ``lines``."""
        schedule = Schedule("test", faults, spares, quotas or Quotas())
        own = self.open(2)
        try:
            with Nemesis(
                schedule, self.cluster, own, self.server, self.record, keeps_out=keeps_out, wire=self.wire
            ) as nemesis:
                nemesis.start()
                yield nemesis
        finally:
            own.close()

    @property
    def record(self) -> Path:
        return self.config.run_dir / "faults.jsonl"

    @property
    def lines(self) -> tuple[FaultLine, ...]:
        return read_faults(self.record)

    def worker(self, name: str) -> Worker:
        return self.cluster.workers[name]

    def attempts(self, worker: Worker) -> list[Attempt]:
        """What this process asked of the store; answered ones twice."""
        path = self.config.run_dir / "attempts" / f"{worker.stem}.jsonl"
        raw = path.read_bytes().splitlines() if path.is_file() else []
        return [msgspec.json.decode(line, type=Attempt) for line in raw]

    def wait_until_at_work(self) -> None:
        """Every worker is up and holds something."""
        names = self.config.worker_names
        wait_until("every worker has claimed", lambda: all(self.has_claimed(self.worker(name)) for name in names))

    def has_claimed(self, worker: Worker) -> bool:
        return any(attempt.verb == "claim" for attempt in self.attempts(worker))


@contextmanager
def stage(
    tmp_path: Path,
    dsn: str,
    schema: str,
    *,
    workers: int = 3,
    concurrency: int = 2,
    tasks: int = 9,
    server: DatabaseServer | None = None,
    seconds: float = LONG_SECONDS,
    wired: bool = False,
) -> Iterator[Stage]:
    """Workers at work, over a proxy if ``wired``; everything is gone afterwards."""
    migrate(dsn, schema)
    config = Config(
        seed="test",
        tasks=tasks,
        seconds=seconds,
        run_dir=tmp_path / "run",
        schema=schema,
        address=dsn,
        workers=workers,
        concurrency=concurrency,
        poll_seconds=0.1,
    )

    def open(connections_max: int) -> Store:
        return open_store(dsn, schema=schema, max_connections=connections_max)

    store = open(4)
    try:
        with Reapers() as reapers, ExitStack() as stack:
            wire = None
            if wired:
                config.run_dir.mkdir()
                record, log = config.run_dir / "cuts.jsonl", config.run_dir / "wire.log"
                wire = stack.enter_context(Wire(resolve(dsn), record, log, reapers))
            address_of = None if wire is None else wire.address_of
            cluster = stack.enter_context(Cluster(config, reapers, address_of=address_of))
            scene = Stage(config, store, cluster, reapers, open, server, wire)
            scene.load(tasks)
            cluster.start()
            scene.wait_until_at_work()
            yield scene
            pids = [worker.pid for worker in cluster.all]
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()], "a worker was left behind"
    finally:
        store.close()
