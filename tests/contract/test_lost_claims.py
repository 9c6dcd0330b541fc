"""What a worker does that loses its claim: the rows of "When a worker loses its claim", over every store."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from noeta.core import texts
from noeta.core.errors import CommitUnknown, Conflict, StoreUnavailable
from noeta.core.events import (
    ModelCalled,
    ToolFinished,
)
from noeta.core.runner import ClaimLost, Held, LeaseKeeper, Runner
from noeta.core.store import Commit
from noeta.core.task import Status
from noeta.runtime.dispatcher import Dispatcher
from noeta.testing.faults import Fault, FaultyStore, Kind
from noeta.testing.store_contract import Stage
from tests.actors import (
    Effect,
    Model,
    PointWorld,
    SetWorld,
    asks,
    drive,
    engine,
    says,
)
from tests.contract.recovering import LEASE, Journal, finished_well, kinds, last, take


@pytest.mark.holds("lost/renewal-refused")
def test_a_renewal_that_finds_the_claim_taken_cancels_the_step(stage: Stage) -> None:
    """The step stops, and its next write would fail anyway. Keeps: one-writer."""
    claim = stage.running()
    world = PointWorld()
    held = Held(world, stage.store, claim, world.monotonic() + 1e6)
    lost: list[Held] = []
    keeper = LeaseKeeper(world, stage.store, lease_seconds=LEASE, interval=20.0, wait=_never, on_lost=lost.append)
    keeper.keep(held)
    take(stage, "w2")

    keeper.beat()

    assert lost == [held]
    assert held.cancelled.is_set() and held.lost is not None
    with stage.nothing_changes(), pytest.raises(ClaimLost):
        held.append(1, _a_commit())
    keeper.stop()


@pytest.mark.holds("lost/renewal-failing")
def test_renewals_that_keep_failing_give_the_task_up_by_the_workers_own_clock(stage: Stage) -> None:
    """https://github.com/rails/solid_queue/pull/778"""
    world = SetWorld()
    held = Held(world, stage.store, stage.running(), world.seconds + LEASE)
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, "renew", times=9)])
    keeper = LeaseKeeper(world, store, lease_seconds=LEASE, interval=20.0, wait=_never)
    keeper.keep(held)

    world.seconds += LEASE - 0.001
    assert keeper.beat() == 1.0  # tried again soon
    assert held.lost is None
    world.seconds += 0.001
    keeper.beat()

    assert held.cancelled.is_set()
    with pytest.raises(ClaimLost, match="own clock"):
        held.check()
    keeper.stop()


@pytest.mark.holds("guarantee/reclaimed-cannot-write", "writer/runner-stops", "lost/conflict")
@pytest.mark.parametrize("occurrence", range(1, 6))
def test_a_worker_whose_append_is_refused_writes_nothing_more(stage: Stage, occurrence: int) -> None:
    """Keeps: one-writer, effect-at-most-once."""
    journal: Journal = []
    claim = stage.running()
    calls = 0

    def before_append(name: str, facts: Mapping[str, object]) -> None:
        nonlocal calls
        if name == "append.before":
            calls += 1
            if calls == occurrence:
                take(stage, "thief")

    model = Model((asks("a", "b"), says()))
    tools = [Effect(name, journal) for name in "ab"]
    with pytest.raises(Conflict):
        drive(stage.store, claim, engine(model, *tools), world=PointWorld(before_append))

    row = stage.row()
    assert calls == occurrence
    assert (row.worker, row.fail_attempts) == ("thief", 0)
    assert {entry.epoch for entry in stage.page().entries} <= {0, claim.epoch}


