"""The Postgres store, for several hosts: ``noeta.core.store.Store`` on numbered SQL functions.

A verb is: lower (core decides), bind, one round trip, map the row, map the error. The functions lock first and
decide only on what they read after the lock (`sql/postgres/`); nothing here decides. Any thread may call any
verb. The schema must have been migrated (``pg_migrate.migrate``); it is checked by the first verb that reaches
the server, so that a store may be made before the server is up.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from noeta.backends.stores import pg_claims, pg_commits, pg_rows
from noeta.backends.stores.pg_connection import Row, Settings, Value, parse_dsn
from noeta.backends.stores.pg_errors import Failure, Sent, sort_failure
from noeta.backends.stores.pg_migrate import STORE
from noeta.backends.stores.pg_pool import NoneFree, Pool
from noeta.backends.stores.pg_startup import StartupCheck
from noeta.backends.stores.pg_wire import bigint_array, text_array
from noeta.backends.stores.sql_loader import load_statements
from noeta.core import limits, lower
from noeta.core.errors import (
    BadInput,
    CommitUnknown,
    ContentNotFound,
    DuplicateTask,
    InvalidLease,
    NoetaError,
    StoreUnavailable,
    UnknownTask,
)
from noeta.core.ids import check_name, micros, sha256_bytes
from noeta.core.lower import LoweredItem, Write
from noeta.core.store import (
    Append,
    Appended,
    Claim,
    Claims,
    Commit,
    ContentRef,
    Created,
    Failed,
    LogPage,
    NewTask,
    Posted,
    Renewal,
    Resumed,
    Snapshot,
)
from noeta.core.task import FAIL_ATTEMPTS_MAX, FAIL_BACKOFF, TAKEOVER_BACKOFF, Status, TaskRow
from noeta.core.wake import ControlReceived, Item, WakeEvent

LISTS_BYTES_MAX: Final = limits.ANSWER_BYTES_MAX * 3 // 4
"""Bytes of ids a write verb answers before it stops early; the rest of the answer fits in what is left."""

RENEW_BATCH: Final = 200
"""Claims one renewal carries: 200 answers of 35 bytes stay below ``ANSWER_BYTES_MAX``."""

APPEND_BATCH: Final = 60
"""Members one ``append_many`` carries, for the same reason."""

RERUN_JITTER_SECONDS: Final = 0.01
"""Up to this long before a transaction that lost against another is run again."""

_texts = msgspec.json.Decoder(tuple[str, ...])

FAMILY_TRIES: Final = 20
"""How often a verb is sent anew because a child was born while it waited for the family's locks. Keeps: bounded."""


