"""What the server counts: buffers a top-level statement touched, with all that its functions did inside.

pg_stat_statements takes the difference of the backend's own counters around a statement's execution, so nested
statements, index descents, visibility checks and page splits are all in it. A buffer looked at twice counts twice.
Dirtied buffers are among them: told apart they would only say which page a checkpoint had just cleaned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.site import Place, Session
from noeta.backends.stores.pg_claims import BEGINNING, ClaimBounds, Search

_TOTALS: Final = """
SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
FROM pg_stat_statements WHERE strpos(query, %s) > 0
"""


_STILL_HERE: Final = """
SELECT count(*) FROM pg_stat_activity WHERE strpos(query, %s) > 0 AND pid <> pg_backend_pid()
"""
LEAVE_SECONDS_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the server started. ``touched``: hit or read."""

    calls: int
    touched: int

    def since(self, before: Totals) -> Totals:
        return Totals(self.calls - before.calls, self.touched - before.touched)


def schema_totals(session: Session, place: Place) -> Totals:
    """Of every counted statement that names this schema."""
    return _totals(session, f'"{place.schema}".')


def _totals(session: Session, text: str) -> Totals:
    row = session.execute(_TOTALS, [text]).fetchone()
    assert row is not None
    return Totals(*map(int, row))


def deadlocks(session: Session, place: Place) -> int:
    """Transactions that the server has aborted to end a deadlock (40P01), in this database, once everybody who worked
    in this schema has left: a session tells what it counted at its end at the latest."""
    deadline = time.monotonic() + LEAVE_SECONDS_MAX
    while True:
        row = session.execute(_STILL_HERE, [f'"{place.schema}".']).fetchone()
        assert row is not None
        if row[0] == 0:
            break
        assert time.monotonic() < deadline, f"{row[0]} sessions are still there"
        time.sleep(0.02)
    row = session.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


class BufferCounter:
    """Counts one function's calls in one schema, or the calls of the statement that holds this text. Its session is not
    counted itself."""

    def __init__(self, session: Session, place: Place, function: str, *, text: str | None = None) -> None:
        self._session = session
        self._text = text or f'"{place.schema}".{function}('

    def totals(self) -> Totals:
        return _totals(self._session, self._text)

    def count(self, call: Callable[[], object]) -> Totals:
        """What this one call cost.

        Raises:
            ValueError: it was not exactly one statement.
        """
        before = self.totals()
        call()
        found = self.totals().since(before)
        if found.calls != 1:
            raise ValueError(f"expected one call of {self._text}, the server saw {found.calls}")
        return found


class WatchedBounds(ClaimBounds):
    """A store's own lower bounds, which also say where the last claim looked, and can be sent to the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.from_beginning = False
        self.last: Search | None = None

    def search(self, queues: Sequence[str] | None, lease_seconds: float, now: float) -> Search:
        search = super().search(queues, lease_seconds, now)
        if self.from_beginning:
            # As the store itself does for named queues: such a search hides nothing, so none follows it.
            search = replace(search, floors=(BEGINNING,) * len(search.floors), restart=False)
        self.last = search
        return search

    @property
    def was_from_bound(self) -> bool:
        """Whether the last claim began at its lower bounds."""
        return self.last is not None and bool(self.last.floors) and BEGINNING not in self.last.floors
