"""Waiting is free: an idle worker beside nothing, and beside tasks that wait in every way there is.

Two processes of `noeta worker` with its default settings, one a schema, run through the same minute. Threads are
counted by the kernel, connections and statements on the wire. Targets: as many threads and connections beside 100,000
waiting tasks as beside none, and as many statements. By the clock the last look of the minute may fall on either side
of its end; so the same loop also runs a minute of a clock of its own, and there the statements must be equal exactly.

A third process drives tasks to a question for a person by itself, some and then many: what it holds must not grow.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from bench.agents import ASKER, Silent
from bench.bulk import add_waiting, settle
from bench.counters import schema_totals
from bench.report import Figure, Target, figure
from bench.site import Place, Places, Session
from bench.wire import Relay
from bench.workers import WorkerProcess, worker_process
from noeta.core.runner import Engine
from noeta.core.store import NewTask
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle

NAME: Final = "waiting"
WAITING: Final = 100_000
WAITING_QUICK: Final = 5_000
MINUTE_SECONDS: Final = 60.0
WINDOW_QUICK_SECONDS: Final = 10.0
SAMPLES_A_WINDOW: Final = 10
STEADY_ROUND_TRIPS: Final = 40
"""By then every statement of an idle worker was prepared, the sweep's too, which is first sent after ten seconds."""

STEADY_SECONDS_MAX: Final = 60.0
DRIVEN_FEW: Final = 20
DRIVEN_MANY: Final = 1_000
DRIVEN_MANY_QUICK: Final = 100
DRIVEN_SECONDS_MAX: Final = 300.0
IDLE_LOOKS: Final = 6
"""Round trips after which a worker that had nothing left to do is idle for sure."""

NONE: Final = Target("at most", 0)
RENEWALS: Final = Target("at most", 1)
"""The connection of the renewals, which opens when a heartbeat meets a running task for the first time."""

EDGE: Final = Target("at most", 3)
"""The claim, the timer poll and the sweep of the one look that fell on the other side of the window's end."""


@dataclass(frozen=True, slots=True)
class Idle:
    """What one idle worker holds and does in a window. ``threads`` and ``connections``: the most seen."""

    threads: int
    connections: int
    statements: int
    buffers: float
    private_mb: float


@dataclass(frozen=True, slots=True)
class Held:
    """What one worker process holds at an idle moment."""

    threads: int
    connections: int
    private_kb: int


class OwnClock:
    """Time that passes only while the loop pauses, so that a minute is as many looks on every machine."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Both columns, and their differences."""
    waiting = WAITING_QUICK if quick else WAITING
    with places() as nobody, places() as crowd:
        for place, count in ((nobody, 0), (crowd, waiting)):
            with place.session() as session:
                add_waiting(session, count)
                settle(session)
        own = [statements_of_own_minute(place) for place in (nobody, crowd)]
        window = WINDOW_QUICK_SECONDS if quick else MINUTE_SECONDS
        beside_none, beside_crowd = idle_together([nobody, crowd], window)
    found = figures(beside_none, beside_crowd, own, f"{waiting:,} wait", f"{window:g} s")
    many = DRIVEN_MANY_QUICK if quick else DRIVEN_MANY
    with places() as place:
        held = drive_to_wait(place, [DRIVEN_FEW, many])
    return [*found, *figures_of_driven(held, [DRIVEN_FEW, many])]


def figures(none: Idle, crowd: Idle, own: list[int], wait: str, window: str) -> list[Figure]:
    """Every count beside nothing and beside the crowd, and how many more or fewer those are."""
    found: list[Figure] = []
    for name, unit, one, other, target in (
        ("threads", "threads", none.threads, crowd.threads, NONE),
        ("connections", "connections", none.connections, crowd.connections, NONE),
        (f"statements in {window}", "statements", none.statements, crowd.statements, EDGE),
        ("statements in 60 s of the loop's own clock", "statements", own[0], own[1], NONE),
        ("buffers a statement", "buffers", none.buffers, crowd.buffers, None),
        ("private memory", "MB", none.private_mb, crowd.private_mb, None),
    ):
        found.append(figure(NAME, f"{name}, nobody waits", unit, [one]))
        found.append(figure(NAME, f"{name}, {wait}", unit, [other]))
        if target is not None:
            found.append(figure(NAME, f"{name}, difference", unit, [abs(other - one)], target))
    return found


