"""The dispatcher's face of a kept task: its owner goes on under the lease it has."""

from __future__ import annotations

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.errors import CommitUnknown, InvalidLease, StoreUnavailable
from noeta.core.events import TaskSuspended
from noeta.core.runner.lease import ClaimLost
from noeta.core.store import Commit, NewTask, Resumed, Suspend
from noeta.core.task import Status
from noeta.core.wake import ExternalEvent, TimerFired
from noeta.runtime.dispatcher import Dispatcher, Lease
from noeta.testing.faults import Fault, FaultyStore, Kind
from tests.unit.runtime.scene import Clock

LEASE = 60.0


class Scene:
    """A task that waits ten seconds for a timer, its claim kept; an event came meanwhile."""

    def __init__(self, *faults: Fault) -> None:
        self.clock = Clock()
        self.memory = MemoryStore(self.clock)
        self.store = FaultyStore(self.memory, faults)
        self.dispatcher = Dispatcher(self.store)
        self.memory.create(NewTask("t", "agent", "goal"))
        self.lease = self.taken()
        wait = TimerFired(self.clock() + 10)
        self.lease.held.append(1, Commit((TaskSuspended(wait),), Suspend(wait, keep=True)))
        self.memory.post("t", ExternalEvent("go"))

    def taken(self) -> Lease:
        lease = self.dispatcher.lease(worker_id="w1", lease_seconds=LEASE)
        assert lease is not None
        return lease


def test_the_owner_goes_on_and_knows_of_all_that_is_in_the_inbox() -> None:
    scene = Scene()
    assert scene.lease.held.inbox_seq == 0
    scene.clock.seconds += 10

    resumed = scene.dispatcher.resume(scene.lease)

    assert resumed == Resumed(resumed.now, inbox_seq=2, last_seq=2, timer_fired=True)
    assert scene.lease.held.inbox_seq == 2
    row = scene.memory.task("t")
    assert (row.status, row.epoch, row.token) == (Status.RUNNING, scene.lease.claim.epoch, scene.lease.claim.token)
    scene.lease.held.append(2, Commit())


def test_a_claim_that_the_store_says_is_lost_writes_nothing_more() -> None:
    scene = Scene()
    scene.memory.release(scene.lease.claim)

    with pytest.raises(InvalidLease):
        scene.dispatcher.resume(scene.lease)

    assert scene.lease.held.lost is not None
    with pytest.raises(ClaimLost):
        scene.lease.held.append(2, Commit())


def test_a_claim_that_is_lost_already_asks_the_store_nothing() -> None:
    scene = Scene()
    scene.lease.held.cut("it was")

    with pytest.raises(ClaimLost):
        scene.dispatcher.resume(scene.lease)

    assert scene.store.calls("resume") == 0


@pytest.mark.parametrize("kind", [Kind.LANDED, Kind.NOT_LANDED])
def test_an_unknown_outcome_is_asked_for_again_as_it_is(kind: Kind) -> None:
    """Keeps: timers-once."""
    scene = Scene(Fault(kind, "resume"))
    scene.clock.seconds += 10
    with pytest.raises(CommitUnknown):
        scene.dispatcher.resume(scene.lease)

    again = scene.dispatcher.resume(scene.lease)

    assert (again.inbox_seq, again.timer_fired) == (2, True)
    assert len(scene.memory.read("t").unread) == 2
    assert not scene.store.unfired()


def test_a_store_that_cannot_be_asked_leaves_the_task_kept() -> None:
    scene = Scene(Fault(Kind.UNAVAILABLE, "resume"))

    with pytest.raises(StoreUnavailable):
        scene.dispatcher.resume(scene.lease)

    assert scene.memory.task("t").kept
    assert scene.lease.held.lost is None
