"""Waits that only time ends, and the pool of workers that sees to it that somebody leases, sweeps and fires timers."""

from __future__ import annotations

import threading

import pytest

from noeta.core.events import TaskCompleted
from noeta.core.task import Status
from noeta.core.wake import ExternalEvent, TimerFired
from tests.actors import PATIENCE_SECONDS, Effect, Model, PointWorld, asks, die, engine, says
from tests.unit.runtime.machines import LEASE, Machine, Site, asks_timer, calls, helper_agent, main_agent

DELAY = 90.0
ONE_MICRO = 1e-6


@pytest.mark.holds("wake/arrives", "wake/lease-carries-it")
def test_a_timer_arrives_through_the_dispatcher_and_comes_with_the_next_lease() -> None:
    """Keeps: timers-once, wake-once."""
    site = Site(main=main_agent(asks_timer(DELAY)))
    site.create()
    site.machine().rest()
    condition = site.row().wake_on
    assert condition == TimerFired(site.seconds + DELAY)
    outsider = site.outsider()

    site.seconds += DELAY - ONE_MICRO
    assert outsider.fire_due_timers() == ()
    assert outsider.lease(worker_id="early") is None
    site.seconds += ONE_MICRO
    assert outsider.fire_due_timers() == ("t",)

    lease = outsider.lease(worker_id="w2", lease_seconds=1.0)
    assert lease is not None and lease.wake_event == condition
    site.seconds += LEASE
    site.machine("w3").rest()
    assert site.woken() == [condition]
    assert outsider.fire_due_timers() == ()


@pytest.mark.holds("wake/still-waiting")
def test_a_task_that_nothing_has_come_for_is_left_waiting_and_nobody_is_told_of_an_error() -> None:
    """Keeps: waiting-is-free."""
    site = Site(main=main_agent(asks_timer(DELAY)))
    site.create()
    now = [0.0]
    machine = site.machine(clock=lambda: now[0])
    machine.rest()
    before = site.store.read("t")

    for _ in range(10):
        now[0] += 100.0
        assert machine.loop.maybe_sweep() and machine.loop.maybe_poll_timers()
        assert not machine.loop.tick()

    assert site.store.read("t") == before
    assert machine.signals.kinds() == []


class Pool:
    """Machines that run until all tasks have ended. Whoever has nothing to do moves the clock on."""

    def __init__(self, site: Site, count: int) -> None:
        self.site = site
        self.pauses = 0
        self._lock = threading.Lock()
        self.machines = [self._machine(f"w{n}") for n in range(count)]

    def _machine(self, name: str) -> Machine:
        return self.site.machine(name, clock=lambda: self.site.seconds - 1.6e9, sleep=self._pause)

    def _pause(self, seconds: float) -> None:
        with self._lock:
            self.pauses += 1
            self.site.seconds += 1.0
            if self.pauses > 2_000 or {row.status for row in self.site.rows()} == {Status.TERMINAL}:
                for machine in self.machines:
                    machine.loop.stop()

    def run(self) -> None:
        threads = [threading.Thread(target=machine.loop.run_forever, daemon=True) for machine in self.machines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a loop did not end"


@pytest.mark.parametrize("machines", [1, 3])
@pytest.mark.holds("means/worker-pool", "wake/timers-need-nobody", "scale/one-host", "any/worker-any-machine")
def test_a_pool_alone_carries_every_task_through_leases_timers_and_a_death(machines: int) -> None:
    """Nobody else touches the store: no producer of timers, no sweeper. Keeps: never-stuck, timers-once."""
    journal: list[tuple[str, int]] = []
    lethal = engine(Model((asks("dies"), says("done"))), Effect("dies", journal, after=die))
    site = Site(main=main_agent(asks_timer(DELAY), asks_timer(DELAY)), helper=helper_agent(), lethal=lethal)
    site.create("killed", "lethal")
    assert site.machine("dead").loop.tick()
    assert site.row("killed").status is Status.RUNNING
    for n in range(6):
        site.create(f"timed{n}")
        site.create(f"plain{n}", "helper")

    pool = Pool(site, machines)
    pool.run()

    assert {row.status for row in site.rows()} == {Status.TERMINAL}
    assert {type(site.events(row.id)[-1]) for row in site.rows()} == {TaskCompleted}
    assert all([type(event) for event in site.woken(f"timed{n}")] == [TimerFired] * 2 for n in range(6))
    assert journal == [("killed:3-0", 1)]
    assert site.store.calls("fire_due_timers") and site.store.calls("requeue_stale")
    assert {"timers_fired", "stale_requeued"} <= {kind for one in pool.machines for kind in one.signals.kinds()}


def test_a_worker_whose_clock_is_ahead_fires_no_timer_early() -> None:
    """The store's clock decides, unless the host replaces it on purpose. Keeps: timers-once."""

    class Ahead(PointWorld):
        def wall(self) -> float:
            return site.seconds + 3_600.0

    site = Site(main=main_agent(asks_timer(DELAY)))
    site.create()
    now = [0.0]
    machine = site.machine(world=Ahead(), clock=lambda: now[0], now_fn=None)
    machine.rest()
    now[0] += 100.0

    assert machine.loop.maybe_poll_timers()

    assert site.row().status is Status.SUSPENDED
    site.seconds += DELAY
    now[0] += 100.0
    assert machine.loop.maybe_poll_timers()
    assert site.row().status is Status.PENDING


def test_the_end_of_one_waits_time_does_not_end_the_next_one() -> None:
    """It came beside the event that ended the first; the model hears nothing of it. Keeps: wake-once, timers-once."""
    limited = calls(("WaitForEvent", {"event_kind": "built", "timeout_seconds": 5}))
    site = Site(main=main_agent(limited, limited))
    site.create()
    machine = site.machine()
    machine.rest()
    site.seconds += 10
    outsider = site.outsider()
    assert outsider.fire_due_timers() == ("t",)
    outsider.post("t", ExternalEvent("built", "first"), "1")
    machine.rest()

    assert site.results() == ['"first"']
    assert site.row().status is Status.SUSPENDED
    outsider.post("t", ExternalEvent("built", "second"), "2")
    machine.rest()
    assert site.results() == ['"first"', '"second"']