class PostgresStore:
    """Implements ``noeta.core.store.Store``.

    ``max_connections`` bounds the connections of the work; renewals have one more of their own, so that a lease
    is kept while the work waits. ``monotonic`` paces where claims look first (`pg_claims.py`). ``pooled``: behind a
    transaction pooler (docs/postgres.md). ``retries`` counts transactions run again after 40001 or 40P01.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "noeta",
        max_connections: int = 8,
        statement_timeout: float = 5.0,
        lock_timeout: float | None = None,
        connection_wait: float = 5.0,
        connect_timeout: int = 5,
        pooled: bool = False,
        allow_unsafe: bool = False,
        settings: Settings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_connections < 1:
            raise BadInput("max_connections", f"at least 1, found {max_connections}")
        self.schema = schema
        self.retries = 0
        self._settings = settings or Settings(
            statement_timeout_seconds=statement_timeout,
            lock_timeout_seconds=lock_timeout if lock_timeout is not None else statement_timeout * 0.8,
            connect_timeout_seconds=connect_timeout,
            pooled=pooled,
        )
        self._statements = load_statements(STORE, schema)
        parse_dsn(dsn)  # a typing error is told now, and not when the first verb connects
        self._work = Pool(dsn, self._settings, connections_max=max_connections, wait_seconds=connection_wait)
        self._renewals = Pool(dsn, self._settings, connections_max=1, wait_seconds=connection_wait)
        self._startup = StartupCheck(schema, self._settings, self._statements, allow_unsafe=allow_unsafe)
        self._bounds = pg_claims.ClaimBounds()
        self._monotonic = monotonic
        self._counting = threading.Lock()
        self._closed = False

    # -- birth ---------------------------------------------------------------------------------------------

    def create(self, task: NewTask) -> Created:
        new = lower.lower_task(task)
        row = self._write("create", new.id, new.queue, new.body, new.content_hash, new.ready_in)
        if pg_rows.text(row[0]) == "other":
            raise DuplicateTask("task_id", f"{new.id!r} exists with other content")
        self._bounds.note_queue(new.queue)
        return Created(new.id, pg_rows.text(row[0]) == "created")

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
        started = self._monotonic()
        search = self._bounds.search(queues, lease_seconds, started)
        row = self._write(
            "claim",
            worker,
            token,
            micros(lease_seconds),
            limit,
            text_array(search.queues),
            bigint_array(search.floors),
            search.everywhere,
            search.restart,
            search.probe,
            search.lapse_floor,
            bigint_array(TAKEOVER_BACKOFF),
            LISTS_BYTES_MAX,
        )
        answer = pg_rows.claims(row, worker, token)
        ended = self._monotonic()
        self._bounds.learn(
            search,
            floors=answer.floors,
            queues=answer.queues,
            probed=answer.probed,
            sweeps=bool(answer.claims.stale_requeued),
            store_now=answer.claims.now,
            took_seconds=ended - started,
            now=ended,
        )
        return answer.claims

    def renew(self, claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        lower.check_lease(lease_seconds)
        claims = (claims,) if isinstance(claims, Claim) else tuple(claims)
        renewals: list[Renewal] = []
        for start in range(0, len(claims), RENEW_BATCH):
            batch = claims[start : start + RENEW_BATCH]
            row = self._write(
                "renew",
                text_array([claim.task_id for claim in batch]),
                bigint_array([claim.epoch for claim in batch]),
                text_array([claim.token for claim in batch]),
                micros(lease_seconds),
                pool=self._renewals,
            )
            renewals += pg_rows.renewals(row, batch)
        return tuple(renewals)

    def release(self, claim: Claim) -> Status:
        row = self._write("release", claim.task_id, claim.epoch, claim.token)
        _check_fence(claim, row)
        return Status(pg_rows.text(row[0]))

    def resume(self, claim: Claim) -> Resumed:
        row = self._write("resume", claim.task_id, claim.epoch, claim.token)
        _check_fence(claim, row)
        return pg_rows.resumed(row)

    def fire_due_timers(self, *, limit: int = 100, now: float | None = None) -> tuple[str, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        if now is not None:
            lower.check_instant("now", now)  # checked like everywhere, then left to the database's clock
        return self._sweep(limit, lambda left: self._write("fire_due_timers", left, LISTS_BYTES_MAX))

    def requeue_stale(self, *, limit: int = 100) -> tuple[str, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        rests = bigint_array(TAKEOVER_BACKOFF)
        return self._sweep(limit, lambda left: self._write("requeue_stale", left, rests, LISTS_BYTES_MAX))

    def _sweep(self, limit: int, sweep: Callable[[int], Row]) -> tuple[str, ...]:
        """One round trip, and another only when the answer or the transaction would get too big."""
        ids: list[str] = []
        while True:
            row = sweep(min(limit - len(ids), limits.CLAIM_LIMIT_MAX))
            found = _texts.decode(row[0] or b"[]")
            ids += found
            if found:
                self._bounds.forget_floors()
            if not found or len(ids) >= limit or not pg_rows.boolean(row[1]):
                return tuple(ids)

    # -- the one commit ------------------------------------------------------------------------------------

    def append(self, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        write = lower.lower_commit(claim, expected_seq, commit)
        row = self._append(write)
        self._forget_floors_below(write.target.ready_at)
        return pg_commits.appended(claim, write, row)

    def append_many(self, appends: Sequence[Append]) -> tuple[Appended | NoetaError, ...]:
        writes = [(one.claim, lower.lower_commit(one.claim, one.expected_seq, one.commit)) for one in appends]
        if len({claim.task_id for claim, _ in writes}) != len(writes):
            raise BadInput("appends", "one commit a task in a batch")
        answers: list[Appended | NoetaError] = []
        # In order: what a member posts may be read by a later one. Those that carry more than entries go alone.
        for carries_more, run in itertools.groupby(writes, key=lambda one: pg_commits.carries_more(one[1])):
            members = list(run)
            size = 1 if carries_more else APPEND_BATCH
            for start in range(0, len(members), size):
                answers += self._append_together(members[start : start + size])
        return tuple(answers)

    def _append_together(self, members: Sequence[tuple[Claim, Write]]) -> list[Appended | NoetaError]:
        if len(members) > 1:
            try:
                rows = self._run("append_many", pg_commits.bind_many([write for _, write in members]), writes=True)
            except CommitUnknown as error:
                return [error for _ in members]
            except NoetaError:
                pass  # nothing was written: one by one, so that only the member at fault fails
            else:
                for _, write in members:
                    self._forget_floors_below(write.target.ready_at)
                return [_landed_or_error(*member, row) for member, row in zip(members, rows, strict=True)]
        return [self._append_alone(claim, write) for claim, write in members]

    def _append(self, write: Write) -> Row:
        values = pg_commits.bind_append(write)
        if pg_commits.concerns_family(write):
            return self._write_family("append_family", *values, *pg_commits.bind_family(write))
        return self._write("append", *values)

    def _append_alone(self, claim: Claim, write: Write) -> Appended | NoetaError:
        try:
            row = self._append(write)
        except NoetaError as error:
            return error
        self._forget_floors_below(write.target.ready_at)
        return _landed_or_error(claim, write, row)

    def fail(
        self, claim: Claim, reason: str, *, retryable: bool = True, attempts_max: int = FAIL_ATTEMPTS_MAX
    ) -> Failed:
        lower.check_count("attempts_max", attempts_max, 1_000)
        ending, result = lower.lower_failure(claim, reason)
        row = self._write_family(
            "fail",
            claim.task_id,
            claim.epoch,
            claim.token,
            retryable,
            attempts_max,
            bigint_array(FAIL_BACKOFF),
            ending,
            *((None,) * 5 if result is None else _item_values(result)),
            lower.CASCADE_KEY,
            lower.CASCADE_BODY,
        )
        _check_fence(claim, row)
        return Failed(Status(pg_rows.text(row[0])), pg_rows.integer(row[2]), pg_rows.integer(row[3]))

    def _forget_floors_below(self, ready_at: int | None) -> None:
        if ready_at is not None:
            self._bounds.forget_floors()  # a timer may lie in the past

    # -- the inbox -----------------------------------------------------------------------------------------

    def post(self, task_id: str, item: Item, key: str | None = None) -> Posted:
        new = lower.lower_item(task_id, item, key)
        if isinstance(item, ControlReceived) and lower.is_cancel(item):
            return self._cancel(new, item)
        return pg_rows.posted(task_id, self._write("post", *_item_values(new)))

    def _cancel(self, item: LoweredItem, order: ControlReceived) -> Posted:
        """One round trip for a root. A child's parent and group are told by a first one that writes nothing, because
        what the parent is told is computed here."""
        parent = group = None
        while True:
            cancel = lower.lower_cancel(item, order, parent, group)
            row = self._write_family(
                "cancel",
                item.task_id,
                item.key,
                item.body,
                cancel.ending,
                *((None,) * 5 if cancel.result is None else _item_values(cancel.result)),
                lower.CASCADE_KEY,
                lower.CASCADE_BODY,
            )
            if pg_rows.text(row[0]) != "kin":
                return pg_rows.cancelled(item.task_id, row)
            parent, group = pg_rows.optional_text(row[5]), pg_rows.optional_text(row[6])

    def wake(self, task_id: str, event: WakeEvent) -> Posted:
        new = lower.lower_wake(task_id, event)
        if new.key is not None:
            return pg_rows.posted(task_id, self._write("post", *_item_values(new)))
        return pg_rows.posted(task_id, self._write("wake", new.task_id, new.body, new.wake_key, new.group_key))

    # -- reads ---------------------------------------------------------------------------------------------

    def read(self, task_id: str, after: int = 0, *, limit: int = 1_000, inbox_after: int = 0) -> LogPage:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        lower.check_number("after", after)
        lower.check_number("inbox_after", inbox_after)
        rows = self._ask("read", _known(task_id), after, limit, limits.COMMIT_PARTS_MAX, inbox_after)
        if not rows:
            raise UnknownTask(task_id)
        return pg_rows.log_page(rows, after)

    def task(self, task_id: str) -> TaskRow:
        rows = self._ask("task", _known(task_id))
        if not rows:
            raise UnknownTask(task_id)
        return pg_rows.task_row(rows[0])

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
        values: list[Value] = [after, limit, None if status is None else status.value, queue]
        rows = self._ask("tasks", *values) if token is None else self._ask("tasks_of_token", *values, token)
        return tuple(map(pg_rows.task_row, rows))

    # -- contents and snapshots ----------------------------------------------------------------------------

    def put_content(self, body: bytes, media_type: str = "application/octet-stream") -> ContentRef:
        hash = sha256_bytes(lower.check_content(body))
        check_name("media_type", media_type)
        self._write("put_content", hash, media_type, body)
        return ContentRef(hash, len(body), media_type)

    def get_content(self, hash: str) -> bytes:
        rows = self._ask("get_content", hash) if pg_rows.is_storable(hash) else []
        if not rows:
            raise ContentNotFound(f"no content has the hash {hash!r}")
        return pg_rows.blob(rows[0][0])

    def put_snapshot(self, task_id: str, snapshot: Snapshot) -> None:
        lower.check_content(snapshot.body)
        check_name("snapshot.version", snapshot.version)
        lower.check_number("snapshot.seq", snapshot.seq)
        row = self._write("put_snapshot", _known(task_id), snapshot.version, snapshot.seq, snapshot.body)
        if pg_rows.text(row[0]) == "unknown":
            raise UnknownTask(task_id)

    def get_snapshot(self, task_id: str, version: str) -> Snapshot | None:
        rows = self._ask("get_snapshot", _known(task_id), version if pg_rows.is_storable(version) else "")
        if not rows:
            raise UnknownTask(task_id)
        seq, body = rows[0]
        return None if seq is None else Snapshot(pg_rows.integer(seq), version, pg_rows.blob(body))

    def close(self) -> None:
        self._closed = True
        self._work.close()
        self._renewals.close()

    # -- one round trip ------------------------------------------------------------------------------------

    def _write(self, name: str, *values: Value, pool: Pool | None = None) -> Row:
        rows = self._run(name, values, writes=True, pool=pool)
        assert len(rows) == 1, (name, len(rows))
        return rows[0]

    def _write_family(self, name: str, *values: Value) -> Row:
        """A verb that locks a task's children, too: sent anew if one was born while it waited for them.

        Raises:
            StoreUnavailable: children are born faster than they can be locked; nothing was written.
        """
        for _ in range(FAMILY_TRIES):
            row = self._write(name, *values)
            if row[0] != b"again":
                return row
        raise StoreUnavailable(f"{name}: new children of the task came {FAMILY_TRIES} times while it was locked")

    def _ask(self, name: str, *values: Value) -> list[Row]:
        return self._run(name, values, writes=False)

    def _run(self, name: str, values: Sequence[Value], *, writes: bool, pool: Pool | None = None) -> list[Row]:
        """One statement by name; again after a conflict between transactions, until the call's deadline.

        Raises:
            StoreUnavailable, CommitUnknown, Conflict, BadInput: as the table in `pg_errors.py` sorts it.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        pool = pool or self._work
        deadline = time.monotonic() + self._settings.deadline_seconds
        while True:
            role = ""
            try:
                with pool.lend() as connection:
                    role = connection.role
                    self._startup.check(connection)
                    return connection.run(name, self._statements[name], values)
            except Failure as failure:
                if (failure.is_rerun or failure.is_lost_statement) and time.monotonic() < deadline:
                    with self._counting:
                        self.retries += 1
                    time.sleep(random.uniform(0, RERUN_JITTER_SECONDS))
                    continue
                if failure.sent is not Sent.ANSWERED and not isinstance(failure, NoneFree):
                    self._work.distrust_idle()
                    self._renewals.distrust_idle()
                raise sort_failure(failure, writes=writes, role=role, schema=self.schema) from failure


def _check_fence(claim: Claim, row: Row) -> None:
    """Keeps: one-writer. The store's answer to a claim that does not hold."""
    match pg_rows.text(row[0]):
        case "unknown":
            raise UnknownTask(claim.task_id)
        case "lost":
            raise InvalidLease(pg_commits.lost_text(claim, pg_rows.text(row[1])))


def _item_values(item: LoweredItem) -> tuple[Value, ...]:
    return item.task_id, item.key, item.body, item.wake_key, item.group_key


def _known(task_id: str) -> str:
    """An id that no task can have is an unknown one; asking would fail on its characters."""
    if not pg_rows.is_storable(task_id):
        raise UnknownTask(task_id)
    return task_id


def _landed_or_error(claim: Claim, write: Write, row: Row) -> Appended | NoetaError:
    try:
        return pg_commits.appended(claim, write, row)
    except NoetaError as error:
        return error
