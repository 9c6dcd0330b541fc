"""The lease keeper: one call for all claims, and a claim is given up by this process's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.errors import BadInput, CommitUnknown, InvalidLease, StoreUnavailable
from noeta.core.runner import ClaimLost, Held, LeaseKeeper
from noeta.core.runner.lease import QUOTA_EXCEEDED, RETRY_SECONDS_MAX
from noeta.core.store import Claim, Commit, NewTask, Renewal
from noeta.core.wake import HumanResponseReceived
from noeta.runtime.process import Process
from noeta.testing.faults import Fault, FaultyStore, Kind
from tests.actors import Beats, SetWorld

LEASE, INTERVAL = 60.0, 20.0


class Scene:
    """Two claims of one process, and a keeper that beats when told."""

    def __init__(self, *faults: Fault, heartbeat_max: int = 360) -> None:
        self.world = SetWorld()
        self.memory = MemoryStore(lambda: self.world.seconds)
        self.store = FaultyStore(self.memory, faults)
        self.lost: list[Held] = []
        self.errors: list[Exception] = []
        self.keeper = LeaseKeeper(
            self.world,
            self.store,
            lease_seconds=LEASE,
            interval=INTERVAL,
            heartbeat_max=heartbeat_max,
            wait=lambda seconds: True,
            on_lost=self.lost.append,
            on_error=self.errors.append,
        )
        self.held = [self.hold("a"), self.hold("b")]

    def hold(self, id: str) -> Held:
        self.memory.create(NewTask(id, "agent", "goal"))
        (claim,) = self.memory.claim("w1", None, LEASE).claims
        held = Held(self.world, self.store, claim, self.world.seconds + LEASE)
        self.keeper.keep(held)
        return held


def test_all_claims_are_renewed_in_one_call() -> None:
    scene = Scene()
    scene.world.seconds += INTERVAL

    pause = scene.keeper.beat()

    assert (scene.store.calls("renew"), pause) == (1, INTERVAL)
    assert [held.deadline for held in scene.held] == [scene.world.seconds + LEASE] * 2
    assert [held.renewals for held in scene.held] == [1, 1]


def test_a_keeper_without_claims_asks_nobody() -> None:
    scene = Scene()
    for held in scene.held:
        scene.keeper.drop(held)

    assert scene.keeper.beat() == INTERVAL
    assert scene.store.calls("renew") == 0


def test_the_lease_is_counted_from_before_the_request_was_sent() -> None:
    """Keeps: one-writer."""
    scene = Scene()
    scene.store = FaultyStore(
        scene.memory, [Fault(Kind.SLOW, "renew", seconds=7.0)], sleep=lambda seconds: _pass(scene, seconds)
    )
    keeper = LeaseKeeper(scene.world, scene.store, lease_seconds=LEASE, interval=INTERVAL, wait=lambda seconds: True)
    keeper.keep(scene.held[0])
    asked_at = scene.world.seconds

    keeper.beat()

    assert scene.world.seconds == asked_at + 7.0
    assert scene.held[0].deadline == asked_at + LEASE


@pytest.mark.holds("lost/renewal-refused")
def test_a_lost_claim_is_cut_and_told_and_the_other_is_kept() -> None:
    scene = Scene()
    scene.memory.release(scene.held[0].claim)

    scene.keeper.beat()

    assert scene.lost == [scene.held[0]]
    assert [held.cancelled.is_set() for held in scene.held] == [True, False]
    with pytest.raises(ClaimLost):
        scene.held[0].append(1, Commit())
    scene.held[1].append(1, Commit())


def test_a_lost_claim_is_told_once_and_not_renewed_again() -> None:
    scene = Scene()
    scene.memory.release(scene.held[0].claim)

    for _ in range(3):
        scene.keeper.beat()

    assert len(scene.lost) == 1


def test_a_claim_that_was_dropped_meanwhile_is_not_told_lost() -> None:
    """A worker that released its task hears no complaint of it."""
    scene = Scene()
    real = scene.memory.renew

    def drop_first(claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        scene.keeper.drop(scene.held[0])
        scene.memory.release(scene.held[0].claim)
        return real(claims, lease_seconds)

    scene.memory.renew = drop_first  # type: ignore[method-assign]

    scene.keeper.beat()

    assert scene.lost == []
    assert scene.held[0].lost is None


def test_a_busy_row_is_asked_for_again_soon_and_not_given_up() -> None:
    scene = Scene()
    real = scene.memory.renew
    busy = [True, True, False]

    def renew(claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        answers = real(claims, lease_seconds)
        return (replace(answers[0], outcome="busy"), *answers[1:]) if busy.pop(0) else answers

    scene.memory.renew = renew  # type: ignore[method-assign]

    pauses = [scene.keeper.beat() for _ in range(3)]

    assert pauses == [RETRY_SECONDS_MAX, RETRY_SECONDS_MAX, INTERVAL]
    assert scene.lost == []
    assert [held.renewals for held in scene.held] == [1, 3]


def test_a_row_that_stays_busy_is_given_up_by_the_own_clock() -> None:
    scene = Scene()
    real = scene.memory.renew
    scene.memory.renew = lambda claims, lease_seconds: tuple(  # type: ignore[method-assign]
        replace(answer, outcome="busy") for answer in real(claims, lease_seconds)
    )
    scene.world.seconds += LEASE

    scene.keeper.beat()

    assert scene.lost == scene.held


@pytest.mark.holds("lost/renewal-failing")
@pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.NOT_LANDED, Kind.LANDED])
def test_failing_renewals_are_retried_until_the_lease_is_over(kind: Kind) -> None:
    """Retried until the lease would have run out by its own clock, then given up the same way.

    https://github.com/rails/solid_queue/pull/778
    """
    scene = Scene(Fault(kind, "renew", times=99))

    assert scene.keeper.beat() == RETRY_SECONDS_MAX
    scene.world.seconds += LEASE - 0.001
    scene.keeper.beat()
    assert scene.lost == []
    scene.world.seconds += 0.001
    scene.keeper.beat()

    assert scene.lost == scene.held
    assert {type(error) for error in scene.errors} <= {StoreUnavailable, CommitUnknown}
    assert all(held.cancelled.is_set() for held in scene.held)


def test_one_failed_renewal_costs_nothing() -> None:
    scene = Scene(Fault(Kind.UNAVAILABLE, "renew"))

    pauses = [scene.keeper.beat(), scene.keeper.beat()]

    assert pauses == [RETRY_SECONDS_MAX, INTERVAL]
    assert scene.lost == []


def test_the_keeper_hears_of_new_items() -> None:
    scene = Scene()
    scene.memory.post("a", HumanResponseReceived(text="hi"))

    scene.keeper.beat()

    assert [held.inbox_seq for held in scene.held] == [1, 0]


@pytest.mark.holds("stopping/not-forever", "stopping/bound", "stopping/past-the-cap")
def test_a_step_is_cut_at_the_quota_of_renewals() -> None:
    """Keeps: bounded."""
    scene = Scene(heartbeat_max=3)

    for _ in range(3):
        scene.keeper.beat()

    assert {held.lost for held in scene.held} == {QUOTA_EXCEEDED}
    assert scene.lost == scene.held
    with pytest.raises(InvalidLease):
        scene.held[0].append(1, Commit())


def test_a_claim_whose_lease_is_over_by_the_own_clock_writes_nothing() -> None:
    """Also if the store would still let it. Keeps: one-writer."""
    scene = Scene()
    held = scene.held[0]
    held.deadline = scene.world.seconds

    with pytest.raises(ClaimLost):
        held.append(1, Commit())

    assert scene.store.calls("append") == 0


def test_stopping_a_step_leaves_its_claim_good() -> None:
    scene = Scene()

    scene.held[0].stop()

    assert scene.held[0].cancelled.is_set() and scene.held[0].lost is None
    scene.held[0].append(1, Commit())


def test_two_claims_of_one_task_are_two_claims() -> None:
    """The old one is not dropped with the new one, nor kept by it.

    https://github.com/camunda-community-hub/pyzeebe/issues/212
    """
    scene = Scene()
    old = scene.held[0]
    scene.world.seconds += LEASE
    scene.keeper.drop(scene.held[1])
    new_claim = next(c for c in scene.memory.claim("w1", None, LEASE, limit=9).claims if c.task_id == "a")
    new = Held(scene.world, scene.store, new_claim, scene.world.seconds + LEASE)
    scene.keeper.keep(new)

    scene.keeper.beat()

    assert old.key != new.key
    assert scene.lost == [old]
    scene.keeper.drop(old)
    scene.keeper.beat()
    assert (new.lost, new.renewals) == (None, 2)


@pytest.mark.parametrize(("lease", "interval"), [(10.0, 10.0), (10.0, 30.0), (0.5, 0.5)])
def test_an_interval_that_is_not_below_the_lease_is_refused(lease: float, interval: float) -> None:
    """A healthy step would lose its claim every time.

    https://github.com/janbjorge/pgqueuer/issues/430 , https://github.com/janbjorge/pgqueuer/issues/323
    """
    with pytest.raises(BadInput, match="heartbeat_interval"):
        Process(SetWorld(), MemoryStore(), lease_seconds=lease, heartbeat_interval=interval)


def test_no_interval_means_no_renewals() -> None:
    scene = Scene()
    process = Process(scene.world, scene.store, lease_seconds=LEASE, heartbeat_interval=0.0)
    process.keep(scene.held[0])
    process.stop()

    assert scene.store.calls("renew") == 0


def test_a_running_keeper_beats_after_each_pause_and_ends_when_told() -> None:
    scene = Scene()
    beats = Beats()
    keeper = LeaseKeeper(scene.world, scene.store, lease_seconds=LEASE, interval=INTERVAL, wait=beats)
    keeper.keep(scene.held[0])

    beats.beat()
    beats.beat()
    beats.end()

    assert scene.store.calls("renew") == 2
    assert beats.pauses == [INTERVAL] * 3


def _pass(scene: Scene, seconds: float) -> None:
    scene.world.seconds += seconds
