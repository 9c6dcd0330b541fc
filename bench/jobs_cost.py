"""What background jobs cost: the start of one beside a bare process, and a worker with many kept tasks beside one
with none.

Starts take turns with bare starts of the same shell. The two workers run with the default settings through the same
window; what they hold is counted by the kernel, what they send on the wire.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.job_agent import APP, goal
from bench.report import Figure, figure, ratios
from bench.site import Place, Places, Session
from bench.wire import Relay
from bench.workers import WorkerProcess, worker_process
from noeta.backends.stores.memory import MemoryStore
from noeta.core.jobs import JobSpec
from noeta.core.runner.lease import Held
from noeta.core.store import Claim, NewTask
from noeta.runtime.jobs import tree
from noeta.runtime.jobs.table import JobTable
from noeta.runtime.threads import ThreadWorld

NAME: Final = "jobs_cost"
STARTS: Final = 40
STARTS_QUICK: Final = 10
KEPT: Final = 100
KEPT_QUICK: Final = 20
WINDOW_SECONDS: Final = 60.0
WINDOW_QUICK_SECONDS: Final = 10.0
SAMPLES_A_WINDOW: Final = 10
STEADY_SECONDS_MAX: Final = 300.0
IDLE_LOOKS: Final = 60
"""Round trips after which every statement of an idle worker was prepared: the sweep's, too, first sent after ten
seconds."""

LONG_SECONDS: Final = 600.0
COMMAND: Final = "exec sleep 100000"


@dataclass(frozen=True, slots=True)
class Idle:
    """What a worker without a step holds and does in a window. ``threads`` and ``connections``: the most seen;
    ``below``: processes that descend from it, with what memory of theirs is their own in kB."""

    threads: int
    connections: int
    statements: int
    private_kb: int
    below: int
    below_kb: int


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Starts, and both workers."""
    kept = KEPT_QUICK if quick else KEPT
    window = WINDOW_QUICK_SECONDS if quick else WINDOW_SECONDS
    started, bare = starts(STARTS_QUICK if quick else STARTS)
    with places() as nobody, places() as crowd:
        with crowd.store() as store:
            for number in range(kept):
                store.create(NewTask(f"kept-{number}", "bench", goal([COMMAND]), interactive=True))
        beside_none, beside_kept = idle_together([nobody, crowd], [0, kept], window)
    return [*figures_of_starts(started, bare), *figures_of_kept(beside_none, beside_kept, kept, window)]


def figures_of_starts(started: list[float], bare: list[float]) -> list[Figure]:
    """Seconds of each start."""
    return [
        figure(NAME, "start of a job", "ms", [one * 1000 for one in started]),
        figure(NAME, "start of a bare shell", "ms", [one * 1000 for one in bare]),
        figure(NAME, "start of a job: times a bare shell", "x", ratios(started, bare)),
    ]


def figures_of_kept(none: Idle, crowd: Idle, kept: int, window: float) -> list[Figure]:
    """Every count without kept tasks and with them."""
    found = []
    for name, unit, one, other in (
        ("threads", "threads", none.threads, crowd.threads),
        ("connections", "connections", none.connections, crowd.connections),
        (f"statements in {window:g} s", "statements", none.statements, crowd.statements),
        ("processes below the worker", "processes", none.below, crowd.below),
    ):
        found.append(figure(NAME, f"{name}, nothing kept", unit, [one]))
        found.append(figure(NAME, f"{name}, {kept} kept tasks with a job each", unit, [other]))
    growth = crowd.private_kb - none.private_kb
    found.append(figure(NAME, "memory of the worker, growth a kept task", "kB", [growth / kept]))
    found.append(figure(NAME, "memory of the processes below it, a kept task", "kB", [crowd.below_kb / kept]))
    return found


def starts(count: int) -> tuple[list[float], list[float]]:
    """Seconds of so many starts of a job, and of a bare shell that does the same, in turns. The guard runs before."""
    world = ThreadWorld()
    table = JobTable(world)
    claim = Claim("bench", "default", "bench", 1, "token", 0, 0, 0, 0, 0, "pending")
    jobs = table.of(Held(world, MemoryStore(), claim, world.monotonic() + LONG_SECONDS))
    started, bare = [], []
    try:
        jobs.start("first", JobSpec(COMMAND))
        for number in range(count):
            began = time.monotonic()
            jobs.start(str(number), JobSpec(COMMAND))
            between = time.monotonic()
            shell = subprocess.Popen(["/bin/sh", "-c", COMMAND], stdin=subprocess.DEVNULL, start_new_session=True)
            bare.append(time.monotonic() - between)
            started.append(between - began)
            shell.kill()
            shell.wait()
        assert len(jobs.live()) == count + 1, jobs.ended()
    finally:
        table.close()
    return started, bare


def idle_together(places: list[Place], kept: list[int], seconds: float) -> list[Idle]:
    """One worker process a place, all through the same window, once so many tasks of each are kept."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(place.session()) for place in places]
        relays = [stack.enter_context(Relay(place.dsn)) for place in places]
        workers = [
            stack.enter_context(worker_process(relay.dsn, place.schema, "--app", APP))
            for relay, place in zip(relays, places, strict=True)
        ]
        for session, worker, relay, count in zip(sessions, workers, relays, kept, strict=True):
            worker.wait_until(partial(_are_kept, session, count), f"{count} kept tasks", STEADY_SECONDS_MAX)
            looks = relay.round_trips + IDLE_LOOKS
            worker.wait_until(partial(_has_looked, relay, looks), "an idle worker's looks", STEADY_SECONDS_MAX)
        trips = [relay.round_trips for relay in relays]
        threads, connections = [0] * len(places), [0] * len(places)
        ends = time.monotonic() + seconds
        for left in reversed(range(SAMPLES_A_WINDOW)):
            time.sleep(max(0.0, ends - left * seconds / SAMPLES_A_WINDOW - time.monotonic()))
            threads = [max(most, worker.threads) for most, worker in zip(threads, workers, strict=True)]
            connections = [max(most, relay.connections) for most, relay in zip(connections, relays, strict=True)]
        sent = [relay.round_trips - before for relay, before in zip(relays, trips, strict=True)]
        return [_idle(worker, threads[i], connections[i], sent[i]) for i, worker in enumerate(workers)]


def _idle(worker: WorkerProcess, threads: int, connections: int, statements: int) -> Idle:
    below = [process.pid for process in tree.below([worker.pid])]
    return Idle(threads, connections, statements, worker.private_kb, len(below), sum(map(_private_kb, below)))


def _private_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _are_kept(session: Session, count: int) -> bool:
    row = session.execute("SELECT count(*) FROM task WHERE kept").fetchone()
    assert row is not None
    return bool(row[0] == count)


def _has_looked(relay: Relay, round_trips: int) -> bool:
    return relay.round_trips >= round_trips
