"""Buffers a claim and an append touch, among many idle rows, far timers, renewals, dead rows, and an old snapshot.

Target: at most 40 for a claim from its lower bound, and for an append, wherever. Told apart are claims from the
beginning, about one a second a process, and polls that find nothing: they look from the bound, then from the
beginning, then for lapsed leases.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import psycopg

from bench.bulk import QUEUE, add_idle, add_pending, add_timers, end_claimed, settle, store_now
from bench.counters import BufferCounter, Totals, WatchedBounds
from bench.report import Figure, Target, figure
from bench.site import Place, Places, Session
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import ModelCalled
from noeta.core.store import Claim, Commit

NAME: Final = "buffers"
FEW: Final = Target("at most", 40)
LEASE_SECONDS: Final = 600.0
WARM_UP: Final = 10
SAMPLES: Final = 40
SAMPLES_DEAR: Final = 6
APART_MICROS: Final = 100_000
"""Ten tasks a second become ready: what lies within the second below a bound."""

RENEWED: Final = 500
RENEW_BATCH: Final = 50
CHURN_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Scene:
    """What is in the tables before anything is counted. ``churned`` tasks were claimed, renewed and ended."""

    name: str
    idle: int = 0
    timers: int = 0
    renewed: int = 0
    churned: int = 0
    apart_micros: int = APART_MICROS
    held_snapshot: bool = False
    target: Target | None = FEW


def scenes(*, quick: bool) -> list[Scene]:
    """Each with and without a snapshot held elsewhere."""
    part = 20 if quick else 1
    churned = 10_000 if quick else 50_000  # a claim that walks them all must show
    plain = [
        Scene("1,000 idle", idle=1_000),
        Scene(f"{200_000 // part:,} idle", idle=200_000 // part),
        Scene(f"{300_000 // part:,} far timers", timers=300_000 // part),
        Scene(f"{RENEWED} leases renewed", renewed=RENEWED),
        Scene(f"{churned:,} claims ago", churned=churned),
        # Told without a target: the second below the bound holds a thousand rows here.
        Scene(f"{churned:,} claims ago, 1,000/s", churned=churned, apart_micros=1_000, target=None),
    ]
    return [
        Scene(s.name + held, s.idle, s.timers, s.renewed, s.churned, s.apart_micros, bool(held), s.target)
        for s in plain
        for held in ("", " + snapshot")
    ]


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Figures of every scene, each in a place of its own."""
    found: list[Figure] = []
    for scene in scenes(quick=quick):
        with places() as place:
            found += measure_scene(place, scene)
    return found


def measure_scene(place: Place, scene: Scene, *, samples: int = SAMPLES) -> list[Figure]:
    """Set the scene, then count warm claims, claims from the beginning, empty polls and appends."""
    count = WARM_UP + samples + SAMPLES_DEAR
    with place.session() as session, held_snapshot(place, wanted=scene.held_snapshot):
        now = store_now(session)
        # What was claimed before became ready right before the counted tasks: as in a queue that is kept up with.
        earlier = now - count * scene.apart_micros
        add_idle(session, scene.idle)
        add_timers(session, scene.timers)
        add_pending(session, "churned", scene.churned, apart_micros=scene.apart_micros, before=earlier)
        settle(session)
        with place.store() as churning:
            churn(session, churning, scene.churned)
        with renewals(place, session, scene.renewed, earlier), place.store(place.counted_dsn) as store:
            add_pending(session, "counted", count, apart_micros=scene.apart_micros, before=now)
            return _count(session, place, store, scene, samples)


def _count(session: Session, place: Place, store: PostgresStore, scene: Scene, samples: int) -> list[Figure]:
    bounds = store._bounds = WatchedBounds()
    claiming = BufferCounter(session, place, "claim_1")
    appending = BufferCounter(session, place, "append_1")
    claims: list[Claim] = []

    def claim() -> None:
        claims.extend(store.claim("bench", [QUEUE], LEASE_SECONDS).claims)

    def append(claim: Claim) -> None:
        store.append(claim, claim.last_seq, Commit((ModelCalled("0" * 64, 1),)))

    for _ in range(WARM_UP):
        claim()
    from_bound: list[Totals] = []
    for _ in range(samples):
        totals = claiming.count(claim)
        if bounds.was_from_bound:  # once a second the store looks from the beginning by itself
            from_bound.append(totals)
    appends = [appending.count(partial(append, one)) for one in claims][WARM_UP:]
    bounds.from_beginning = True
    from_beginning = [claiming.count(claim) for _ in range(SAMPLES_DEAR)]
    bounds.from_beginning = False
    claim()  # nothing is left: the first look for lapsed leases of this session makes its plans
    empty = [claiming.count(claim) for _ in range(SAMPLES_DEAR)]
    assert len(claims) == WARM_UP + samples + SAMPLES_DEAR, "a claim did not take its task"

    def told(what: str, found: list[Totals], target: Target | None = None) -> Figure:
        return figure(NAME, f"{what}, {scene.name}", "buffers", [totals.touched for totals in found], target)

    return [
        told("claim", from_bound, scene.target),
        told("append", appends, FEW),
        told("claim from the beginning", from_beginning),
        told("empty poll", empty),
    ]


def churn(session: Session, store: PostgresStore, count: int) -> None:
    """Claim, renew and end so many tasks, as a busy hour would."""
    left = count
    while left > 0:
        answer = store.claim("churn", [QUEUE], LEASE_SECONDS, limit=CHURN_BATCH)
        assert answer.claims, f"{left} tasks could not be claimed"
        store.renew(answer.claims, LEASE_SECONDS)
        end_claimed(session, answer.claims[0].token)
        left -= len(answer.claims)


@contextmanager
def held_snapshot(place: Place, *, wanted: bool = True) -> Iterator[None]:
    """Somebody's transaction that sees the past, so that nothing newer can be cleaned up."""
    if not wanted:
        yield
        return
    with place.session(autocommit=False) as session:
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.execute("SELECT count(*) FROM migration")
        yield
        session.rollback()


@contextmanager
def renewals(place: Place, session: Session, count: int, before: int) -> Iterator[None]:
    """So many leases, renewed in batches without a pause by another process's store."""
    if not count:
        yield
        return
    add_pending(session, "renewed", count, apart_micros=APART_MICROS, before=before)
    stopped = threading.Event()
    rounds: list[int] = []
    with place.store() as store:
        held: list[Claim] = []
        while len(held) < count:
            held.extend(store.claim("keeper", [QUEUE], LEASE_SECONDS, limit=CHURN_BATCH).claims)

        def keep() -> None:
            while not stopped.is_set():
                for start in range(0, count, RENEW_BATCH):
                    store.renew(held[start : start + RENEW_BATCH], LEASE_SECONDS)
                rounds.append(count)

        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            yield
        finally:
            stopped.set()
            keeper.join()
    assert rounds, "nothing was renewed meanwhile"
