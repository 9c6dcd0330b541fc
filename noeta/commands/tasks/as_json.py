"""Tasks as JSON, for machines: instants as ISO 8601 in UTC, events and conditions as they stand in the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from noeta.commands.tasks.looking import Question, Seen, left_unread
from noeta.core import codec
from noeta.core.events import Entry, Event
from noeta.core.store import Posted, UnreadItem
from noeta.core.task import TaskRow
from noeta.story.head import Unknown, unknown_calls
from noeta.story.text import instant
from noeta.story.words import is_parked, standing


def row_json(row: TaskRow, last: Event | None, since: int | None, now: int) -> dict[str, Any]:
    """A row. ``since``: when its newest entry was written. The claim's token is a worker's, and stays out."""
    return {
        "id": row.id,
        "status": row.status.value,
        "waits_for": standing(row, last, now),
        "wake_on": None if row.wake_on is None else json.loads(codec.encode("wake_on", row.wake_on)),
        "parked": is_parked(row, last),
        "since": _at(since),
        "epoch": row.epoch,
        "parent": row.parent,
        "group": row.group,
        "queue": row.queue,
        "worker": row.worker,
        "lease_until": _at(row.lease_until),
        "ready_at": _at(row.ready_at),
        "kept": row.kept,
        "last_seq": row.last_seq,
        "inbox_seq": row.inbox_seq,
        "takeovers": row.takeovers,
        "fail_attempts": row.fail_attempts,
        "created_at": _at(row.created_at),
    }


def seen_json(seen: Seen, asked: list[Question], children: list[dict[str, Any]], now: int) -> dict[str, Any]:
    """A task as a whole."""
    return {
        "task": row_json(seen.row, seen.last, seen.entries[-1].at, now),
        "log": [_entry(entry) for entry in seen.entries],
        "unread": [_unread(item) for item in seen.unread],
        "unread_more": seen.unread_more,
        "left_unread": left_unread(seen),
        "questions": [question_json(one) for one in asked],
        "unknown_calls": unknown_json(unknown_calls(seen.entries) if is_parked(seen.row, seen.last) else []),
        "children": children,
    }


def question_json(one: Question) -> dict[str, Any]:
    """An open question. ``approval``: a gate asks it, before the call is started with this input."""
    return {
        "handle": one.handle,
        "call": one.call_id,
        "question": one.text,
        "approval": one.approval is not None,
        "tool": one.tool,
        "input": one.input,
    }


def unknown_json(calls: Sequence[Unknown]) -> list[dict[str, Any]]:
    """The calls of a parked task whose outcome is unknown."""
    return [{"call": one.call, "tool": one.tool} for one in calls]


def posted_json(task_id: str, posted: Posted) -> dict[str, Any]:
    """What became of a write. ``epoch`` and ``last_seq`` are those of a task that it ended."""
    return {
        "task": task_id,
        "outcome": posted.outcome,
        "number": posted.number,
        "made_ready": posted.made_ready,
        "epoch": posted.epoch,
        "last_seq": posted.last_seq,
    }


def dumps(value: dict[str, Any]) -> str:
    """The text that is printed."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _entry(entry: Entry) -> dict[str, Any]:
    return {"seq": entry.seq, "epoch": entry.epoch, "at": _at(entry.at), "event": json.loads(entry.body)}


def _unread(item: UnreadItem) -> dict[str, Any]:
    return {"number": item.number, "key": item.key, "at": _at(item.at), "item": json.loads(item.body)}


def _at(micros: int | None) -> str | None:
    return None if micros is None else instant(micros, digits=6).replace(" ", "T", 1)
