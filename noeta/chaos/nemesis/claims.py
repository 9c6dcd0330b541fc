"""Who holds what: claims of worker processes as the store shows them, and whether somebody took them over.

A claim counts as cut only if it still stands a moment after the strike: a statement that was under way then
may yet end it in good order. From there on only a takeover can raise the task's epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from invariants.evidence import Answer, Attempt, Held, Verb
from noeta.core.errors import StoreUnavailable, UnknownTask
from noeta.core.store import Store
from noeta.core.task import Status, TaskRow

PAGE: Final = 200
FRESH_SECONDS: Final = 0.04
"""A picture of the running tasks this old is still new."""

SETTLE_SECONDS: Final = 0.1
"""A statement under way at the strike has ended by then; twice this for a machine under load."""

ASKED_ONE_BY_ONE_MAX: Final = 8


@dataclass(slots=True)
class Claims:
    """The running tasks of one queue. For one thread."""

    store: Store
    queue: str
    clock: Callable[[], float] = time.monotonic
    away_at: float = float("-inf")
    """When the store last gave no answer."""

    _rows: dict[str, TaskRow] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def running(self, *, fresh_seconds: float = FRESH_SECONDS) -> dict[str, TaskRow]:
        """The running tasks by id.

        Raises:
            StoreUnavailable: the server is away.
        """
        if self.clock() - self._looked_at > fresh_seconds:
            try:
                self._rows = self._ask()
            except StoreUnavailable:
                self.away_at = self.clock()
                raise
            self._looked_at = self.clock()
        return self._rows

    def _ask(self) -> dict[str, TaskRow]:
        rows: dict[str, TaskRow] = {}
        after = ""
        while page := self.store.tasks(after=after, status=Status.RUNNING, queue=self.queue, limit=PAGE):
            rows |= {row.id: row for row in page}
            after = page[-1].id
            if len(page) < PAGE:
                break
        return rows

    def held_by(self, workers: Iterable[str]) -> frozenset[Held]:
        """The claims that these worker names hold at this instant.

        Raises:
            StoreUnavailable.
        """
        names = frozenset(workers)
        rows = self.running(fresh_seconds=-1.0).values()
        return frozenset(Held(row.id, row.epoch) for row in rows if row.worker in names)

    def holders(self) -> frozenset[str]:
        """The names that hold something, as of a moment ago.

        Raises:
            StoreUnavailable.
        """
        return frozenset(row.worker for row in self.running().values() if row.worker is not None)

    def taken_over(self, claims: Iterable[Held]) -> frozenset[Held]:
        """Those of the claims whose task has a higher epoch by now; at most a few are asked about one by one."""
        try:
            running = self.running()
            found = set()
            asked = 0
            for claim in claims:
                row = running.get(claim.task)
                if row is None and asked < ASKED_ONE_BY_ONE_MAX:
                    asked += 1
                    row = self._row(claim.task)
                if row is not None and row.epoch > claim.epoch:
                    found.add(claim)
            return frozenset(found)
        except StoreUnavailable:
            return frozenset()

    def _row(self, task: str) -> TaskRow | None:
        try:
            return self.store.task(task)
        except UnknownTask:
            return None


@dataclass(slots=True)
class Victim:
    """The claims of one struck process. ``held``: all it may have held; ``cut``: those that stood a moment later
    with nobody to end them, None until that is known."""

    workers: tuple[str, ...]
    attempts: Path
    struck_at: float
    struck_wall: int
    spared: frozenset[Held]
    """Claims of earlier processes of the same name, which still stand in the store."""

    held: frozenset[Held] = frozenset()
    cut: frozenset[Held] | None = None
    taken: frozenset[Held] = frozenset()
    _is_seen: bool = False

    def look(self, claims: Claims, now: float) -> None:
        """See what was held; later, what was cut; after that, what was taken over."""
        if self.cut is None:
            try:
                standing = claims.held_by(self.workers) - self.spared
            except StoreUnavailable:
                # The store is away: what the process itself wrote down must do. Nobody can take over now.
                self.held |= recorded_claims(self.attempts, self.struck_wall)
                self._is_seen = True
                return
            if not self._is_seen:
                self.held, self._is_seen = standing, True
            elif now - self.struck_at >= 2 * SETTLE_SECONDS:
                self.cut = standing & self.held
        elif self.cut - self.taken:
            self.taken |= claims.taken_over(self.cut - self.taken)

    @property
    def is_seen(self) -> bool:
        """Whether it is known what was held: until then no new process of the name may claim anything."""
        return self._is_seen

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to learn."""
        return self.cut is not None and not self.cut - self.taken


def recorded_claims(attempts: Path, at: int) -> frozenset[Held]:
    """The claims whose lease, by the record of their own process, ran at this instant (microseconds)."""
    leases: dict[Held, int] = {}
    for raw in attempts.read_bytes().splitlines() if attempts.is_file() else ():
        try:
            attempt = msgspec.json.decode(raw, type=Attempt)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if attempt.epoch is None or attempt.answer is not Answer.OK:
            continue
        claim = Held(attempt.task, attempt.epoch)
        if attempt.verb in (Verb.CLAIM, Verb.RENEW):
            leases[claim] = max(attempt.lease_until or 0, leases.get(claim, 0))
        elif attempt.verb in (Verb.RELEASE, Verb.FAIL):
            leases.pop(claim, None)
    return frozenset(claim for claim, until in leases.items() if until > at)
