"""Copies every task's log and final row from the store into the run directory, once nobody writes any more.

Each task is read to its end, and the row that is kept was read together with the last page: the two agree as of one
instant. A store that does not answer is asked again until a deadline; what is missing then is missing in the
evidence, and said.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from noeta.chaos.evidence_dir import LineWriter, LogLine
from noeta.chaos.evidence_reader import FinalLine
from noeta.chaos.store_view import StoreView, ViewUnavailable
from noeta.core.errors import NoetaError, StoreUnavailable, UnknownTask
from noeta.core.store import Store

PAGE_ENTRIES: Final = 200
RETRY_SECONDS: Final = 0.3


@dataclass(slots=True)
class Collected:
    """What was copied, and why something was not."""

    tasks: int = 0
    entries: int = 0
    absent: int = 0
    """Tasks that were asked for and that the store does not have."""
    missing: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For ``run.json``."""
        return {"tasks": self.tasks, "entries": self.entries, "absent": self.absent, "missing": self.missing}


def collect(
    store: Store,
    view: StoreView,
    log: LineWriter,
    finals: LineWriter,
    *,
    created: Iterable[str],
    timeout_seconds: float,
) -> Collected:
    """Copy every task of the store, and of those created."""
    done = Collected()
    deadline = time.monotonic() + timeout_seconds
    try:
        found = _again(lambda: list(_all_ids(store)), deadline)
        for task in sorted({*found, *created}):
            try:
                _again(partial(_copy, store, view, log, finals, task, done), deadline)
            except UnknownTask:
                finals.add(FinalLine(task, None))
                done.absent += 1
    except (NoetaError, ViewUnavailable) as error:
        done.missing = f"{type(error).__name__}: {error}".strip()
    return done


def _copy(store: Store, view: StoreView, log: LineWriter, finals: LineWriter, task: str, done: Collected) -> None:
    """One task; written only when it was read to its end, so that a second try repeats no line."""
    entries: list[LogLine] = []
    while True:
        page = store.read(task, entries[-1].seq if entries else 0, limit=PAGE_ENTRIES)
        entries += [LogLine(task, one.seq, one.epoch, one.at, one.body) for one in page.entries]
        if not page.more:
            break
    final = view.final(page)
    for line in entries:
        log.add(line)
    finals.add(FinalLine(task, final))
    done.tasks += 1
    done.entries += len(entries)


def _all_ids(store: Store) -> Iterator[str]:
    after = ""
    while page := store.tasks(after=after):
        yield from (row.id for row in page)
        after = page[-1].id


def _again(ask: Any, deadline: float) -> Any:
    while True:
        try:
            return ask()
        except (StoreUnavailable, ViewUnavailable):
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
