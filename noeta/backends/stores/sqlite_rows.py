"""Rows of the database to the frozen values of the contract, and back. No rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noeta.core import codec, limits
from noeta.core.errors import UnknownTask
from noeta.core.store import LogPage, UnreadItem
from noeta.core.task import Status, TaskRow, claimable_at
from noeta.core.wake import WakeCondition

Row = Sequence[Any]
WAKE_ON = 9
"""Where the condition stands in the columns of a task."""


def task_row(columns: Row) -> TaskRow:
    """A row as readers see it."""
    body = columns[WAKE_ON]
    return _row(columns, None if body is None else codec.decode_condition(body))


def locked_row(columns: Row) -> TaskRow:
    """A row as a write verb sees it: without its condition, which no verb decides by. A wait for something that only a
    newer version knows must not stop the verbs of this one."""
    return _row(columns, None)


def task_values(row: TaskRow) -> dict[str, Any]:
    """The parameters of ``add_task`` and ``put_task``."""
    return {
        "id": row.id,
        "queue": row.queue,
        "status": row.status.value,
        "kept": int(row.kept),
        "epoch": row.epoch,
        "worker": row.worker,
        "token": row.token,
        "lease_until": row.lease_until,
        "ready_at": row.ready_at,
        "wake_on": None if row.wake_on is None else codec.encode("wake_on", row.wake_on),
        "wake_key": row.wake_key,
        "parent": row.parent,
        "group": row.group,
        "created_at": row.created_at,
        "due_at": claimable_at(row),
        **count_values(row),
    }


def count_values(row: TaskRow) -> dict[str, Any]:
    """The parameters of ``put_counts``."""
    return {
        "id": row.id,
        "wake_missing": row.wake_missing,
        "inbox_seq": row.inbox_seq,
        "last_seq": row.last_seq,
        "takeovers": row.takeovers,
        "fail_attempts": row.fail_attempts,
    }


def log_page(task: Row, entries: Sequence[Row], unread: Sequence[Row], after: int) -> LogPage:
    """One answer of ``read``. ``unread``: one item more than a page if there are more."""
    row = task_row(task)
    found = tuple(codec.decode_entry(*columns) for columns in entries)
    items = tuple(
        UnreadItem(number, key, codec.decode_item(body), body, at)
        for number, key, body, at in unread[: limits.COMMIT_PARTS_MAX]
    )
    return LogPage(
        found,
        more=row.last_seq > after + len(found),
        unread=items,
        inbox_seen=items[-1].number if len(unread) > len(items) else row.inbox_seq,
        row=row,
    )


def is_storable(value: str) -> bool:
    """Whether SQLite can be asked for this text at all."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def known(task_id: str) -> str:
    """An id that no task can have is an unknown one; asking would fail on its characters.

    Raises:
        UnknownTask
    """
    if not is_storable(task_id):
        raise UnknownTask(task_id)
    return task_id


def _row(columns: Row, wake_on: WakeCondition | None) -> TaskRow:
    (
        id,
        queue,
        status,
        kept,
        epoch,
        worker,
        token,
        lease_until,
        ready_at,
        _,
        wake_key,
        wake_missing,
        inbox_seq,
        last_seq,
        takeovers,
        fail_attempts,
        parent,
        group,
        created_at,
    ) = columns
    return TaskRow(
        id=id,
        queue=queue,
        status=Status(status),
        kept=bool(kept),
        epoch=epoch,
        worker=worker,
        token=token,
        lease_until=lease_until,
        ready_at=ready_at,
        wake_on=wake_on,
        wake_key=wake_key,
        wake_missing=wake_missing,
        inbox_seq=inbox_seq,
        last_seq=last_seq,
        takeovers=takeovers,
        fail_attempts=fail_attempts,
        parent=parent,
        group=group,
        created_at=created_at,
    )
