"""Rates as ratios to bare inserts of the same bytes, in interleaved rounds.

Every round runs every contestant once, in an order that turns from round to round; a ratio is taken within a
round, so that what slows the machine slows both sides. Rounds to warm up are thrown away. Targets: an append at
0.7 of the same function call sent bare by psycopg, and at 0.4 of a bare autocommit INSERT.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from bench.bulk import QUEUE, add_pending, settle, store_now
from bench.contestants import BareCalls, BareInserts, Drain, StoreAppends
from bench.report import Figure, Target, figure, ratios
from bench.site import Places
from noeta.core.events import ModelCalled
from noeta.core.store import Append, Claim, Commit, Store

NAME: Final = "rates"
ROUNDS: Final = 24
ROUNDS_QUICK: Final = 6
WARM_UP: Final = 2
OPERATIONS: Final = 50
"""Of a contestant a round, some 50 ms: short enough that both sides of a ratio meet the same disturbances."""

LEASE_SECONDS: Final = 600.0
TWENTY: Final = 20
FIFTY: Final = 50
TEN: Final = 10

Contestant = Callable[[], int]
"""Runs its part of a round; how many units it did."""


def interleave(
    contestants: Mapping[str, Contestant], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Units a second of every contestant in every round after the warm-up."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(WARM_UP + rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started = clock()
            units = contestants[name]()
            seconds = clock() - started
            if number >= WARM_UP:
                rates[name].append(units / seconds)
    return rates


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """A figure a ratio, and the bare rates for the reader's feeling."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    with ExitStack() as stack:
        place = stack.enter_context(places())
        session = stack.enter_context(place.session())
        store = stack.enter_context(place.store())
        tasks = (WARM_UP + rounds) * (OPERATIONS + OPERATIONS + FIFTY) + 200
        add_pending(session, "load", tasks, apart_micros=1_000, before=store_now(session))
        settle(session)
        held = claim_many(store, FIFTY)
        drain = Drain(store, OPERATIONS // 2)
        drain.stock((WARM_UP + rounds) * (OPERATIONS // 2))
        contestants: dict[str, Contestant] = {
            "insert": BareInserts(stack.enter_context(place.session()), OPERATIONS),
            "append": StoreAppends(store, held[0], OPERATIONS),
            "bare call": BareCalls(stack.enter_context(place.session()), place.schema, held[1], OPERATIONS),
            "append_many of ten": ManyAppends(store, held[2 : 2 + TEN], OPERATIONS // 2),
            "claim one": lambda: len([claim_many(store, 1) for _ in range(OPERATIONS)]),
            "claim twenty": lambda: len(claim_many(store, OPERATIONS, at_once=TWENTY)),
            "renew fifty": lambda: sum(len(store.renew(held, LEASE_SECONDS)) for _ in range(OPERATIONS // 4)),
            "no-op task drained": drain,
        }
        rates = interleave(contestants, rounds, time.perf_counter)
        drain.stop()
    return figures(rates)


def figures(rates: Mapping[str, Sequence[float]]) -> list[Figure]:
    """The ratios of these rounds."""
    inserts = rates["insert"]
    found = [
        figure(
            NAME, "append / bare call", "ratio", ratios(rates["append"], rates["bare call"]), Target("at least", 0.7)
        ),
        figure(NAME, "append / insert", "ratio", ratios(rates["append"], inserts), Target("at least", 0.4)),
    ]
    for name in rates:
        if name not in ("insert", "append"):
            found.append(figure(NAME, f"{name} / insert", "ratio", ratios(rates[name], inserts)))  # told only
    found.append(figure(NAME, "insert (this machine, now)", "1/s", inserts))
    return found


def claim_many(store: Store, count: int, *, at_once: int = TWENTY) -> list[Claim]:
    """So many claims, at most so many a call."""
    held: list[Claim] = []
    while len(held) < count:
        found = store.claim("bench", [QUEUE], LEASE_SECONDS, limit=min(at_once, count - len(held))).claims
        assert found, "the load is used up"
        held.extend(found)
    return held


class ManyAppends:
    """Commits of ten tasks in one round trip; a unit is one commit."""

    def __init__(self, store: Store, claims: Sequence[Claim], calls: int) -> None:
        self._store = store
        self._claims = claims
        self._calls = calls
        self._seq = claims[0].last_seq

    def __call__(self) -> int:
        for _ in range(self._calls):
            commit = Commit((ModelCalled("0" * 64, 1),))
            answers = self._store.append_many([Append(claim, self._seq, commit) for claim in self._claims])
            assert not [answer for answer in answers if isinstance(answer, Exception)], answers
            self._seq += 1
        return self._calls * len(self._claims)
