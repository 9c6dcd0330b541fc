"""What `noeta worker` sets up of its own: the lease and its renewals."""

from __future__ import annotations

import inspect

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.commands.worker import worker
from noeta.core.runner import Engine
from noeta.runtime.app import WorkerApp
from noeta.runtime.service import WorkerService
from tests.actors import Model, engine


def an_engine(task: object) -> Engine:
    return engine(Model(()))


@pytest.mark.holds("writer/keeper")
def test_the_default_lease_is_the_printed_one() -> None:
    for maker, knob in ((WorkerService.__init__, "lease_seconds"), (worker, "lease")):
        assert inspect.signature(maker).parameters[knob].default == 30.0


@pytest.mark.holds("writer/keeper")
@pytest.mark.parametrize("lease_seconds", [30.0, 4.5])
def test_claims_are_renewed_every_third_of_the_lease(lease_seconds: float) -> None:
    service = WorkerService(MemoryStore(), WorkerApp(an_engine), name="w", lease_seconds=lease_seconds)

    keeper = service._process._keeper

    assert (keeper._lease_seconds, keeper._interval) == (lease_seconds, lease_seconds / 3)
    assert keeper.beat() == lease_seconds / 3