def figures_of_driven(held: list[Held], counts: list[int]) -> list[Figure]:
    """What the worker holds after the first count and after the last, and how much that grew."""
    found: list[Figure] = []
    for name, values, target in (
        ("threads", [one.threads for one in held], NONE),
        ("connections", [one.connections for one in held], RENEWALS),
    ):
        for value, count in zip(values, counts, strict=True):
            found.append(figure(NAME, f"{name}, {count:,} driven to a wait", name, [value]))
        growth = f"{name}, growth by {counts[-1] - counts[0]:,} driven to a wait"
        found.append(figure(NAME, growth, name, [values[-1] - values[0]], target))
    grown = (held[-1].private_kb - held[0].private_kb) / (counts[-1] - counts[0])
    found.append(figure(NAME, "private memory, growth a task driven to a wait", "kB", [grown]))
    return found


def statements_of_own_minute(place: Place) -> int:
    """Round trips of one worker loop that finds nothing to do for a minute of its own clock."""
    clock = OwnClock()
    with Relay(place.dsn) as relay, place.store(relay.dsn, max_connections=1) as store:
        for prepare in (store.fire_due_timers, store.requeue_stale, lambda: store.claim("bench", None, 1.0)):
            prepare()
        loop = WorkerLoop(
            bundle(store, Engine(Silent())), worker_id="bench", clock=clock.now, now_fn=clock.now, sleep=clock.pause
        )
        before = relay.round_trips
        while clock.seconds < MINUTE_SECONDS:
            loop.maybe_sweep()
            loop.maybe_poll_timers()
            assert not loop.tick(), "there was something to claim"
            clock.pause(0.5)
        return relay.round_trips - before


def idle_together(places: list[Place], seconds: float) -> list[Idle]:
    """One worker process a place, all through the same window."""
    with ExitStack() as stack:
        session = stack.enter_context(places[0].session())
        relays = [stack.enter_context(Relay(place.counted_dsn)) for place in places]
        workers = [
            stack.enter_context(worker_process(relay.dsn, place.schema))
            for relay, place in zip(relays, places, strict=True)
        ]
        for worker, relay in zip(workers, relays, strict=True):
            _wait_until_steady(worker, relay)
        trips = [relay.round_trips for relay in relays]
        counted = [schema_totals(session, place) for place in places]
        threads, connections = [0] * len(places), [0] * len(places)
        ends = time.monotonic() + seconds
        for left in reversed(range(SAMPLES_A_WINDOW)):
            time.sleep(max(0.0, ends - left * seconds / SAMPLES_A_WINDOW - time.monotonic()))
            threads = [max(most, worker.threads) for most, worker in zip(threads, workers, strict=True)]
            connections = [max(most, relay.connections) for most, relay in zip(connections, relays, strict=True)]
        sent = [relay.round_trips - before for relay, before in zip(relays, trips, strict=True)]
        spent = [schema_totals(session, place).since(before) for place, before in zip(places, counted, strict=True)]
        return [
            Idle(threads[i], connections[i], sent[i], spent[i].touched / spent[i].calls, workers[i].private_kb / 1024)
            for i in range(len(places))
        ]


def drive_to_wait(place: Place, counts: list[int]) -> list[Held]:
    """What one worker process holds each time it has driven so many tasks in all to a question for a person."""
    held = []
    with place.session() as session, place.store() as store, Relay(place.dsn) as relay:
        with worker_process(relay.dsn, place.schema) as worker:
            for before, count in pairwise([0, *counts]):
                for number in range(before, count):
                    store.create(NewTask(f"ask-{number}", ASKER, "bench"))
                worker.wait_until(
                    partial(_all_wait, session, count), f"{count} tasks that ask a person", DRIVEN_SECONDS_MAX
                )
                looks = relay.round_trips + IDLE_LOOKS
                worker.wait_until(partial(_has_looked, relay, looks), "an idle worker's looks", STEADY_SECONDS_MAX)
                held.append(Held(worker.threads, relay.connections, worker.private_kb))
    return held


def _all_wait(session: Session, count: int) -> bool:
    row = session.execute("SELECT count(*) FROM task WHERE status = 'suspended'").fetchone()
    assert row is not None
    return bool(row[0] == count)


def _has_looked(relay: Relay, round_trips: int) -> bool:
    return relay.round_trips >= round_trips


def _wait_until_steady(worker: WorkerProcess, relay: Relay) -> None:
    worker.wait_until(
        partial(_has_looked, relay, STEADY_ROUND_TRIPS), "an idle worker's first looks", STEADY_SECONDS_MAX
    )
