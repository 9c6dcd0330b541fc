"""A story for machines: events as they stand in the log, instants as ISO 8601 in UTC, spans in seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, assert_never

from noeta.core import codec
from noeta.core.ids import MICROS_PER_SECOND
from noeta.story.head import Head, status
from noeta.story.parts import Between, Claimed, LeftOut, Line, Part, Struck
from noeta.story.text import instant


def story_json(head: Head, parts: Sequence[Part], now: int) -> dict[str, Any]:
    """The whole story."""
    row = head.row
    return {
        "task": head.task,
        "status": None if row is None else row.status.value,
        "stands": status(head, now),
        "epoch": None if row is None else row.epoch,
        "worker": None if row is None else row.worker,
        "parent": None if row is None else row.parent,
        "group": None if row is None else row.group,
        "children": [{"id": one.id, "stands": one.stands or None} for one in head.kids],
        "unread": [{"number": one.number, "item": json.loads(one.body)} for one in head.unread],
        "story": [_part(part) for part in parts],
    }


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Claimed(epoch=epoch, words=words):
            return {"part": "claim", "epoch": epoch, "words": words}
        case Line(entry=entry, since=since, words=words):
            return {
                "part": "entry",
                "seq": entry.seq,
                "epoch": entry.epoch,
                "at": _at(entry.at),
                "since": _seconds(since),
                "words": words,
                "event": json.loads(codec.encode("event", entry.event)),
            }
        case Between(silent=silent, words=words, why=why):
            return {"part": "between", "silent": _seconds(silent), "words": words, "why": list(why)}
        case Struck(at=at, since=since, words=words):
            return {"part": "struck", "at": _at(at), "since": _seconds(since), "words": words}
        case LeftOut(lines=lines):
            return {"part": "left_out", "lines": lines}
        case _:
            assert_never(part)


def _at(at: int) -> str:
    return instant(at, digits=6).replace(" ", "T", 1)


def _seconds(span: int) -> float:
    return span / MICROS_PER_SECOND
