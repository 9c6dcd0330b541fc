"""The public face of the log: read it, follow it, append under a lease."""

from __future__ import annotations

from collections.abc import Iterator

from noeta.core.events import Entry, Event
from noeta.core.store import Appended, Commit, Store
from noeta.runtime.dispatcher import Lease


class EventLog:
    """Logs of one store. Every append is fenced: there is no way to write into a task somebody else holds."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def read(self, task_id: str, after_seq: int = 0) -> Iterator[Entry]:
        """Entries after this seq, in order, page by page.

        Raises:
            UnknownTask, UnreadableLog.
        """
        more = True
        while more:
            page = self.store.read(task_id, after_seq)
            yield from page.entries
            after_seq += len(page.entries)
            more = page.more

    def append(self, lease: Lease, expected_seq: int, *events: Event) -> Appended:
        """Append events under a lease; the task stays running. Keeps: one-writer.

        Raises:
            Conflict, InvalidLease: nothing was written.
        """
        return lease.held.append(expected_seq, Commit(events, inbox_seen=lease.held.inbox_seq))
