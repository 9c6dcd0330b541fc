"""Workers that die around a due moment, fifty times, on a server. (Processes that are killed: tests/cluster.)"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from noeta.core.events import CronFired
from noeta.core.model import ModelReply, RequestedCall
from noeta.core.store import NewTask
from noeta.core.world import ProcessDied
from noeta.plugins.cron import CronCreate
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle
from noeta.testing.store_contract import Stage
from tests.actors import Deaths, Model, PointWorld, engine, says
from tests.contract.factories import PostgresFactory

FLAPS = 50
POINTS = 10
"""Crash points that a worker passes from its claim to the task's next rest."""

LEASE = 10.0
MINUTE = 60


@pytest.fixture
def stage(postgres_factory: PostgresFactory) -> Stage:
    return Stage(postgres_factory.make(), postgres_factory.clock(), postgres_factory.another)


def asks(tool: str, **input: Any) -> ModelReply:
    return ModelReply("", (RequestedCall(tool, input),), "tool_use")


@pytest.mark.slow
def test_workers_that_die_around_fifty_due_moments_fire_each_cron_once(stage: Stage) -> None:
    """One finds nothing half a second before and is gone; two seconds after, one dies at one of its crash points; the
    next does what is left when the lease is over. Keeps: timers-once.

    https://github.com/sidekiq/sidekiq/issues/6804 , https://github.com/dkron-io/dkron/issues/1210 ,
    https://github.com/mesos/chronos/issues/371
    """
    sets = asks("CronCreate", expression="* * * * *", prompt="look")
    agent = engine(Model((sets, says("set"), *(says("looked") for _ in range(FLAPS)))), CronCreate())
    first = (int(stage.clock.now()) // MINUTE + 1) * MINUTE
    stage.store.create(NewTask("t", "agent", "goal", interactive=True))

    def tick(name: str, deaths: Deaths | None = None) -> bool:
        return WorkerLoop(
            bundle(stage.store, agent, world=PointWorld(deaths or Deaths(None))),
            worker_id=name,
            lease_seconds=LEASE,
            heartbeat_interval=0.0,
            step_poll_s=0.001,
        ).tick()

    tick("w0")
    for flap in range(FLAPS):
        due = first + MINUTE * flap
        stage.clock.advance(due - 0.5 - stage.clock.now())
        assert not tick("before")
        stage.clock.advance(2.5)
        deaths = Deaths(flap % POINTS + 1)
        with contextlib.suppress(ProcessDied):
            tick("dies", deaths)
        assert deaths.seen == deaths.at, "it died elsewhere, or not at all"
        stage.clock.advance(LEASE)
        tick("after")
        assert not tick("after")

    assert [event for event in stage.events() if isinstance(event, CronFired)] == [
        CronFired("3-0", first + MINUTE * flap, 0) for flap in range(FLAPS)
    ]
