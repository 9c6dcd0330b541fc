"""A view of any store through the verbs of its contract: ``tasks`` page by page, and ``read``.

Two things the contract has no read for. *Items stamped unread*: of an ended task they are derived, as the items that
no entry took and that are not unread any more; so a store that silently drops an item of an ended task is not
convicted here (an untaken item that it still shows as unread is), nor one that stamps an item that was taken. Which
keys they had is not to be known: whether the order of an ended parent is among them is left open, unless there is
nothing else that they could be. *The clock*: a claim tells it, so it is asked once,
by a claim of a queue that no task is in, and carried on by this machine's monotonic clock. Asking again in the storm
would be a write, and a store that confuses its queues would hand the harness a task. The machine's wall clock would do
for a store on this machine, but a store may have a clock of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from invariants.evidence import FinalRow, Sample
from noeta.chaos.board import Seen
from noeta.chaos.store_view import ViewUnavailable
from noeta.core.errors import CommitUnknown, StoreUnavailable
from noeta.core.events import numbers_taken
from noeta.core.ids import micros
from noeta.core.store import LogPage, Store
from noeta.core.task import Status, TaskRow

T = TypeVar("T")

PAGE_ROWS: Final = 500
PAGE_ENTRIES: Final = 500
ASKER: Final = "noeta-harness"
NOBODYS_QUEUE: Final = "noeta-harness-clock"
"""No task is ever in it."""


class StoreClock:
    """The store's clock, never ahead of it, and behind it by one answer at the most."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Ask once.

        Raises:
            StoreUnavailable, CommitUnknown.
        """
        told = store.claim(ASKER, [NOBODYS_QUEUE], 1.0).now
        self._monotonic = monotonic
        self._ahead = told - micros(monotonic())

    def now(self) -> int:
        """Microseconds."""
        return micros(self._monotonic()) + self._ahead


class ContractView:
    """Implements ``StoreView`` over ``store``, which is closed with it. For one thread."""

    def __init__(self, store: Store, clock: StoreClock) -> None:
        self._store = store
        self._clock = clock
        self._unread: dict[str, tuple[tuple[int, int], int]] = {}
        """By task: last seq and newest item at a look, and how many items were unread. The number changes with
        neither of them standing still: an item comes with a number and is taken or stamped by an entry."""

    def rows(self, leave_out: Sequence[str] = ()) -> tuple[list[Seen], int]:
        left_out = frozenset(leave_out)
        found: list[Seen] = []
        after = ""
        while page := self._ask(partial(self._store.tasks, after=after, limit=PAGE_ROWS)):
            found += [self._seen(row) for row in page if row.status is not Status.TERMINAL or row.id not in left_out]
            after = page[-1].id
            if len(page) < PAGE_ROWS:
                break
        return found, self.clock()

    def clock(self) -> int:
        return self._clock.now()

    def stamped(self, task: str) -> tuple[int, ...]:
        taken: set[int] = set()
        seq = 0
        while True:
            page = self._page(task, seq, limit=PAGE_ENTRIES)
            taken.update(number for entry in page.entries for number in numbers_taken(entry.event))
            if not page.more:
                break
            seq = page.entries[-1].seq
        if page.row.status is not Status.TERMINAL:
            return ()
        taken.update(self._unread_numbers(page))
        return tuple(number for number in range(1, page.row.inbox_seq + 1) if number not in taken)

    def final(self, page: LogPage) -> FinalRow:
        row = page.row
        stamped = self.stamped(row.id) if row.status is Status.TERMINAL and row.inbox_seq else ()
        stamped_order = None if stamped and row.parent is not None else False
        return FinalRow(self.clock(), row, page.unread, stamped, page.inbox_seen, stamped_order)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _seen(self, row: TaskRow) -> Seen:
        row, unread = self._with_unread(row)
        sample = Sample(
            at=self.clock(),
            task=row.id,
            status=row.status,
            kept=row.kept,
            epoch=row.epoch,
            worker=row.worker,
            token=row.token,
            last_seq=row.last_seq,
            inbox_seq=row.inbox_seq,
            wake_on=row.wake_on,
            unread=unread,
            leased=row.lease_until is not None,
        )
        return Seen(sample, queue=row.queue, ready_at=row.ready_at, lease_until=row.lease_until)

    def _with_unread(self, row: TaskRow) -> tuple[TaskRow, int]:
        """The row and the number of its unread items, as of one instant: that of the row, or a later one."""
        if not row.inbox_seq:
            return row, 0
        known = self._unread.get(row.id)
        if known is None or known[0] != (row.last_seq, row.inbox_seq):
            page = self._page(row.id, row.last_seq, limit=1)
            row = page.row
            known = self._unread[row.id] = (row.last_seq, row.inbox_seq), len(self._unread_numbers(page))
        return row, known[1]

    def _unread_numbers(self, page: LogPage) -> list[int]:
        numbers = [item.number for item in page.unread]
        while page.inbox_seen < page.row.inbox_seq:
            page = self._page(page.row.id, page.row.last_seq, limit=1, inbox_after=page.inbox_seen)
            numbers += [item.number for item in page.unread]
        return numbers

    def _page(self, task: str, after: int, *, limit: int, inbox_after: int = 0) -> LogPage:
        return self._ask(partial(self._store.read, task, after, limit=limit, inbox_after=inbox_after))

    def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (StoreUnavailable, CommitUnknown) as error:
            raise ViewUnavailable(str(error)) from error
