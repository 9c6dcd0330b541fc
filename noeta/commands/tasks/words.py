"""Instants, texts, waits and the state of a row, as a person reads them on one line.

What tasks and models say is data: it is quoted and cut, and characters that a terminal would obey are escaped.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final, assert_never

from noeta.core.events import Event, TaskCancelled, TaskCompleted, TaskFailed
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.task import Status, TaskRow
from noeta.core.wake import (
    NEXT_GOAL,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)

TEXT_CHARS_MAX: Final = 120
"""What a line shows of a text; `--json` has all of it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(at: int, *, digits: int = 0) -> str:
    """Microseconds since the epoch as a date and time in UTC, with so many digits (0, 3 or 6) of its second."""
    try:
        when = _EPOCH + timedelta(microseconds=at)
    except OverflowError:  # a tool's own timer may be set beyond what a calendar names
        return f"{at / MICROS_PER_SECOND:.0f} s from 1970"
    timespec = {0: "seconds", 3: "milliseconds", 6: "microseconds"}[digits]
    return when.replace(tzinfo=None).isoformat(" ", timespec) + "Z"


def name(value: str) -> str:
    """An id or a name: as it is, or quoted if a line could not hold it."""
    return value if value.isprintable() and " " not in value else quoted(value, most=len(value))


def quoted(text: str, *, most: int = TEXT_CHARS_MAX) -> str:
    """A text in quotes, on one line, cut with a word about its length."""
    shown = json.dumps(text[:most], ensure_ascii=False)
    shown = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in shown)
    return shown if len(text) <= most else f"{shown}… ({len(text):,} characters)"


def one_line(error: Exception) -> str:
    """What an error says, without the line breaks that drivers put into it."""
    return " ".join(str(error).split())


def value(given: Any, *, most: int = TEXT_CHARS_MAX) -> str:
    """A JSON value on one line, cut."""
    shown = json.dumps(given, ensure_ascii=False)
    shown = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in shown)
    return shown if len(shown) <= most else f"{shown[:most]}… ({len(shown):,} characters)"


def wait(condition: WakeCondition, missing: int | None = None) -> str:
    """What a task waits for. ``missing``: how many members of a group have not ended, if that is known."""
    match condition:
        case HumanResponseReceived(handle=handle):
            what = "a message" if handle == NEXT_GOAL else f"an answer to {name(handle)}"
            return what + _limit(condition.timeout_at)
        case ExternalEvent(event_kind=kind):
            return f"the event {name(kind)}" + _limit(condition.timeout_at)
        case TimerFired(fire_at=at):
            return f"a timer, at {instant(micros(at))}"
        case SubtaskCompleted(subtask_id=child):
            return f"the task {name(child)}"
        case SubtaskGroupCompleted(group_id=group, members=members):
            some = f"{members}" if missing is None else f"{missing} of {members}"
            return f"{some} tasks of group {name(group or '')}"
        case _:
            assert_never(condition)


def _limit(timeout_at: float | None) -> str:
    return "" if timeout_at is None else f", until {instant(micros(timeout_at))}"


def standing(row: TaskRow, last: Event | None, now: int) -> str:
    """What a task waits for, who runs it, or how it ended.

    ``last``: its newest entry's event, if it could be read. ``now``: this machine's clock, in microseconds; of
    importance for the words alone: a delay that is over, a lease that has run out.
    """
    match row.status:
        case Status.PENDING:
            rests = row.ready_at is not None and row.ready_at > now
            return f"a worker, not before {instant(row.ready_at or 0)}" if rests else "a worker"
        case Status.RUNNING:
            worker = name(row.worker or "")
            if row.lease_until is not None and row.lease_until <= now:
                return f"another worker: the lease of {worker} ended {instant(row.lease_until)}"
            return f"nothing: {worker} runs it"
        case Status.SUSPENDED:
            assert row.wake_on is not None, row
            kept = f" (kept by {name(row.worker or '')})" if row.kept else ""
            return wait(row.wake_on, row.wake_missing) + kept
        case Status.TERMINAL:
            return "nothing: it " + ended(last)
        case _:
            assert_never(row.status)


def ended(last: Event | None) -> str:
    """How a task ended, by its terminal entry."""
    match last:
        case TaskCompleted():
            return "completed"
        case TaskFailed(reason=reason, message=message):
            return f"failed: {name(reason)}" + (f": {quoted(message)}" if message else "")
        case TaskCancelled(reason=reason):
            return f"was cancelled: {quoted(reason)}" if reason else "was cancelled"
        case _:
            return "has ended"
