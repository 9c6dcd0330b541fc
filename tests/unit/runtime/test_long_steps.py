"""Steps of many leases, steps that hang, and steps that hold their task for too long."""

from __future__ import annotations

import threading

import pytest

from noeta.core.events import ModelCalled, StepAttemptAbandoned, ToolFinished
from noeta.core.runner.lease import QUOTA_EXCEEDED
from noeta.core.store import Commit
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.runtime.process import Process
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop
from tests.actors import PATIENCE_SECONDS, Beats, Effect, Model, asks, engine, says, wait_until
from tests.unit.runtime.scene import LEASE, Scene


@pytest.mark.holds("guarantee/lease-while-it-runs", "status/running")
def test_a_step_of_many_leases_is_not_claimed_twice() -> None:
    """https://github.com/janbjorge/pgqueuer/issues/430"""
    started, go_on = threading.Event(), threading.Event()
    journal: list[tuple[str, int]] = []

    def take_long(ctx: ToolContext) -> None:
        started.set()
        wait_until(go_on, "the end of the long step")

    beats = Beats()
    scene = Scene(
        engine(Model((asks("slow"), says())), Effect("slow", journal, after=take_long)),
        lease_seconds=60.0,
        heartbeat_interval=20.0,
        heartbeat_wait=beats,
    )
    scene.create()
    ticking = ThreadWorld().spawn("tick", lambda: _ignore(scene.loop.tick()))
    wait_until(started, "the step")

    for _ in range(30):  # ten leases
        scene.clock.seconds += 20
        beats.beat()
        assert scene.memory.claim("thief", None, 60.0).claims == ()
        assert scene.memory.requeue_stale() == ()
    go_on.set()

    assert ticking.done.wait(PATIENCE_SECONDS)
    beats.end()
    assert journal == [("t:3-0", 1)]
    assert (scene.memory.task("t").status, scene.memory.task("t").epoch) == (Status.TERMINAL, 1)


@pytest.mark.holds("writer/wrong-guess")
def test_a_stuck_step_loses_its_claim_cleanly() -> None:
    """A call that never looks up, like C code that holds the interpreter: the loop goes on, and what the zombie
    would write is refused. https://github.com/PrefectHQ/prefect/pull/21276"""
    started, go_on = threading.Event(), threading.Event()
    ended = threading.Event()
    journal: list[tuple[str, int]] = []

    def hang(ctx: ToolContext) -> None:
        started.set()
        wait_until(go_on, "the zombie's resurrection")
        ended.set()

    beats = Beats()
    scene = Scene(
        engine(Model((asks("stuck"), says())), Effect("stuck", journal, after=hang)),
        lease_seconds=60.0,
        heartbeat_interval=20.0,
        heartbeat_wait=beats,
    )
    scene.create()
    ticking = ThreadWorld().spawn("tick", lambda: _ignore(scene.loop.tick()))
    wait_until(started, "the step")
    scene.clock.seconds += 60
    (claim,) = scene.memory.claim("w2", None, LEASE).claims

    beats.beat()

    assert ticking.done.wait(PATIENCE_SECONDS)
    assert scene.signals.kinds() == ["heartbeat_invalid_lease"]
    before = scene.events()
    go_on.set()
    wait_until(ended, "the end of the zombie's tool")
    beats.end()
    assert scene.events() == before
    scene.memory.append(claim, len(before), Commit((ModelCalled("h", 1),)))
    assert journal == [("t:3-0", 1)]
    assert scene.memory.task("t").fail_attempts == 0


