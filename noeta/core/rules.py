"""What a store decides on the rows it has read under its lock: the row before, the row after.

For the stores that run Python (memory, SQLite). Each function is one decision of the contract, applied through
the table of transitions; locking, reading and writing are the store's. Instants and spans in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from noeta.core.errors import DuplicateTask, InvalidLease
from noeta.core.lower import LoweredItem, LoweredTask, Target, Write
from noeta.core.store import Claim, Renewal
from noeta.core.task import Cause, Given, Shape, Status, TaskRow, fail_backoff, step, takeover_backoff
from noeta.core.wake import ANY_WAIT


@dataclass(frozen=True, slots=True)
class Landing:
    """What of a commit lands: its bodies, where the row goes, whether the terminal entry is among them."""

    bodies: tuple[str, ...]
    target: Target
    ends: bool


@dataclass(frozen=True, slots=True)
class UnreadKey:
    """What the derivation of a key must know of an unread item."""

    key: str | None
    body: str | None


def born(new: LoweredTask, now: int) -> TaskRow:
    """The row of a new task, with its first entry written."""
    return TaskRow(
        id=new.id,
        queue=new.queue,
        status=Status.PENDING,
        kept=False,
        epoch=0,
        worker=None,
        token=None,
        lease_until=None,
        ready_at=now + new.ready_in,
        wake_on=None,
        wake_key=None,
        wake_missing=0,
        inbox_seq=0,
        last_seq=1,
        takeovers=0,
        fail_attempts=0,
        parent=new.parent,
        group=new.group,
        created_at=now,
    )


def check_same(field: str, new: LoweredTask, known_hash: str) -> None:
    """A repeat is harmless; another task under the same id is refused.

    Raises:
        DuplicateTask
    """
    if known_hash != new.content_hash:
        raise DuplicateTask(field, f"{new.id!r} exists with other content")


def check_children(children: Sequence[LoweredTask], known_hash: Callable[[str], str | None]) -> None:
    """Refuse a whole commit, before any write, for one child whose id is another task's, or another child's.

    Raises:
        DuplicateTask
    """
    hashes: dict[str, str] = {}
    for child in children:
        known = known_hash(child.id) or hashes.setdefault(child.id, child.content_hash)
        check_same("child.id", child, known)


def holds(row: TaskRow, claim: Claim, now: int) -> bool:
    """Whether this claim may write. Keeps: one-writer. Sound only while the caller holds the row's lock."""
    return (
        row.epoch == claim.epoch and row.token == claim.token and row.lease_until is not None and row.lease_until > now
    )


def lost(row: TaskRow, claim: Claim) -> InvalidLease:
    """Expected and found, for a claim that does not hold."""
    return InvalidLease(
        f"claim {claim.lease_id} of task {row.id!r} does not hold: the row is {row.shape.value} at epoch "
        f"{row.epoch}" + (", its lease is over" if row.token == claim.token else "")
    )


def renewed(row: TaskRow, lease: int, now: int, *, ordered: bool) -> tuple[TaskRow, Renewal]:
    """The lease of a claim that holds, from now on. ``ordered``: an order waits in its inbox, unread."""
    until = now + lease
    after = step(row, Cause.RENEW, Given(worker=row.worker, token=row.token, lease_until=until))
    return after, Renewal(row.id, "held", until, row.inbox_seq, kept_timer_due(row, now), now, ordered)


def kept_timer_due(row: TaskRow, now: int) -> bool:
    """Whether the instant has come at which a kept task's wait ends by itself: its owner hears of it with a renewal,
    and nobody but its owner makes an item of it. Keeps: timers-once."""
    return row.kept and row.ready_at is not None and row.ready_at <= now


def resumed(row: TaskRow) -> TaskRow:
    """A kept task that its owner goes on with, under the same claim and lease; what its timer left is in the inbox by
    then. One that runs already stays as it is: a repeat is harmless."""
    return step(row, Cause.RESUME, Given())


def must_sweep(*, full: bool, swept_at: int | None, now: int, lease: int) -> bool:
    """Whether a claim call looks at lapsed leases besides what it took: always when it found less than it asked for,
    and otherwise once a third of a lease, or a constant backlog would starve them. Microseconds. Keeps: never-stuck."""
    return not full or swept_at is None or now - swept_at >= lease // 3


def swept_queues(queues: Sequence[str] | None) -> frozenset[str] | None:
    """What a store remembers its last sweep by: one of other queues says nothing about these."""
    return None if queues is None else frozenset(queues)


