"""A lowered commit to the parameters of ``append_1`` and ``append_many_1``, and their answers back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noeta.backends.stores import pg_rows
from noeta.backends.stores.pg_connection import Row, Value
from noeta.backends.stores.pg_wire import bigint_array, bool_array, bytea_array, text_array
from noeta.core.errors import Conflict, DuplicateTask, InvalidLease, UnknownTask
from noeta.core.lower import CASCADE_BODY, CASCADE_KEY, Target, Write
from noeta.core.store import Appended, Claim
from noeta.core.task import Shape, Status

_places = msgspec.json.Decoder(list[int])


def bind_append(write: Write) -> list[Value]:
    """The parameters of the statement ``append``, in order."""
    contents = [content for _, content in write.contents]
    return [
        write.task_id,
        write.epoch,
        write.token,
        write.expected_seq,
        text_array(write.bodies),
        write.ending,
        bigint_array([number for number, _ in write.takes]),
        bigint_array([place for _, place in write.takes]),
        write.inbox_seen,
        *_target(write.target),
        *_target(write.target_moved),
        write.resets_failures,
        text_array([post.task_id for post in write.posts]),
        text_array([post.key for post in write.posts]),
        text_array([post.body for post in write.posts]),
        text_array([post.wake_key for post in write.posts]),
        text_array([post.group_key for post in write.posts]),
        bool_array([post.with_ending for post in write.posts]),
        text_array([child.id for child in write.children]),
        text_array([child.queue for child in write.children]),
        text_array([child.body for child in write.children]),
        text_array([child.content_hash for child in write.children]),
        bigint_array([child.ready_in for child in write.children]),
        text_array([child.group for child in write.children]),
        text_array([hash for hash, _ in write.contents]),
        text_array([content.media_type for content in contents]),
        bytea_array([content.body for content in contents]),
    ]


def concerns_family(write: Write) -> bool:
    """Whether it ends the task, or bears children for a task above it: most commits do neither."""
    return write.ending is not None or any(child.adopted for child in write.children)


def bind_family(write: Write) -> list[Value]:
    """What the statement ``append_family`` takes besides: the children's parents, and the order for those who live."""
    return [text_array([child.parent for child in write.children]), CASCADE_KEY, CASCADE_BODY]


def carries_more(write: Write) -> bool:
    """Whether it touches more than its own task and inbox, so that it cannot share a round trip."""
    return bool(write.posts or write.children or write.contents or write.ending is not None)


def bind_many(writes: Sequence[Write]) -> list[Value]:
    """The parameters of the statement ``append_many``, in order."""
    takes = [take for write in writes for take in write.takes]
    return [
        text_array([write.task_id for write in writes]),
        bigint_array([write.epoch for write in writes]),
        text_array([write.token for write in writes]),
        bigint_array([write.expected_seq for write in writes]),
        text_array([body for write in writes for body in write.bodies]),
        bigint_array([len(write.bodies) for write in writes]),
        text_array([write.ending for write in writes]),
        bigint_array([number for number, _ in takes]),
        bigint_array([place for _, place in takes]),
        bigint_array([len(write.takes) for write in writes]),
        bigint_array([write.inbox_seen for write in writes]),
        *_targets([write.target for write in writes]),
        *_targets([write.target_moved for write in writes]),
        bool_array([write.resets_failures for write in writes]),
    ]


def appended(claim: Claim, write: Write, row: Row) -> Appended:
    """What a commit did.

    Raises:
        UnknownTask, InvalidLease, Conflict, DuplicateTask: nothing was written.
    """
    outcome, detail, last_seq, at, status, moved, inbox_seq, refused = row
    match pg_rows.text(outcome):
        case "unknown":
            raise UnknownTask(claim.task_id)
        case "lost":
            raise InvalidLease(lost_text(claim, pg_rows.text(detail)))
        case "moved_log":
            raise Conflict(f"task {claim.task_id!r} ends at seq {pg_rows.text(detail)}, expected {write.expected_seq}")
        case "taken":
            raise Conflict(f"item {pg_rows.text(detail)} of task {claim.task_id!r} is not unread")
        case "other_child":
            raise DuplicateTask("child.id", f"{pg_rows.text(detail)!r} exists with other content")
    return Appended(
        first_seq=write.expected_seq + 1,
        last_seq=pg_rows.integer(last_seq),
        at=pg_rows.integer(at),
        status=Status(pg_rows.text(status)),
        moved=pg_rows.boolean(moved),
        inbox_seq=pg_rows.integer(inbox_seq),
        refused=tuple(write.posts[place].key or "" for place in _places.decode(refused or b"[]")),
    )


def lost_text(claim: Claim, row: str) -> str:
    """Expected and found, for a claim that does not hold."""
    return f"claim {claim.lease_id} of task {claim.task_id!r} does not hold or its lease is over: the row is {row}"


def _target(target: Target) -> tuple[Value, ...]:
    return (
        _status(target),
        target.shape is Shape.KEPT,
        target.clears_owner,
        target.ready_at,
        target.ready_in,
        target.wake_on_body,
        target.wake_key,
        target.wake_missing,
    )


def _targets(targets: Sequence[Target]) -> tuple[Value, ...]:
    return (
        text_array([_status(target) for target in targets]),
        bool_array([target.shape is Shape.KEPT for target in targets]),
        bool_array([target.clears_owner for target in targets]),
        bigint_array([target.ready_at for target in targets]),
        bigint_array([target.ready_in for target in targets]),
        text_array([target.wake_on_body for target in targets]),
        text_array([target.wake_key for target in targets]),
        bigint_array([target.wake_missing for target in targets]),
    )


def _status(target: Target) -> str:
    return Status.SUSPENDED.value if target.shape is Shape.KEPT else target.shape.value
