"""What a verb costs since it knows the family, as a ratio to the same verb without, call by call in turn.

Buffers, and the time that the server took for the statement itself: the wait for the disk at the commit is not in it,
which would hide any difference. Target: a renewal that also looks for orders takes at most a tenth longer. Ends are
told. An append that ends nothing is the same statement as before, so that there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import psycopg

from bench.bulk import add_idle, add_items, add_pending, settle, store_now
from bench.rates import claim_many
from bench.report import Figure, Target, figure, ratios
from bench.site import Place, Places, Session
from noeta.backends.stores.pg_commits import bind_append, bind_family
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import TaskFailed
from noeta.core.ids import child_id, micros
from noeta.core.lower import lower_commit
from noeta.core.store import Child, Claim, Commit, End, NewTask

NAME: Final = "family_cost"
BLOCK: Final = 40
CALLS: Final = 5 * BLOCK
CALLS_QUICK: Final = BLOCK
WARM_UP: Final = 10
RENEWED: Final = 50
ITEMS_BESIDE: Final = 20_000
LEASE_SECONDS: Final = 600.0
CALL: Final = "2-0"
A_TENTH_MORE: Final = Target("at most", 1.1)
_COST: Final = """
SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint,
    coalesce(sum(total_exec_time), 0)::float
FROM pg_stat_statements WHERE strpos(query, %s) > 0
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """One call: buffers touched, and the server's time in milliseconds."""

    buffers: int
    ms: float


class Pair:
    """The same verb without and with the family."""

    def __init__(self, session: Session, place: Place, without: str, beside: str) -> None:
        self._session = session
        self._texts = [f'"{place.schema}".{function}(' for function in (without, beside)]
        self.costs: tuple[list[Cost], list[Cost]] = ([], [])

    def call(self, which: int, call: Callable[[], object]) -> None:
        """Call one side, and note what it cost.

        Raises:
            ValueError: it was not exactly one statement.
        """
        before = self._totals(which)
        call()
        after = self._totals(which)
        if after[0] - before[0] != 1:
            raise ValueError(f"expected one call of {self._texts[which]}, the server saw {after[0] - before[0]}")
        self.costs[which].append(Cost(after[1] - before[1], after[2] - before[2]))

    def figures(self, name: str, target: Target | None = None) -> list[Figure]:
        """How many times as much the family's side costs, call by call, and its buffers."""
        without, beside = (costs[WARM_UP:] for costs in self.costs)
        return [
            figure(NAME, f"{name}: server time", "ratio", ratios(_quick_ms(beside), _quick_ms(without)), target),
            figure(NAME, f"{name}: buffers", "ratio", ratios(_buffers(beside), _buffers(without))),
            figure(NAME, f"{name.partition(' / ')[0]}: buffers", "buffers", _buffers(beside)),
        ]

    def _totals(self, which: int) -> tuple[int, int, float]:
        row = self._session.execute(_COST, [self._texts[which]]).fetchone()
        assert row is not None
        return int(row[0]), int(row[1]), float(row[2])


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Renewals, a root's end and a child's end."""
    calls = WARM_UP + (CALLS_QUICK if quick else CALLS)
    found: list[Figure] = []
    with places() as place, place.session() as session, place.store(place.counted_dsn, max_connections=1) as store:
        add_idle(session, ITEMS_BESIDE)
        add_pending(session, "load", 2 * calls + RENEWED, apart_micros=1_000, before=store_now(session))
        settle(session)
        found += compare_renewals(place, session, store, calls).figures("renew of fifty / without orders", A_TENTH_MORE)
        roots = claim_many(store, 2 * calls)
        found += compare_ends(place, session, store, roots).figures("a root's end / without children")
        found += compare_ends(place, session, store, children(store, 2 * calls)).figures(
            "a child's end / without children"
        )
    return found


def compare_renewals(place: Place, session: Session, store: PostgresStore, calls: int) -> Pair:
    """Fifty claims, renewed with and without the look for orders on one connection; many other tasks have items."""
    pair = Pair(session, place, "renew_1", "renew_2")
    held = claim_many(store, RENEWED)
    add_items(session, ITEMS_BESIDE)
    session.execute("VACUUM (ANALYZE) item")
    values = [[c.task_id for c in held], [c.epoch for c in held], [c.token for c in held], micros(LEASE_SECONDS)]
    with psycopg.connect(place.counted_dsn, autocommit=True) as counted:
        cursor = psycopg.RawCursor(counted)
        statements = [
            f'SELECT o_now, o_answers{more} FROM "{place.schema}".{function}($1::text[], $2::bigint[], $3::text[], $4)'
            for function, more in (("renew_1", ""), ("renew_2", ", o_ordered"))
        ]
        for number in range(calls):
            for which in (0, 1) if number % 2 else (1, 0):
                pair.call(which, partial(cursor.execute, statements[which], values, prepare=True))
    return pair


def compare_ends(place: Place, session: Session, store: PostgresStore, claims: Sequence[Claim]) -> Pair:
    """Tasks that end, in turn by the statement that looks for children and by the one that does not."""
    pair = Pair(session, place, "append_1", "append_2")
    for number, claim in enumerate(claims):
        write = lower_commit(claim, claim.last_seq, Commit(next=End(TaskFailed("bench"))))
        which = (number + number // 2) % 2  # either goes first as often
        if which:
            pair.call(1, partial(store._write, "append_family", *bind_append(write), *bind_family(write)))
        else:
            pair.call(0, partial(store._write, "append", *bind_append(write)))
    return pair


def children(store: PostgresStore, count: int) -> list[Claim]:
    """So many claimed children of one parent."""
    store.create(NewTask("parent", "main", "bench", queue="parent"))
    (parent,) = store.claim("bench", ["parent"], LEASE_SECONDS).claims
    born = tuple(Child(child_id("parent", CALL, n), "main", "bench") for n in range(1, count + 1))
    store.append(parent, parent.last_seq, Commit((), children=born))
    held: list[Claim] = []
    while len(held) < count:
        held += store.claim("bench", ["parent"], LEASE_SECONDS, limit=20).claims
    return held


def _quick_ms(costs: Sequence[Cost]) -> list[float]:
    """Of each block of calls the time that a tenth of them stayed below: what a busy machine adds is not in it."""
    blocks = [costs[start : start + BLOCK] for start in range(0, len(costs), BLOCK)]
    return [sorted(cost.ms for cost in block)[len(block) // 10] for block in blocks]


def _buffers(costs: Sequence[Cost]) -> list[float]:
    return [cost.buffers for cost in costs]
