"""What the server counts: buffers a top-level statement touched, with all that its functions did inside.

pg_stat_statements takes the difference of the backend's own counters around a statement's execution, so nested
statements, index descents, visibility checks and page splits are all in it. A buffer looked at twice counts twice.
Dirtied buffers are among them: told apart they would only say which page a checkpoint had just cleaned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.site import Place, Session
from noeta.backends.stores.pg_claims import BEGINNING, ClaimBounds, Search

_TOTALS: Final = """
SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
FROM pg_stat_statements WHERE strpos(query, %s) > 0
"""


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the server started. ``touched``: hit or read."""

    calls: int
    touched: int

    def since(self, before: Totals) -> Totals:
        return Totals(self.calls - before.calls, self.touched - before.touched)


class BufferCounter:
    """Counts one function's calls in one schema. Its session is not counted itself."""

    def __init__(self, session: Session, place: Place, function: str) -> None:
        self._session = session
        self._text = f'"{place.schema}".{function}('

    def totals(self) -> Totals:
        row = self._session.execute(_TOTALS, [self._text]).fetchone()
        assert row is not None
        return Totals(*map(int, row))

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
