"""Buffers of a timer that fires, by the sweep and by a claim, with and without many far timers beside it.

Targets: at most 40 for a claim, whether or not it fires a timer, for a timer that a sweep fires, and for a sweep that
finds nothing due; and far timers cost the others no more than one more level of the indexes.
"""

from __future__ import annotations

from typing import Final

from bench.bulk import QUEUE, add_due, add_pending, add_timers, settle, store_now
from bench.counters import BufferCounter, WatchedBounds
from bench.report import Figure, Target, figure
from bench.site import Place, Places, Session
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.store import Claim

NAME: Final = "timers"
FAR: Final = 1_000_000
FAR_QUICK: Final = 20_000
DUE: Final = 1_000
SWEEPS: Final = 5
A_SWEEP: Final = 100
WARM_UP: Final = 10
"""A statement is planned anew for its first five calls."""

CLAIMS: Final = 40
APART_MICROS: Final = 100_000
AGO_MICROS: Final = 10_000_000
"""The pending tasks became ready before the timers did, so that they are claimed first."""

LEASE_SECONDS: Final = 600.0
FEW: Final = Target("at most", 40)
LITTLE_MORE: Final = Target("at most", 1.5)


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Without and with the far timers, and what these made of it."""
    beside = []
    for count in (0, FAR_QUICK if quick else FAR):
        with places() as place:
            beside.append(measure_scene(place, count))
    # A sweep that finds nothing reads the top of an index, which without far timers is not there at all.
    return [*beside[0], *beside[1], *dearer(beside[0][1:], beside[1][1:])]


def dearer(without: list[Figure], beside: list[Figure]) -> list[Figure]:
    """How many times as much each costs beside the far timers."""
    return [
        figure(NAME, f"{beside_one.name}: times as many", "ratio", [beside_one.median / one.median], LITTLE_MORE)
        for one, beside_one in zip(without, beside, strict=True)
    ]


def measure_scene(place: Place, far: int) -> list[Figure]:
    """Sweeps that find nothing, sweeps that fire, claims of pending tasks, and claims that fire a timer."""
    with place.session() as session, place.store(place.counted_dsn) as store:
        add_timers(session, far)
        settle(session)
        sweeping = BufferCounter(session, place, "fire_due_timers_1")
        for _ in range(WARM_UP):
            assert not store.fire_due_timers()
        empty = [sweeping.count(store.fire_due_timers).touched for _ in range(SWEEPS)]
        add_due(session, DUE)
        add_pending(
            session, "pending", WARM_UP + CLAIMS, apart_micros=APART_MICROS, before=store_now(session) - AGO_MICROS
        )
        settle(session)
        fired: list[str] = []
        sweeps = [
            sweeping.count(lambda: fired.extend(store.fire_due_timers(limit=A_SWEEP))).touched / A_SWEEP
            for _ in range(SWEEPS)
        ]
        assert len(fired) == SWEEPS * A_SWEEP, f"{len(fired)} timers fired"
        pending, firing = _claims(place, session, store)
    beside = f"{far:,} far timers" if far else "no far timers"
    return [
        figure(NAME, f"sweep that finds nothing due, {beside}", "buffers", empty, FEW),
        figure(NAME, f"sweep, a timer of {DUE:,} due, {beside}", "buffers", sweeps, FEW),
        figure(NAME, f"claim of a pending task, {beside}", "buffers", pending, FEW),
        figure(NAME, f"claim that fires a timer, {beside}", "buffers", firing, FEW),
    ]


def _claims(place: Place, session: Session, store: PostgresStore) -> tuple[list[int], list[int]]:
    """Buffers of claims from their lower bound: of tasks that were pending, and of tasks whose timer was due."""
    bounds = store._bounds = WatchedBounds()
    claiming = BufferCounter(session, place, "claim_1")
    by_cause: dict[str, list[int]] = {"pending": [], "suspended": []}
    taken: list[Claim] = []
    for number in range(WARM_UP + 2 * CLAIMS):
        totals = claiming.count(lambda: taken.extend(store.claim("bench", [QUEUE], LEASE_SECONDS).claims))
        if bounds.was_from_bound and number >= WARM_UP:
            by_cause[taken[-1].cause].append(totals.touched)
    assert len(taken) == WARM_UP + 2 * CLAIMS, "a claim did not take its task"
    return by_cause["pending"], by_cause["suspended"]