@pytest.mark.holds("lost/unreachable", "lost/unknown")
@pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.LANDED, Kind.NOT_LANDED, Kind.LANDS_LATER])
@pytest.mark.parametrize("occurrence", range(1, 6))
def test_after_any_fault_of_any_append_the_next_worker_finishes_the_task(
    stage: Stage, kind: Kind, occurrence: int
) -> None:
    """Never retried blindly, charged to nobody, and no effect twice. Keeps: acked-stays, effect-at-most-once."""
    journal: Journal = []
    model = Model((asks("a", "b"), says("bye")))
    agent = engine(model, *[Effect(name, journal) for name in "ab"])
    store = FaultyStore(stage.store, [Fault(kind, "append", occurrence)])
    with pytest.raises((StoreUnavailable, CommitUnknown)):
        drive(store, stage.running(), agent)
    assert store.calls("append") == occurrence

    claim = take(stage, "w2") if stage.row().status is not Status.TERMINAL else None
    store.land_now()
    if claim is not None:
        assert claim.fail_attempts == 0
        assert drive(store, claim, agent) == "drained"

    assert store.unfired() == ()
    finished_well(stage, journal)


@pytest.mark.holds("lost/unknown")
def test_a_late_append_that_lands_before_the_takeover_is_read_by_it(stage: Stage) -> None:
    """Keeps: acked-stays."""
    journal: Journal = []
    agent = engine(Model((asks("a"), says())), Effect("a", journal))
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "append", 2, later_calls=1)])
    with pytest.raises(CommitUnknown):
        drive(store, stage.running(), agent)
    store.task("t")
    assert [landing.refusal for landing in store.landings] == [None]

    assert drive(store, take(stage, "w2"), agent) == "drained"

    assert journal == []  # its start was in the log, so nobody may start it again
    assert last(stage, ToolFinished) == ToolFinished("3-0", texts.OUTCOME_UNKNOWN, is_error=True, source="unknown")


@pytest.mark.holds("lost/unreachable")
@pytest.mark.parametrize("verb", ["read"])
def test_a_store_that_cannot_be_read_stops_the_step_and_charges_nobody(stage: Stage, verb: str) -> None:
    agent = engine(Model((says(),)))
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, verb)])
    with pytest.raises(StoreUnavailable):
        drive(store, stage.running(), agent)

    claim = take(stage, "w2")
    assert claim.fail_attempts == 0
    assert drive(store, claim, agent) == "drained"


@pytest.mark.holds("lost/unknown-claim")
@pytest.mark.parametrize("kind", [Kind.LANDED, Kind.LANDS_LATER])
def test_a_claim_whose_answer_was_lost_is_adopted(stage: Stage, kind: Kind) -> None:
    """Rather than leaving it until the lease runs out. Keeps: acked-stays."""
    stage.create()
    later = 1 if kind is Kind.LANDS_LATER else None
    store = FaultyStore(stage.store, [Fault(kind, "claim", later_calls=later)])

    claims, lease = Dispatcher(store).claim(worker_id="w1", lease_seconds=LEASE)

    assert lease is not None
    assert (lease.task_id, lease.claim.epoch, lease.claim.worker) == ("t", 1, "w1")
    assert store.calls("claim") == 1
    assert lease.held.append(1, _a_commit()).last_seq == 2
    assert len(claims.claims) == 1


def test_a_worker_that_is_told_to_stop_gives_its_task_back_at_once(stage: Stage) -> None:
    """What is known is recorded first: a finished tool is not asked about again."""
    journal: Journal = []
    claim = stage.running()
    world = PointWorld()
    held = Held(world, stage.store, claim, world.monotonic() + 1e6)
    agent = engine(
        Model((asks("a", "b"), says())), Effect("a", journal, after=lambda ctx: held.stop()), Effect("b", journal)
    )
    outcome = Runner(lambda state: agent, world, stage.store, held).drive()

    assert outcome == "stopped"
    assert stage.store.release(claim) is Status.PENDING
    assert kinds(stage)[-1] == "ToolFinished"
    assert drive(stage.store, stage.claim("w2"), agent) == "drained"
    assert journal == [("t:3-0", 1), ("t:3-1", 1)]


def _a_commit() -> Commit:
    return Commit((ModelCalled("h", 1),))


def _never(seconds: float) -> bool:
    return True
