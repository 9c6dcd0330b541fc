"""Buffers of the verbs that know the family, on plans that were made while the tables were small.

A session keeps its plans until the next ANALYZE, and a burst of new tasks is quicker than that. Target: at most 120
each, which is three appends; a scan of a table or of an index would show as thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.bulk import add_idle, add_items
from bench.counters import BufferCounter
from bench.report import Figure, Target, figure
from bench.site import Place, Places, Session
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import TaskFailed
from noeta.core.ids import child_id
from noeta.core.store import Child, Commit, End, NewTask
from noeta.core.wake import BACKGROUND, ControlReceived

NAME: Final = "old_plans"
ROWS: Final = 100_000
ROWS_QUICK: Final = 20_000
WARM_UP: Final = 10
"""A statement is planned anew for its first five calls."""

SAMPLES: Final = 5
LEASE_SECONDS: Final = 600.0
CALL: Final = "2-0"
FEW: Final = Target("at most", 120)


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """A figure a verb."""
    with places() as place:
        return count(place, ROWS_QUICK if quick else ROWS)


def count(place: Place, rows: int) -> list[Figure]:
    """Every verb, planned on small tables and counted on grown ones."""
    with place.session() as session, place.store(place.counted_dsn, max_connections=1) as store:
        for table in ("task", "item", "entry"):  # no ANALYZE in between
            session.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        for number in range(WARM_UP):
            family_verbs(place, session, store, f"early-{number}")
        add_idle(session, rows)
        add_items(session, rows)
        costs = [family_verbs(place, session, store, f"late-{number}") for number in range(SAMPLES)]
    return [
        figure(NAME, f"{verb}, {rows:,} rows since it was planned", "buffers", [cost[verb] for cost in costs], FEW)
        for verb in costs[0]
    ]


def family_verbs(place: Place, session: Session, store: PostgresStore, root: str) -> dict[str, int]:
    """Buffers of one call each: a renewal, a birth for a task above, a child's end, its failure, its cancel."""
    store.create(NewTask(root, "main", "bench", queue=root))
    (parent,) = store.claim("bench", [root], LEASE_SECONDS).claims
    store.append(parent, 1, Commit((), children=tuple(Child(child_id(root, CALL, n), "main", "") for n in (1, 2, 3))))
    first, second, third = store.claim("bench", [root], LEASE_SECONDS, limit=3).claims
    late = Child(child_id(first.task_id, CALL, 1), "main", "", group=BACKGROUND, parent=root, root=root, depth=2)
    end = Commit(next=End(TaskFailed("bench")))
    calls: list[tuple[str, str, Callable[[], object]]] = [
        ("renew", "renew_2", lambda: store.renew([first, second, third], LEASE_SECONDS)),
        ("birth for the root", "append_2", lambda: store.append(first, 1, Commit((), children=(late,)))),
        ("end of a child", "append_2", lambda: store.append(first, 1, end)),
        ("failure of a child", "fail_2", lambda: store.fail(second, "bench", attempts_max=1)),
    ]
    found = {verb: BufferCounter(session, place, function).count(call).touched for verb, function, call in calls}
    store.release(third)
    cancelling = BufferCounter(session, place, "cancel_1")
    before = cancelling.totals()
    store.post(third.task_id, ControlReceived(), "cancel")  # two round trips: see round_trips.py
    found["cancel of a child"] = cancelling.totals().since(before).touched
    return found
