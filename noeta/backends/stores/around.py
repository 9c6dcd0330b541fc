"""A store around a store: every verb goes through one method, so that a wrapper is written once.

Subclasses override ``around``: faults before and after a call, crash points, records of what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from noeta.core.errors import NoetaError
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
    Store,
)
from noeta.core.task import FAIL_ATTEMPTS_MAX, Status, TaskRow
from noeta.core.wake import Item, WakeEvent

T = TypeVar("T")

WRITE_VERBS: Final = (
    "create",
    "claim",
    "renew",
    "release",
    "resume",
    "append",
    "append_many",
    "post",
    "wake",
    "fire_due_timers",
    "requeue_stale",
    "fail",
    "put_content",
    "put_snapshot",
)
READ_VERBS: Final = ("read", "task", "tasks", "get_content", "get_snapshot")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb. ``task_id`` is None where the verb names none (or many)."""

    verb: str
    task_id: str | None
    args: Mapping[str, Any]

    @property
    def writes(self) -> bool:
        """Whether the verb may change the store, so that a lost answer leaves its outcome unknown."""
        return self.verb in WRITE_VERBS


class AroundStore:
    """Implements ``noeta.core.store.Store`` by asking ``inner`` through ``around``."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def around(self, call: Call, do: Callable[[], T]) -> T:
        """Called for every verb; ``do`` asks the inner store."""
        return do()

    def create(self, task: NewTask) -> Created:
        return self.around(Call("create", task.id, {"task": task}), lambda: self.inner.create(task))

    def claim(
        self,
        worker: str,
        queues: Sequence[str] | None,
        lease_seconds: float,
        *,
        token: str | None = None,
        limit: int = 1,
    ) -> Claims:
        return self.around(
            Call("claim", None, {"worker": worker, "token": token, "limit": limit}),
            lambda: self.inner.claim(worker, queues, lease_seconds, token=token, limit=limit),
        )

    def renew(self, claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        many = (claims,) if isinstance(claims, Claim) else tuple(claims)
        return self.around(Call("renew", None, {"claims": many}), lambda: self.inner.renew(many, lease_seconds))

    def release(self, claim: Claim) -> Status:
        return self.around(Call("release", claim.task_id, {"claim": claim}), lambda: self.inner.release(claim))

    def resume(self, claim: Claim) -> Resumed:
        return self.around(Call("resume", claim.task_id, {"claim": claim}), lambda: self.inner.resume(claim))

    def append(self, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        return self.around(
            Call("append", claim.task_id, {"claim": claim, "expected_seq": expected_seq, "commit": commit}),
            lambda: self.inner.append(claim, expected_seq, commit),
        )

    def append_many(self, appends: Sequence[Append]) -> tuple[Appended | NoetaError, ...]:
        return self.around(Call("append_many", None, {"appends": appends}), lambda: self.inner.append_many(appends))

    def read(self, task_id: str, after: int = 0, *, limit: int = 1_000, inbox_after: int = 0) -> LogPage:
        return self.around(
            Call("read", task_id, {"after": after}),
            lambda: self.inner.read(task_id, after, limit=limit, inbox_after=inbox_after),
        )

    def post(self, task_id: str, item: Item, key: str | None = None) -> Posted:
        return self.around(
            Call("post", task_id, {"item": item, "key": key}), lambda: self.inner.post(task_id, item, key)
        )

    def wake(self, task_id: str, event: WakeEvent) -> Posted:
        return self.around(Call("wake", task_id, {"event": event}), lambda: self.inner.wake(task_id, event))

    def fire_due_timers(self, *, limit: int = 100, now: float | None = None) -> tuple[str, ...]:
        return self.around(Call("fire_due_timers", None, {}), lambda: self.inner.fire_due_timers(limit=limit, now=now))

    def requeue_stale(self, *, limit: int = 100) -> tuple[str, ...]:
        return self.around(Call("requeue_stale", None, {}), lambda: self.inner.requeue_stale(limit=limit))

    def fail(
        self, claim: Claim, reason: str, *, retryable: bool = True, attempts_max: int = FAIL_ATTEMPTS_MAX
    ) -> Failed:
        return self.around(
            Call("fail", claim.task_id, {"claim": claim, "reason": reason}),
            lambda: self.inner.fail(claim, reason, retryable=retryable, attempts_max=attempts_max),
        )

    def task(self, task_id: str) -> TaskRow:
        return self.around(Call("task", task_id, {}), lambda: self.inner.task(task_id))

    def tasks(
        self,
        *,
        after: str = "",
        limit: int = 200,
        status: Status | None = None,
        queue: str | None = None,
        token: str | None = None,
    ) -> tuple[TaskRow, ...]:
        return self.around(
            Call("tasks", None, {"token": token}),
            lambda: self.inner.tasks(after=after, limit=limit, status=status, queue=queue, token=token),
        )

    def put_content(self, body: bytes, media_type: str = "application/octet-stream") -> ContentRef:
        return self.around(Call("put_content", None, {}), lambda: self.inner.put_content(body, media_type))

    def get_content(self, hash: str) -> bytes:
        return self.around(Call("get_content", None, {"hash": hash}), lambda: self.inner.get_content(hash))

    def put_snapshot(self, task_id: str, snapshot: Snapshot) -> None:
        return self.around(
            Call("put_snapshot", task_id, {"seq": snapshot.seq}),
            lambda: self.inner.put_snapshot(task_id, snapshot),
        )

    def get_snapshot(self, task_id: str, version: str) -> Snapshot | None:
        return self.around(
            Call("get_snapshot", task_id, {"version": version}),
            lambda: self.inner.get_snapshot(task_id, version),
        )

    def close(self) -> None:
        self.inner.close()
