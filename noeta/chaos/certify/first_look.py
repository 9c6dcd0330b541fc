"""What the other parts stand on: that the function keeps its own promises about places and clocks."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from invariants import Verdict
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.candidate import CandidateFactory, Places, load
from noeta.chaos.certify.card import Line
from noeta.core.ids import micros
from noeta.core.store import NewTask, Store
from noeta.testing.clock import ManualClock

LEASE_SECONDS = 60.0


def look(order: Order) -> Iterator[Line]:
    """Two lines: places, and the clock."""
    candidate = load(order.store)
    places = Places(candidate, Path(order.root))
    looks: tuple[tuple[str, str, Callable[[CandidateFactory], int]], ...] = (
        ("place", "an empty place, an empty store; the same place, the same data", _look_at_places),
        ("clock", "the store decides by the clock it is given: one-writer", _look_at_clock),
    )
    for subject, title, ask in looks:
        if not order.wants(subject):
            continue
        began = time.monotonic()
        factory = CandidateFactory(candidate, places)
        verdict, checks, why, detail = Verdict.VALID, 1, "", ""
        try:
            checks = ask(factory)
            factory.close()
        except Exception as error:  # the user's code, whatever it raises
            verdict, detail = Verdict.INVALID, traceback.format_exc()
            why = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        yield Line("factory", subject, title, verdict, checks, time.monotonic() - began, why, detail)


def _look_at_places(factory: CandidateFactory) -> int:
    store = factory.make()
    assert store.tasks() == (), "the store at an empty place has tasks"
    store.create(NewTask("kept", "agent", "goal"))
    assert _ids(factory.another()) == ["kept"], "a second store of the same place does not show the task of the first"
    assert _ids(factory.make()) == [], "the next empty place has tasks of another one"
    return 3


def _look_at_clock(factory: CandidateFactory) -> int:
    store, clock = factory.make(), factory.clock()
    _agree(store, clock)
    store.create(NewTask("held", "agent", "goal"))
    (claim,) = store.claim("w1", None, LEASE_SECONDS).claims
    assert claim.lease_until == micros(clock.now() + LEASE_SECONDS), (
        f"a lease of {LEASE_SECONDS:g} s taken at {micros(clock.now())} ends at {claim.lease_until}: "
        "its end was not counted by the clock that was given"
    )
    clock.advance(LEASE_SECONDS - 1)
    assert not store.claim("w2", None, LEASE_SECONDS).claims, (
        "a lease was taken over a second before its end: it was compared with another clock than the one given"
    )
    clock.advance(1)
    _agree(store, clock)
    (renewal,) = store.renew(claim, LEASE_SECONDS)
    assert renewal.outcome == "lost", (
        "a lease was renewed after its end: it was compared with another clock than the one given"
    )
    return 5


def _agree(store: Store, clock: ManualClock) -> None:
    told, given = store.claim("nobody", ["no-such-queue"], LEASE_SECONDS).now, micros(clock.now())
    assert told == given, f"the store says it is {told}, the clock it was given says {given} (microseconds)"


def _ids(store: Store) -> list[str]:
    return [row.id for row in store.tasks()]