@pytest.mark.holds("writer/wrong-guess")
def test_a_worker_may_claim_its_own_task_again_while_the_old_step_lives() -> None:
    """Old and new step share nothing, and the old one's append is refused.

    https://github.com/camunda-community-hub/pyzeebe/issues/212
    """
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    journal: list[tuple[str, int]] = []

    def hang_once(ctx: ToolContext) -> None:
        if not started.is_set():
            started.set()
            wait_until(go_on, "the zombie's resurrection")
            ended.set()

    beats = Beats()
    scene = Scene(
        engine(Model((asks("slow"), asks("slow"), says())), Effect("slow", journal, after=hang_once)),
        lease_seconds=60.0,
        heartbeat_interval=20.0,
        heartbeat_wait=beats,
    )
    scene.create()
    ticking = ThreadWorld().spawn("tick", lambda: _ignore(scene.loop.tick()))
    wait_until(started, "the step")
    scene.clock.seconds += 60
    beats.beat()
    assert ticking.done.wait(PATIENCE_SECONDS)

    assert scene.loop.tick() is True  # its own task, under the next epoch

    row = scene.memory.task("t")
    assert (row.status, row.epoch, row.fail_attempts) == (Status.TERMINAL, 2, 0)
    before = scene.events()
    go_on.set()
    wait_until(ended, "the end of the zombie's tool")
    beats.end()
    assert scene.events() == before
    sources = [event.source for event in before if isinstance(event, ToolFinished)]
    assert sources == ["unknown", "ran"]
    assert [start for _, start in journal] == [1, 1]
    assert scene.loop.tick() is False


@pytest.mark.holds("stopping/reclaimed")
def test_a_step_that_was_abandoned_is_reclaimed_by_the_sweep_of_the_next_start() -> None:
    """Once its lease is over, and not before. Keeps: never-stuck."""
    started, go_on = threading.Event(), threading.Event()

    def hang(ctx: ToolContext) -> None:
        started.set()
        wait_until(go_on, "the end of the test")

    now = [0.0]
    scene = Scene(
        engine(Model((asks("stuck"), says())), Effect("stuck", [], after=hang)),
        lease_seconds=LEASE,
        shutdown_grace_s=0.05,
    )
    scene.create()
    running = ThreadWorld().spawn("loop", scene.loop.run_forever)
    wait_until(started, "the step")
    scene.loop.stop()
    assert running.done.wait(PATIENCE_SECONDS)
    go_on.set()
    following = WorkerLoop(
        scene.host, worker_id="w2", clock=lambda: now[0], lease_seconds=LEASE, reliability_sink=scene.signals
    )

    now[0] += 10.0
    assert following.maybe_sweep() and not following.tick()
    scene.clock.seconds += LEASE
    now[0] += 10.0
    assert following.maybe_sweep()
    assert scene.memory.task("t").status is Status.PENDING
    assert following.tick()

    assert scene.signals.kinds() == ["shutdown_abandoned", "stale_requeued", "attempt_abandoned"]
    row = scene.memory.task("t")
    assert (row.status, row.epoch, row.fail_attempts) == (Status.TERMINAL, 2, 0)


@pytest.mark.holds("stopping/past-the-cap")
def test_a_step_over_its_quota_of_renewals_goes_back_with_the_reason_in_the_log() -> None:
    """Keeps: bounded."""
    started, go_on = threading.Event(), threading.Event()

    def hang(ctx: ToolContext) -> None:
        started.set()
        wait_until(go_on, "the end of the test")

    beats = Beats()
    scene = Scene(engine(Model((asks("stuck"), says())), Effect("stuck", [], after=hang)))
    process = Process(
        scene.host.world,
        scene.store,
        lease_seconds=60.0,
        heartbeat_interval=20.0,
        heartbeat_max=2,
        heartbeat_wait=beats,
        reliability_sink=scene.signals,
    )
    object.__setattr__(scene.host, "process", process)
    loop = WorkerLoop(scene.host, step_poll_s=0.01, lease_seconds=60.0, reliability_sink=scene.signals)
    scene.create()
    ticking = ThreadWorld().spawn("tick", lambda: _ignore(loop.tick()))
    wait_until(started, "the step")
    beats.beat()
    beats.beat()

    assert ticking.done.wait(PATIENCE_SECONDS)
    go_on.set()
    beats.end()
    assert scene.events()[-1] == StepAttemptAbandoned(4, QUOTA_EXCEEDED)
    row = scene.memory.task("t")
    assert (row.status, row.fail_attempts) == (Status.PENDING, 0)


def _ignore(answer: object) -> None:
    pass