def swept(row: TaskRow) -> TaskRow:
    """A lapsed task put back; it rests from the end of its lease. Keeps: bounded."""
    assert row.lease_until is not None, row
    ready_at = row.lease_until + takeover_backoff(row.takeovers + 1)
    return step(row, Cause.SWEEP, Given(ready_at=ready_at))


def landing(write: Write, *, moved: bool) -> Landing:
    """What lands, given whether the inbox moved past what the decision saw. Keeps: wake-once."""
    target = write.target_moved if moved else write.target
    if write.ending is not None and target.shape is Shape.TERMINAL:
        return Landing((*write.bodies, write.ending), target, ends=True)
    return Landing(write.bodies, target, ends=False)


def landed(row: TaskRow, write: Write, what: Landing, now: int) -> TaskRow:
    """The row after a commit. A new entry resets the takeovers, a turn that ended well the failures."""
    target = what.target
    given = Given(
        ready_at=now + target.ready_in if target.ready_in is not None else target.ready_at,
        wake_on=target.wake_on,
        wake_key=target.wake_key,
        wake_missing=target.wake_missing,
    )
    return replace(
        step(row, target.cause, given),
        last_seq=row.last_seq + len(what.bodies),
        takeovers=0 if what.bodies else row.takeovers,
        fail_attempts=0 if write.resets_failures else row.fail_attempts,
    )


def failed(row: TaskRow, *, retryable: bool, attempts_max: int, now: int) -> TaskRow:
    """The row after an error: it rests, or, at the bound, it has ended with one more entry. Keeps: bounded."""
    attempts = row.fail_attempts + 1
    if retryable and attempts < attempts_max:
        return step(row, Cause.FAIL, Given(ready_at=now + fail_backoff(attempts)))
    ended = step(row, Cause.END, Given())
    return replace(ended, last_seq=row.last_seq + 1, fail_attempts=attempts, takeovers=0)


def derived_key(row: TaskRow, item: LoweredItem, unread: Collection[UnreadKey]) -> str | None:
    """The key of a wake event that has none; None: it is a repeat of an unread one. Keeps: wake-once.

    ``unread``: the unread items of the same wake key.
    """
    if any(one.body == item.body for one in unread):
        return None
    # Two marks: a seq of the log must not be taken for a number of the inbox.
    key = f"{item.wake_key}@{row.last_seq}"
    if row.status is not Status.SUSPENDED or any(one.key == key for one in unread):
        key = f"{item.wake_key}#{row.inbox_seq + 1}"
    return key


def received(row: TaskRow, item: LoweredItem, now: int) -> TaskRow:
    """The row after an item was stored in its inbox; pending if it ends the wait. A kept wait stays with its owner,
    who hears of the item. Keeps: wake-once, never-stuck."""
    row = replace(row, inbox_seq=row.inbox_seq + 1)
    if row.shape is not Shape.SUSPENDED:
        return row
    if item.wake_key != ANY_WAIT and row.wake_key not in (item.wake_key, item.group_key):
        return row
    missing = 0 if item.wake_key == ANY_WAIT else row.wake_missing - 1
    row = replace(row, wake_missing=missing)
    return step(row, Cause.POST, Given(ready_at=now)) if missing <= 0 else row


def ends_at_once(row: TaskRow, now: int) -> bool:
    """Whether nobody runs the task, so that a cancel ends it in the transaction that posts it."""
    match row.shape:
        case Shape.PENDING | Shape.SUSPENDED:
            return True
        case Shape.RUNNING | Shape.KEPT:
            return row.lease_until is not None and row.lease_until <= now
        case Shape.TERMINAL:
            return False


def cancelled(row: TaskRow) -> TaskRow:
    """A task that a cancel ended while nobody ran it, its order in the inbox and its terminal entry in the log.
    Keeps: terminal-is-final, epochs-rise."""
    ended = step(row, Cause.CANCEL, Given())
    return replace(ended, inbox_seq=row.inbox_seq + 1, last_seq=row.last_seq + 1, takeovers=0)


def ordered_to_end(row: TaskRow, item: LoweredItem, now: int) -> TaskRow:
    """An unfinished child whose parent has ended: the order is in its inbox, and it does not rest before it hears."""
    row = received(row, item, now)
    if row.shape is Shape.PENDING and row.ready_at is not None and row.ready_at > now:
        row = step(row, Cause.ORDER, Given(ready_at=now))
    return row
