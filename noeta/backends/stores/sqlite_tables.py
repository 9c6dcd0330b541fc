"""The tables of a SQLite store as a write verb uses them, inside one transaction. No rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from noeta.backends.stores.sqlite_connection import Lane
from noeta.backends.stores.sqlite_rows import count_values, locked_row, task_values
from noeta.core.errors import UnknownTask
from noeta.core.ids import timer_key
from noeta.core.lower import LoweredItem, LoweredTask
from noeta.core.rules import UnreadKey
from noeta.core.store import Content, Snapshot
from noeta.core.task import TaskRow, claimable_at


class Tables:
    """What one transaction reads and writes. ``now``: the store's instant, read after the write lock was taken."""

    def __init__(self, lane: Lane, now: int) -> None:
        self._run = lane.run
        self.now = now

    # -- rows ----------------------------------------------------------------------------------------------

    def find(self, task_id: str) -> TaskRow | None:
        rows = self._run("task", (task_id,))
        return locked_row(rows[0]) if rows else None

    def task(self, task_id: str) -> TaskRow:
        """Raises: UnknownTask."""
        row = self.find(task_id)
        if row is None:
            raise UnknownTask(task_id)
        return row

    def content_hash(self, task_id: str) -> str | None:
        rows = self._run("content_hash", (task_id,))
        return rows[0][0] if rows else None

    def due(self, queues: Sequence[str] | None, limit: int) -> list[TaskRow]:
        """Tasks whose time has come, the longest due first."""
        if queues is None:
            return [locked_row(row) for row in self._run("due", (self.now, limit))]
        found = [
            locked_row(row)
            for queue in dict.fromkeys(queues)
            for row in self._run("due_in_queue", (self.now, limit, queue))
        ]
        found.sort(key=lambda row: (claimable_at(row) or 0, row.id))
        return found[:limit]

    def rested(self, queues: Sequence[str] | None, limit: int) -> list[TaskRow]:
        """Tasks whose lease has lapsed and that have rested enough, the longest due first."""
        return [locked_row(row) for row in self._run("rested", (self.now, limit, _names(queues)))]

    def lapsed(self, queues: Sequence[str] | None, limit: int) -> list[TaskRow]:
        """Tasks whose lease has lapsed, the longest lapsed first."""
        return [locked_row(row) for row in self._run("lapsed", (self.now, limit, _names(queues)))]

    def timers(self, at: int, limit: int) -> list[TaskRow]:
        """Suspended tasks whose timer is due, the longest due first."""
        return [locked_row(row) for row in self._run("timers", (at, limit))]

    def children(self, parent: str) -> list[TaskRow]:
        """The unfinished tasks of a parent, in id order."""
        return [locked_row(row) for row in self._run("children", (parent,))]

    def add(self, row: TaskRow, new: LoweredTask) -> None:
        """A new task with its first entry."""
        self._run("add_task", task_values(row) | {"content_hash": new.content_hash})
        self.add_entries(replace(row, last_seq=0), (new.body,))

    def put(self, before: TaskRow, after: TaskRow) -> None:
        """A row after what happened to it. Indexes are touched only where the change concerns them."""
        changed = replace(
            before,
            wake_missing=after.wake_missing,
            inbox_seq=after.inbox_seq,
            last_seq=after.last_seq,
            takeovers=after.takeovers,
            fail_attempts=after.fail_attempts,
        )
        if changed == after and claimable_at(before) == claimable_at(after):
            self._run("put_counts", count_values(after))
        else:
            self._run("put_task", task_values(after))

    # -- log and inbox -------------------------------------------------------------------------------------

    def add_entries(self, row: TaskRow, bodies: Iterable[str]) -> None:
        """Entries after the row's last one."""
        for seq, body in enumerate(bodies, start=row.last_seq + 1):
            self._run("add_entry", (row.id, seq, row.epoch, self.now, body))

    def number_of_key(self, task_id: str, key: str) -> int | None:
        rows = self._run("number_of_key", (task_id, key))
        return rows[0][0] if rows else None

    def is_unread(self, task_id: str, number: int) -> bool:
        return bool(self._run("is_unread", (task_id, number)))

    def has_order(self, task_id: str) -> bool:
        """Whether an order to end or to stop is in the inbox, unread."""
        return bool(self._run("has_order", (task_id,)))

    def unread_of(self, item: LoweredItem) -> list[UnreadKey]:
        """The unread items of this item's wake key."""
        return [UnreadKey(*row) for row in self._run("unread_of_wake_key", (item.task_id, item.wake_key))]

    def add_item(self, row: TaskRow, item: LoweredItem) -> None:
        """The item after the row's newest one."""
        values = (row.id, row.inbox_seq + 1, item.key, item.wake_key, item.body, self.now)
        self._run("add_item", values)

    def add_timer(self, row: TaskRow, at: int) -> TaskRow:
        """The item of the timer this row waits for, once; the row with its number. Keeps: timers-once."""
        key = timer_key(row.id, row.last_seq)
        if self.number_of_key(row.id, key) is not None:
            return row
        self._run("add_timer", (row.id, row.inbox_seq + 1, key, at))
        return replace(row, inbox_seq=row.inbox_seq + 1)

    def take(self, task_id: str, number: int, seq: int) -> None:
        self._run("take_item", (task_id, number, seq))

    def stamp_unread(self, task_id: str, seq: int) -> None:
        self._run("stamp_unread", (task_id, seq))

    def put_content(self, hash: str, content: Content) -> None:
        self._run("put_content", (hash, content.media_type, content.body, self.now))

    def put_snapshot(self, task_id: str, snapshot: Snapshot) -> None:
        self._run("put_snapshot", (task_id, snapshot.version, snapshot.seq, snapshot.body))


def _names(queues: Sequence[str] | None) -> str | None:
    return None if queues is None else json.dumps(list(queues))
