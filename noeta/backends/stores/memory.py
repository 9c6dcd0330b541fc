"""The memory store: the reference. Small and obvious, one lock, the rules of ``core`` applied as written.

It keeps bytes like every other store (bodies are encoded text), so that what cannot be stored elsewhere cannot
be stored here. For tests and the simulator: it dies with its process.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from noeta.backends.stores.memory_rows import MemoryItem, MemoryTask
from noeta.core import codec, limits, lower, rules
from noeta.core.errors import (
    BadInput,
    Conflict,
    ContentNotFound,
    NoetaError,
    StoreUnavailable,
    UnknownTask,
)
from noeta.core.ids import check_name, micros, sha256_bytes, timer_key
from noeta.core.lower import LoweredItem, LoweredTask, Write
from noeta.core.rules import holds as _holds
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
    UnreadItem,
    claim_from_row,
)
from noeta.core.task import (
    FAIL_ATTEMPTS_MAX,
    Cause,
    Given,
    Shape,
    Status,
    TaskRow,
    claimable_at,
    step,
)
from noeta.core.wake import ANY_WAIT, ControlReceived, Item, WakeEvent


class MemoryStore:
    """Implements ``noeta.core.store.Store``. ``clock`` gives seconds since the epoch (default: the wall clock).

    ``sweeps_when_full``: a claim that found all it asked for looks at lapsed leases, too, from time to time. When it
    does so is a store's own affair, so whoever compares stores call by call turns it off here, and follows the other.
    """

    def __init__(self, clock: Callable[[], float] | None = None, *, sweeps_when_full: bool = True) -> None:
        self._clock = clock or time.time
        self._sweeps_when_full = sweeps_when_full
        self._lock = threading.RLock()
        self._tasks: dict[str, MemoryTask] = {}
        self._contents: dict[str, tuple[bytes, str]] = {}
        self._swept_at: dict[frozenset[str] | None, int] = {}
        self._closed = False

    # -- birth ---------------------------------------------------------------------------------------------

    def create(self, task: NewTask) -> Created:
        lowered = lower.lower_task(task)
        with self._lock:
            now = self._now()
            return Created(lowered.id, self._create(lowered, "task_id", now))

    def _create(self, lowered: LoweredTask, field: str, now: int) -> bool:
        known = self._tasks.get(lowered.id)
        if known is not None:
            rules.check_same(field, lowered, known.content_hash)
            return False
        self._tasks[lowered.id] = MemoryTask(rules.born(lowered, now), lowered.content_hash, [(0, now, lowered.body)])
        return True

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
        claims: list[Claim] = []
        fired: list[str] = []
        requeued: list[str] = []
        with self._lock:
            now = self._now()
            for task in self._due(queues, now):
                if len(claims) == limit:
                    break
                cause = task.row.shape
                if cause is Shape.SUSPENDED:
                    self._store_timer(task, now)
                    fired.append(task.row.id)
                given = Given(worker=worker, token=token, lease_until=now + micros(lease_seconds))
                task.row = step(task.row, Cause.CLAIM, given)
                claims.append(claim_from_row(task.row, cause.value))
                if cause in (Shape.RUNNING, Shape.KEPT):
                    requeued.append(task.row.id)
            full = len(claims) == limit
            may = not full or self._sweeps_when_full
            swept_at = self._swept_at.get(rules.swept_queues(queues))
            if may and rules.must_sweep(full=full, swept_at=swept_at, now=now, lease=micros(lease_seconds)):
                self._swept_at[rules.swept_queues(queues)] = now
                requeued += self._sweep(queues, now, limits.CLAIM_LIMIT_MAX)
        return Claims(tuple(claims), tuple(fired), tuple(requeued), now)

    def _due(self, queues: Sequence[str] | None, now: int) -> list[MemoryTask]:
        due = [
            (at, task.row.shape in (Shape.RUNNING, Shape.KEPT), task.row.id, task)
            for task in self._tasks.values()
            if (queues is None or task.row.queue in queues) and (at := claimable_at(task.row)) is not None and at <= now
        ]
        # Due tasks first, lapsed leases after them, each the longest waiting first.
        return [task for *_, task in sorted(due, key=lambda d: (d[1], d[0], d[2]))]

    def renew(self, claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        lower.check_lease(lease_seconds)
        claims = (claims,) if isinstance(claims, Claim) else claims
        with self._lock:
            now = self._now()
            return tuple(self._renew(claim, lease_seconds, now) for claim in claims)

    def _renew(self, claim: Claim, lease_seconds: float, now: int) -> Renewal:
        task = self._tasks.get(claim.task_id)
        if task is None or not _holds(task.row, claim, now):
            return Renewal(claim.task_id, "lost", now=now)
        ordered = any(item.unread and item.wake_key == ANY_WAIT for item in task.items)
        task.row, renewal = rules.renewed(task.row, micros(lease_seconds), now, ordered=ordered)
        return renewal

    def release(self, claim: Claim) -> Status:
        with self._lock:
            now = self._now()
            task = self._fenced(claim, now)
            task.row = step(task.row, Cause.RELEASE, Given(ready_at=now))
            return task.row.status

    def resume(self, claim: Claim) -> Resumed:
        with self._lock:
            now = self._now()
            task = self._fenced(claim, now)
            if rules.kept_timer_due(task.row, now):
                self._store_timer(task, now)
            row = task.row = rules.resumed(task.row)
            return Resumed(now, row.inbox_seq, row.last_seq, timer_key(row.id, row.last_seq) in task.keys)

    # -- the one commit ------------------------------------------------------------------------------------

    def append(self, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        write = lower.lower_commit(claim, expected_seq, commit)
        with self._lock:
            return self._apply(claim, write, self._now())

    def append_many(self, appends: Sequence[Append]) -> tuple[Appended | NoetaError, ...]:
        writes = [(one.claim, lower.lower_commit(one.claim, one.expected_seq, one.commit)) for one in appends]
        if len({claim.task_id for claim, _ in writes}) != len(writes):
            raise BadInput("appends", "one commit a task in a batch")
        answers: list[Appended | NoetaError] = []
        with self._lock:
            now = self._now()
            for claim, write in writes:
                try:
                    answers.append(self._apply(claim, write, now))
                except NoetaError as error:
                    answers.append(error)
        return tuple(answers)

    def _apply(self, claim: Claim, write: Write, now: int) -> Appended:
        task = self._fenced(claim, now)
        row = task.row
        if row.last_seq != write.expected_seq:
            raise Conflict(f"task {row.id!r} ends at seq {row.last_seq}, expected {write.expected_seq}")
        moved = write.inbox_seen is not None and row.inbox_seq > write.inbox_seen
        what = rules.landing(write, moved=moved)
        by_number = {item.number: item for item in task.items if item.unread}
        for number, _ in write.takes:
            if number not in by_number:
                raise Conflict(f"item {number} of task {row.id!r} is not unread")
        rules.check_children(write.children, self._content_hash)

        first_seq = row.last_seq + 1
        task.entries += [(row.epoch, now, body) for body in what.bodies]
        for number, index in write.takes:
            by_number[number].taken_seq = first_seq + index
            by_number[number].body = None  # the entry holds it now; the key stays
        task.row = rules.landed(row, write, what, now)
        last_seq = task.row.last_seq
        if what.ends:
            self._stamp_unread(task, last_seq)
        born = [child for child in write.children if self._create(child, "child.id", now)]
        for hash, content in write.contents:
            self._contents.setdefault(hash, (content.body, content.media_type))
        refused = [
            post.key or ""
            for post in write.posts
            if (what.ends or not post.with_ending) and self._post(post, now) in (None, "ended")
        ]
        for child in born:
            if child.adopted and self._has_ended(child.parent):  # Keeps: never-stuck
                self._order_to_end(child.id, now)
        if what.ends:
            self._order_children(row.id, now)
        return Appended(first_seq, last_seq, now, task.row.status, moved, row.inbox_seq, tuple(refused))

    def fail(
        self, claim: Claim, reason: str, *, retryable: bool = True, attempts_max: int = FAIL_ATTEMPTS_MAX
    ) -> Failed:
        lower.check_count("attempts_max", attempts_max, 1_000)
        ending, result = lower.lower_failure(claim, reason)
        with self._lock:
            now = self._now()
            task = self._fenced(claim, now)
            task.row = rules.failed(task.row, retryable=retryable, attempts_max=attempts_max, now=now)
            if task.row.status is Status.TERMINAL:
                task.entries.append((task.row.epoch, now, ending))
                self._stamp_unread(task, task.row.last_seq)
                self._order_children(task.row.id, now)
                if result is not None:
                    self._post(result, now)
            return Failed(task.row.status, task.row.fail_attempts, task.row.last_seq)

    # -- the inbox -----------------------------------------------------------------------------------------

    def post(self, task_id: str, item: Item, key: str | None = None) -> Posted:
        lowered = lower.lower_item(task_id, item, key)
        if isinstance(item, ControlReceived) and lower.is_cancel(item):
            with self._lock:
                return self._cancel(lowered, item)
        return self._posted(lowered, derive=False)

    def _cancel(self, item: LoweredItem, order: ControlReceived) -> Posted:
        task = self._task(item.task_id)
        now = self._now()
        if (item.key is not None and item.key in task.keys) or not rules.ends_at_once(task.row, now):
            return self._posted(item, derive=False)
        cancel = lower.lower_cancel(item, order, task.row.parent, task.row.group)
        row = rules.cancelled(task.row)
        self._put_item(task, item, row.inbox_seq, now)
        task.row = row
        task.entries.append((row.epoch, now, cancel.ending))
        self._stamp_unread(task, row.last_seq)
        self._order_children(row.id, now)
        if cancel.result is not None:
            self._post(cancel.result, now)
        return Posted("cancelled", row.inbox_seq, made_ready=False, epoch=row.epoch, last_seq=row.last_seq)

    def wake(self, task_id: str, event: WakeEvent) -> Posted:
        item = lower.lower_wake(task_id, event)
        return self._posted(item, derive=item.key is None)

    def _posted(self, item: LoweredItem, *, derive: bool) -> Posted:
        with self._lock:
            now = self._now()
            task = self._tasks.get(item.task_id)
            if task is None:
                raise UnknownTask(item.task_id)
            if derive:
                unread = [one for one in task.items if one.unread and one.wake_key == item.wake_key]
                key = rules.derived_key(task.row, item, [rules.UnreadKey(one.key, one.body) for one in unread])
                if key is None:
                    return Posted("repeat", None, made_ready=False)
                item = replace(item, key=key)
            before = task.row.status
            outcome = self._post(item, now)
            assert outcome is not None
            stored = outcome == "stored"
            made_ready = stored and before is Status.SUSPENDED and task.row.status is Status.PENDING
            number = task.row.inbox_seq if stored else task.keys.get(item.key or "")
            return Posted(outcome, number, made_ready)

    def _post(self, item: LoweredItem, now: int) -> str | None:
        """``stored``, ``repeat`` or ``ended``; None for a task that does not exist."""
        task = self._tasks.get(item.task_id)
        if task is None:
            return None
        if item.key is not None and item.key in task.keys:
            return "repeat"
        row = task.row
        if row.status is Status.TERMINAL:
            return "ended"
        self._put_item(task, item, row.inbox_seq + 1, now)
        task.row = rules.received(row, item, now)
        return "stored"

    @staticmethod
    def _put_item(task: MemoryTask, item: LoweredItem, number: int, now: int) -> None:
        task.items.append(MemoryItem(number, item.key, item.body, item.wake_key, now))
        if item.key is not None:
            task.keys[item.key] = number

    def _order_children(self, parent: str, now: int) -> None:
        """Every unfinished child hears that its parent has ended. Keeps: children-once."""
        for child in [task.row.id for task in self._tasks.values() if task.row.parent == parent]:
            self._order_to_end(child, now)

    def _order_to_end(self, child: str, now: int) -> None:
        task = self._tasks[child]
        if task.row.status is Status.TERMINAL or lower.CASCADE_KEY in task.keys:
            return
        order = LoweredItem(child, lower.CASCADE_KEY, lower.CASCADE_BODY, ANY_WAIT, None)
        self._put_item(task, order, task.row.inbox_seq + 1, now)
        task.row = rules.ordered_to_end(task.row, order, now)

    def _has_ended(self, task_id: str | None) -> bool:
        task = self._tasks.get(task_id or "")
        return task is None or task.row.status is Status.TERMINAL

    def _store_timer(self, task: MemoryTask, now: int) -> None:
        row = task.row
        assert row.wake_on is not None
        key = timer_key(row.id, row.last_seq)
        if key in task.keys:
            return
        number = row.inbox_seq + 1
        task.items.append(MemoryItem(number, key, codec.encode("wake_on", row.wake_on), "timer", now))
        task.keys[key] = number
        task.row = replace(row, inbox_seq=number)

    @staticmethod
    def _stamp_unread(task: MemoryTask, seq: int) -> None:
        for item in task.items:
            if item.unread:
                item.unread_at = seq

    # -- sweeps --------------------------------------------------------------------------------------------

    def fire_due_timers(self, *, limit: int = 100, now: float | None = None) -> tuple[str, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        if now is not None:
            lower.check_instant("now", now)
        with self._lock:
            at = self._now() if now is None else micros(now)
            due = [
                task
                for task in self._tasks.values()
                if task.row.shape is Shape.SUSPENDED and task.row.ready_at is not None and task.row.ready_at <= at
            ]
            due.sort(key=lambda task: (task.row.ready_at or 0, task.row.id))
            for task in due[:limit]:
                self._store_timer(task, at)
                task.row = step(task.row, Cause.FIRE, Given(ready_at=min(at, self._now())))
            return tuple(task.row.id for task in due[:limit])

    def requeue_stale(self, *, limit: int = 100) -> tuple[str, ...]:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        with self._lock:
            return tuple(self._sweep(None, self._now(), limit))

    def _sweep(self, queues: Sequence[str] | None, now: int, limit: int) -> list[str]:
        lapsed = [
            task
            for task in self._tasks.values()
            if (queues is None or task.row.queue in queues)
            and task.row.lease_until is not None
            and task.row.lease_until <= now
        ]
        lapsed.sort(key=lambda task: (task.row.lease_until or 0, task.row.id))
        for task in lapsed[:limit]:
            task.row = rules.swept(task.row)
        return [task.row.id for task in lapsed[:limit]]

    # -- reads ---------------------------------------------------------------------------------------------

    def read(self, task_id: str, after: int = 0, *, limit: int = 1_000, inbox_after: int = 0) -> LogPage:
        lower.check_count("limit", limit, limits.PAGE_ENTRIES_MAX)
        lower.check_number("after", after)
        lower.check_number("inbox_after", inbox_after)
        with self._lock:
            task = self._task(task_id)
            row = task.row
            stored = task.entries[after : after + limit]
            waiting = [item for item in task.items if item.unread and item.number > inbox_after]
            unread = waiting[: limits.COMMIT_PARTS_MAX]
        entries = tuple(codec.decode_entry(after + i, *columns) for i, columns in enumerate(stored, start=1))
        items = tuple(
            UnreadItem(item.number, item.key, codec.decode_item(item.body or ""), item.body or "", item.at)
            for item in unread
        )
        seen = row.inbox_seq if len(waiting) == len(items) else items[-1].number
        return LogPage(entries, row.last_seq > after + len(entries), items, seen, row)

    def task(self, task_id: str) -> TaskRow:
        with self._lock:
            return self._task(task_id).row

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
        with self._lock:
            self._now()
            rows = [
                task.row
                for task_id, task in sorted(self._tasks.items())
                if task_id > after
                and status in (None, task.row.status)
                and queue in (None, task.row.queue)
                and token in (None, task.row.token)
            ]
        return tuple(rows[:limit])

    # -- contents and snapshots ----------------------------------------------------------------------------

    def put_content(self, body: bytes, media_type: str = "application/octet-stream") -> ContentRef:
        hash = sha256_bytes(lower.check_content(body))
        check_name("media_type", media_type)
        with self._lock:
            self._now()
            self._contents.setdefault(hash, (body, media_type))
        return ContentRef(hash, len(body), media_type)

    def get_content(self, hash: str) -> bytes:
        with self._lock:
            self._now()
            if hash not in self._contents:
                raise ContentNotFound(f"no content has the hash {hash!r}")
            return self._contents[hash][0]

    def put_snapshot(self, task_id: str, snapshot: Snapshot) -> None:
        lower.check_content(snapshot.body)
        check_name("snapshot.version", snapshot.version)
        lower.check_number("snapshot.seq", snapshot.seq)
        with self._lock:
            task = self._task(task_id)
            known = task.snapshots.get(snapshot.version)
            if known is None or known.seq <= snapshot.seq:
                task.snapshots[snapshot.version] = snapshot

    def get_snapshot(self, task_id: str, version: str) -> Snapshot | None:
        with self._lock:
            return self._task(task_id).snapshots.get(version)

    def close(self) -> None:
        self._closed = True

    # -- the fence -----------------------------------------------------------------------------------------

    def _now(self) -> int:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return micros(self._clock())

    def _task(self, task_id: str) -> MemoryTask:
        self._now()
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownTask(task_id)
        return task

    def _content_hash(self, task_id: str) -> str | None:
        known = self._tasks.get(task_id)
        return None if known is None else known.content_hash

    def _fenced(self, claim: Claim, now: int) -> MemoryTask:
        """Keeps: one-writer. Sound because the caller holds the lock until it has written."""
        task = self._task(claim.task_id)
        if not _holds(task.row, claim, now):
            raise rules.lost(task.row, claim)
        return task
