"""The SQLite store, for several processes of one machine on one file: ``noeta.core.store.Store``.

A verb is: lower (core decides), one transaction that takes the write lock first and reads the clock after it, the
rules of ``core`` on what it reads, write, COMMIT. Any thread may call any verb. The file is opened, and created if it
is new, when the store is made; a store does not survive a fork.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from noeta.backends.stores import sqlite_rows, sqlite_schema, sqlite_verbs
from noeta.backends.stores.sqlite_connection import Lane
from noeta.backends.stores.sqlite_file import DatabaseFile
from noeta.backends.stores.sqlite_tables import Tables
from noeta.core import limits, lower, rules
from noeta.core.errors import (
    BadInput,
    ContentNotFound,
    NoetaError,
    UnknownTask,
)
from noeta.core.ids import check_name, micros, sha256_bytes
from noeta.core.store import (
    Append,
    Appended,
    Claim,
    Claims,
    Commit,
    Content,
    ContentRef,
    Created,
    Failed,
    LogPage,
    NewTask,
    Posted,
    Renewal,
    Resumed,
    Snapshot,
    claim_from_row,
)
from noeta.core.task import FAIL_ATTEMPTS_MAX, Cause, Given, Shape, Status, TaskRow, step
from noeta.core.wake import ControlReceived, Item, WakeEvent

WAIT_SECONDS_MAX: Final = 3_600.0
"""An hour: a call that waits longer for a lock outlives every lease."""

CHECKPOINT_COMMITS: Final = 200
"""Commits of this process between two checkpoints: some 2,000 pages, or 8 MB of ``-wal``."""

CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
"""Growth of the ``-wal`` between two checkpoints, for big commits."""


class SqliteStore:
    """Implements ``noeta.core.store.Store``.

    ``clock`` gives seconds since the epoch (default: the machine's wall clock, the same for every process on the file).
    ``wait_seconds`` bounds how long a call waits for the write lock.

    Raises:
        BadInput: the path or the bound.
        StoreUnavailable: the file cannot be used; its subclasses in `sqlite_errors.py` say why.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] | None = None, wait_seconds: float = 5.0) -> None:
        _check_path(path)
        lower.check_span("wait_seconds", wait_seconds, WAIT_SECONDS_MAX)
        sqlite_schema.check_library()
        self._clock = clock or time.time
        self._file = DatabaseFile(path)
        self._lanes: list[Lane] = []
        self._swept_at: dict[frozenset[str] | None, int] = {}
        self._commits = 0
        self._wal_bytes = 0
        try:
            statements = sqlite_schema.load_names()
            for _ in range(4):
                lane = Lane(self._file, statements, wait_seconds=wait_seconds)
                self._lanes.append(lane)
                sqlite_schema.prepare(lane, self._file)
                if len(self._lanes) == 1:
                    self._file.remember()  # all lanes must be on the file of the first
            self._work, self._renewals, self._reads, self._checkpoints = self._lanes
            self._work.poll_locks()
            self._renewals.poll_locks()
            self._file.check()
            self._checkpoint()
        except BaseException:
            self.close()
            raise

    # -- birth ---------------------------------------------------------------------------------------------

    def create(self, task: NewTask) -> Created:
        new = lower.lower_task(task)
        with self._writing() as tables:
            return Created(new.id, sqlite_verbs.create(tables, new, "task_id"))

    # -- claims --------------------------------------------------------------------------------------------

    def claim(
        self,
        worker: str,
        queues: Sequence[str] | None,
        lease_seconds: float,
        *,
        token: str | None = None,
        limit: int = 1,
    ) -> Claims:
        lower.check_claim_input(worker, queues, lease_seconds, token, limit)
        token = token or uuid.uuid4().hex
        fired: list[str] = []
        requeued: list[str] = []
        claims: list[Claim] = []
        with self._writing() as tables:
            given = Given(worker=worker, token=token, lease_until=tables.now + micros(lease_seconds))
            # Due tasks first, lapsed leases after them, each the longest waiting first.
            found = tables.due(queues, limit)
            found += tables.rested(queues, limit - len(found))
            for row in found:
                shape, before = row.shape, row
                if shape is Shape.SUSPENDED:
                    row = tables.add_timer(row, tables.now)
                    fired.append(row.id)
                elif shape in (Shape.RUNNING, Shape.KEPT):
                    requeued.append(row.id)
                row = step(row, Cause.CLAIM, given)
                tables.put(before, row)
                claims.append(claim_from_row(row, shape.value))
            now, full = tables.now, len(claims) == limit
            swept_at = self._swept_at.get(rules.swept_queues(queues))
            sweeps = rules.must_sweep(full=full, swept_at=swept_at, now=now, lease=micros(lease_seconds))
            if sweeps:
                requeued += sqlite_verbs.sweep(tables, queues, limits.CLAIM_LIMIT_MAX)
        if sweeps:
            self._swept_at[rules.swept_queues(queues)] = now  # only once it is committed
        return Claims(tuple(claims), tuple(fired), tuple(requeued), now)

    def renew(self, claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        lower.check_lease(lease_seconds)
        claims = (claims,) if isinstance(claims, Claim) else claims
        with self._renewals.writing():
            tables = Tables(self._renewals, micros(self._clock()))
            return tuple(sqlite_verbs.renew(tables, claim, micros(lease_seconds)) for claim in claims)

    def release(self, claim: Claim) -> Status:
        with self._writing() as tables:
            row = sqlite_verbs.fenced(tables, claim)
            after = step(row, Cause.RELEASE, Given(ready_at=tables.now))
            tables.put(row, after)
            return after.status

    def resume(self, claim: Claim) -> Resumed:
        with self._writing() as tables:
            return sqlite_verbs.resume(tables, claim)

    def fire_due_timers(self, *, limit: int = 100, now: float | None = None) -> tuple[str, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        if now is not None:
            lower.check_instant("now", now)
        with self._writing() as tables:
            at = tables.now if now is None else micros(now)
            due = tables.timers(at, limit)
            for before in due:
                row = tables.add_timer(before, at)
                tables.put(before, step(row, Cause.FIRE, Given(ready_at=min(at, tables.now))))
            return tuple(row.id for row in due)

    def requeue_stale(self, *, limit: int = 100) -> tuple[str, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        with self._writing() as tables:
            return tuple(sqlite_verbs.sweep(tables, None, limit))

    # -- the one commit ------------------------------------------------------------------------------------

    def append(self, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        write = lower.lower_commit(claim, expected_seq, commit)
        with self._writing() as tables:
            return sqlite_verbs.apply(tables, claim, write)

    def append_many(self, appends: Sequence[Append]) -> tuple[Appended | NoetaError, ...]:
        writes = [(one.claim, lower.lower_commit(one.claim, one.expected_seq, one.commit)) for one in appends]
        if len({claim.task_id for claim, _ in writes}) != len(writes):
            raise BadInput("appends", "one commit a task in a batch")
        with self._writing() as tables:
            return tuple(sqlite_verbs.applied_or_refused(tables, claim, write) for claim, write in writes)

    def fail(
        self, claim: Claim, reason: str, *, retryable: bool = True, attempts_max: int = FAIL_ATTEMPTS_MAX
    ) -> Failed:
        lower.check_count("attempts_max", attempts_max, 1_000)
        ending, result = lower.lower_failure(claim, reason)
        with self._writing() as tables:
            row = sqlite_verbs.fenced(tables, claim)
            after = rules.failed(row, retryable=retryable, attempts_max=attempts_max, now=tables.now)
            tables.put(row, after)
            if after.status is Status.TERMINAL:
                tables.add_entries(row, (ending,))
                tables.stamp_unread(row.id, after.last_seq)
                sqlite_verbs.order_children(tables, row.id)
                if result is not None:
                    sqlite_verbs.post(tables, result)
            return Failed(after.status, after.fail_attempts, after.last_seq)

    # -- the inbox -----------------------------------------------------------------------------------------

    def post(self, task_id: str, item: Item, key: str | None = None) -> Posted:
        new = lower.lower_item(task_id, item, key)
        with self._writing() as tables:
            if isinstance(item, ControlReceived) and lower.is_cancel(item):
                return sqlite_verbs.cancel(tables, new, item)
            return sqlite_verbs.posted(tables, new)

    def wake(self, task_id: str, event: WakeEvent) -> Posted:
        new = lower.lower_wake(task_id, event)
        with self._writing() as tables:
            if new.key is None:
                key = rules.derived_key(tables.task(task_id), new, tables.unread_of(new))
                if key is None:
                    return Posted("repeat", None, made_ready=False)
                new = replace(new, key=key)
            return sqlite_verbs.posted(tables, new)

    # -- reads ---------------------------------------------------------------------------------------------

    def read(self, task_id: str, after: int = 0, *, limit: int = 1_000, inbox_after: int = 0) -> LogPage:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        lower.check_number("after", after)
        lower.check_number("inbox_after", inbox_after)
        with self._reads.reading():
            rows = self._reads.run("task", (sqlite_rows.known(task_id),))
            entries = self._reads.run("entries", (task_id, after, limit))
            unread = self._reads.run("unread", (task_id, inbox_after, limits.COMMIT_PARTS_MAX + 1))
        if not rows:
            raise UnknownTask(task_id)
        return sqlite_rows.log_page(rows[0], entries, unread, after)

    def task(self, task_id: str) -> TaskRow:
        with self._reads.reading():
            rows = self._reads.run("task", (sqlite_rows.known(task_id),))
        if not rows:
            raise UnknownTask(task_id)
        return sqlite_rows.task_row(rows[0])

    def tasks(
        self,
        *,
        after: str = "",
        limit: int = 200,
        status: Status | None = None,
        queue: str | None = None,
        token: str | None = None,
    ) -> tuple[TaskRow, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        for field, value in (("after", after), ("queue", queue), ("token", token)):
            if value:
                check_name(field, value, chars_max=limits.KEY_CHARS_MAX)
        values = (after, limit, None if status is None else status.value, queue)
        with self._reads.reading():
            if token is None:
                rows = self._reads.run("tasks", values)
            else:
                rows = self._reads.run("tasks_of_token", (*values, token))
        return tuple(map(sqlite_rows.task_row, rows))

    # -- contents and snapshots ----------------------------------------------------------------------------

    def put_content(self, body: bytes, media_type: str = "application/octet-stream") -> ContentRef:
        hash = sha256_bytes(lower.check_content(body))
        check_name("media_type", media_type)
        with self._writing() as tables:
            tables.put_content(hash, Content(body, media_type))
        return ContentRef(hash, len(body), media_type)

    def get_content(self, hash: str) -> bytes:
        with self._reads.reading():
            rows = self._reads.run("get_content", (hash,)) if sqlite_rows.is_storable(hash) else []
        if not rows:
            raise ContentNotFound(f"no content has the hash {hash!r}")
        body: bytes = rows[0][0]
        return body

    def put_snapshot(self, task_id: str, snapshot: Snapshot) -> None:
        lower.check_content(snapshot.body)
        check_name("snapshot.version", snapshot.version)
        lower.check_number("snapshot.seq", snapshot.seq)
        with self._writing() as tables:
            tables.task(sqlite_rows.known(task_id))
            tables.put_snapshot(task_id, snapshot)

    def get_snapshot(self, task_id: str, version: str) -> Snapshot | None:
        with self._reads.reading():
            known = self._reads.run("content_hash", (sqlite_rows.known(task_id),))
            rows = self._reads.run("get_snapshot", (task_id, version)) if sqlite_rows.is_storable(version) else []
        if not known:
            raise UnknownTask(task_id)
        return Snapshot(rows[0][0], version, rows[0][1]) if rows else None

    def close(self) -> None:
        for lane in reversed(self._lanes):
            lane.close()
        self._file.forget()

    # -- one transaction -----------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Tables]:
        """A transaction of the work; the clock is read after the lock. Keeps: one-writer."""
        if self._is_checkpoint_due():
            self._checkpoint()
        with self._work.writing():
            yield Tables(self._work, micros(self._clock()))
        self._commits += 1  # threads may count over each other: a checkpoint then comes a little later

    def _is_checkpoint_due(self) -> bool:
        grown = self._file.wal_bytes() - self._wal_bytes
        return self._commits >= CHECKPOINT_COMMITS or grown >= CHECKPOINT_BYTES

    def _checkpoint(self) -> None:
        """In a transaction that writes nothing itself, so that the next writer finds everything copied and begins the
        ``-wal`` anew."""
        with self._work.writing():
            sqlite_schema.checkpoint(self._checkpoints, self._file)
            self._commits, self._wal_bytes = 0, self._file.wal_bytes()


def _check_path(path: str) -> None:
    found: object = path
    if not isinstance(found, str):
        raise BadInput("path", f"expected text, found {type(found).__name__}")
    if not path or path.startswith((":memory:", "file:")) or "\x00" in path or not sqlite_rows.is_storable(path):
        raise BadInput("path", f"expected the path of a file, found {path!r}")
