"""What the sampler saw last, for the parts of a run that act on it: loader, clients, drain, progress.

A board is a little behind the truth. Nobody may conclude from it that something did *not* happen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from invariants.evidence import Sample
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived


@dataclass(frozen=True, slots=True)
class Seen:
    """A row as it was sampled, with the columns that say when a claim may take it."""

    sample: Sample
    queue: str
    ready_at: int | None
    lease_until: int | None

    @property
    def rests(self) -> bool:
        """Whether nothing more will happen unless somebody says something: ended, or waiting for a person with
        an empty inbox."""
        return self.sample.status is Status.TERMINAL or (self.would_rest and not self.sample.unread)

    @property
    def would_rest(self) -> bool:
        """Whether it waits for a person, and not with a question, whatever else is in its inbox."""
        row = self.sample
        waits = isinstance(row.wake_on, HumanResponseReceived) and row.wake_on.handle == NEXT_GOAL
        return row.status is Status.SUSPENDED and not row.kept and waits


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tasks stand where."""

    pending: int = 0
    running: int = 0
    suspended: int = 0
    terminal: int = 0
    resting: int = 0

    @property
    def total(self) -> int:
        """All that were seen."""
        return self.pending + self.running + self.suspended + self.terminal


class Board:
    """The newest sample of every task. For several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._moved_at: dict[str, int] = {}
        self._store_time = 0
        self._shown = 0

    def show(self, seen: Iterable[Seen], store_time: int) -> list[Seen]:
        """Put up a page of rows; those that differ from what was there before."""
        changed = []
        with self._lock:
            self._store_time = max(self._store_time, store_time)
            self._shown += 1
            for one in seen:
                before = self._seen.get(one.sample.task)
                if before is None or _facts(before.sample) != _facts(one.sample):
                    changed.append(one)
                    self._moved_at[one.sample.task] = one.sample.at
                self._seen[one.sample.task] = one
        return changed

    @property
    def store_time(self) -> int:
        """The store's clock at the newest sample, in microseconds; 0 before the first."""
        with self._lock:
            return self._store_time

    @property
    def shown(self) -> int:
        """How many samples there were: whoever waits for a newer one compares."""
        with self._lock:
            return self._shown

    def still_since(self, task: str) -> int | None:
        """The store's time of the sample in which this task's row last looked different."""
        with self._lock:
            return self._moved_at.get(task)

    def get(self, task: str) -> Seen | None:
        """The newest sample of a task."""
        with self._lock:
            return self._seen.get(task)

    def all(self) -> Mapping[str, Seen]:
        """A copy of everything."""
        with self._lock:
            return dict(self._seen)

    def counts(self) -> Counts:
        """How many tasks stand where."""
        with self._lock:
            seen = list(self._seen.values())
        by_status = {status: sum(one.sample.status is status for one in seen) for status in Status}
        return Counts(
            by_status[Status.PENDING],
            by_status[Status.RUNNING],
            by_status[Status.SUSPENDED],
            by_status[Status.TERMINAL],
            sum(one.rests for one in seen),
        )

    def held(self) -> dict[str, int]:
        """How many claims each worker holds."""
        owned: dict[str, int] = {}
        for one in self.all().values():
            if one.sample.worker is not None:
                owned[one.sample.worker] = owned.get(one.sample.worker, 0) + 1
        return owned


def _facts(row: Sample) -> tuple[object, ...]:
    """All but the instant."""
    return (
        row.status,
        row.kept,
        row.epoch,
        row.worker,
        row.token,
        row.last_seq,
        row.inbox_seq,
        row.wake_on,
        row.unread,
    )
