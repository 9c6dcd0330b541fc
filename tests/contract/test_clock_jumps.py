"""The store's clock is set an hour forth or back while leases are out and timers run.

https://github.com/etcd-io/etcd/issues/12291 , https://github.com/kubernetes/client-go/issues/448
"""

from __future__ import annotations

import threading

import pytest

from noeta.core.errors import InvalidLease
from noeta.core.events import ModelCalled, TaskCompleted, ToolFinished
from noeta.core.store import Store
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle
from noeta.testing.store_contract import Stage
from tests.actors import PATIENCE_SECONDS, Effect, Model, asks, engine, says, wait_until

HOUR = 3_600.0
LEASE = 60.0
NO_BEATS = 0.0
TASKS = ("t1", "t2", "t3")


def test_an_hour_forth_costs_every_lease_and_doubles_no_effect(stage: Stage) -> None:
    """All that runs is taken over at once. No call starts again, and what its old owners bring then is refused.
    Keeps: one-writer.
    """
    running, go_on = threading.Semaphore(0), threading.Event()
    paid: list[tuple[str, int]] = []

    def wait(ctx: ToolContext) -> None:
        running.release()
        wait_until(go_on, "the new owners' end")

    agent = engine(Model((asks("pay"), says())), Effect("pay", paid, after=wait))

    def loop(store: Store, name: str) -> WorkerLoop:
        return WorkerLoop(
            bundle(store, agent), worker_id=name, lease_seconds=LEASE, heartbeat_interval=NO_BEATS, step_poll_s=0.01
        )

    ended = []
    for id in TASKS:
        stage.create(id)
        old = loop(stage.another(), f"old owner of {id}")
        ended.append(ThreadWorld().spawn(id, lambda old=old: _ignore(old.tick())).done)  # type: ignore[misc]
        assert running.acquire(timeout=PATIENCE_SECONDS)

    stage.clock.advance(HOUR)
    new = loop(stage.another(), "w2")
    while new.tick():
        pass
    logs = {id: stage.events(id) for id in TASKS}
    go_on.set()
    assert all(done.wait(PATIENCE_SECONDS) for done in ended)

    assert sorted(paid) == [(f"{id}:3-0", 1) for id in TASKS]
    for id in TASKS:
        assert [event.source for event in logs[id] if isinstance(event, ToolFinished)] == ["unknown"]
        assert logs[id][-1] == TaskCompleted("done")
        assert stage.events(id) == logs[id]
        assert stage.row(id).epoch == 2


def test_after_an_hour_forth_the_old_owner_writes_nothing_and_the_next_lease_is_an_ordinary_one(stage: Stage) -> None:
    """Whether or not anybody took over. Keeps: one-writer, never-stuck."""
    old = stage.running()
    stage.clock.advance(HOUR)

    def is_refused() -> None:
        with stage.nothing_changes():
            assert stage.store.renew(old, LEASE)[0].outcome == "lost"
            with pytest.raises(InvalidLease):
                stage.append(old, ModelCalled("hash", 1))
            with pytest.raises(InvalidLease):
                stage.store.fail(old, "late", retryable=False)

    is_refused()
    assert stage.claim("w2").epoch == old.epoch + 1
    is_refused()
    assert stage.nothing_claimable()
    stage.clock.advance(LEASE)
    assert stage.claim("w3").epoch == old.epoch + 2


def test_an_hour_back_takes_no_lease_and_the_next_renewal_sets_it_right(stage: Stage) -> None:
    """Whoever beats is found dead one lease after the last beat, also by a process that had looked at the later time.
    Keeps: one-writer, never-stuck.
    """
    claim = stage.running()
    stage.clock.advance(LEASE / 2)
    assert stage.nothing_claimable()

    stage.clock.advance(-HOUR)
    with stage.nothing_changes():
        assert stage.nothing_claimable()
        assert stage.store.requeue_stale() == ()
    (renewal,) = stage.store.renew(claim, LEASE)
    assert (renewal.outcome, stage.row().lease_until) == ("held", stage.now + round(LEASE * 1_000_000))
    stage.clock.advance(LEASE)

    assert stage.claim("w2").epoch == claim.epoch + 1


def test_what_is_made_after_an_hour_back_is_taken_at_once(stage: Stage) -> None:
    """Also by a process that has claimed at the later time. Keeps: never-stuck."""
    stage.ended("before")
    stage.clock.advance(-HOUR)

    stage.create("after")

    assert stage.claim("w2").task_id == "after"


def test_what_nobody_renews_waits_as_long_as_the_clock_went_back_and_no_longer(stage: Stage) -> None:
    """A dead owner's lease and a task that was ready stand where they stood; nothing shortens them, and nothing loses
    them. Keeps: never-stuck.
    """
    dead = stage.running("dead")
    stage.create("ready")
    stage.clock.advance(-HOUR)
    assert stage.nothing_claimable()

    stage.clock.advance(HOUR)
    assert stage.claim("w2").task_id == "ready"
    stage.clock.advance(LEASE)
    assert [(claim.task_id, claim.epoch) for claim in stage.claim_all(2)] == [("dead", dead.epoch + 1), ("ready", 2)]


def test_a_timer_fires_at_its_instant_and_once_whichever_way_the_clock_went(stage: Stage) -> None:
    """Keeps: timers-once."""
    stage.suspended("back", stage.timer(10))
    stage.clock.advance(-HOUR)
    stage.clock.advance(11)
    assert stage.store.fire_due_timers() == ()
    assert stage.nothing_claimable()
    stage.suspended("forth", stage.timer(HOUR / 2))

    stage.clock.advance(HOUR)

    assert stage.store.fire_due_timers() == ("forth", "back")
    assert stage.store.fire_due_timers() == ()
    assert [len(stage.unread(id)) for id in ("back", "forth")] == [1, 1]
    assert stage.row("back").status is Status.PENDING


def _ignore(answer: object) -> None:
    pass
