"""What waits, items and rows say, in words: one wording for everything that a person reads of a task."""

from __future__ import annotations

from typing import assert_never

from noeta.core import texts
from noeta.core.events import Event, TaskCancelled, TaskCompleted, TaskFailed, TaskSuspended
from noeta.core.ids import micros
from noeta.core.task import Status, TaskRow
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    timed_out,
)
from noeta.story.text import instant, name, quoted, value


def wait(condition: WakeCondition, missing: int | None = None) -> str:
    """What a task waits for. ``missing``: how many members of a group have not ended, if that is known."""
    match condition:
        case HumanResponseReceived(handle=handle, timeout_at=limit) if handle == NEXT_GOAL:
            # Between two turns nothing but the cron table sets a limit.
            return "a message" + ("" if limit is None else f", or its cron table, at {instant(micros(limit))}")
        case HumanResponseReceived(handle=handle):
            return f"an answer to {name(handle)}" + _limit(condition.timeout_at)
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
            return wait(row.wake_on, row.wake_missing) + _rests(row, last, now)
        case Status.TERMINAL:
            return "nothing: it " + ended(last)
        case _:
            assert_never(row.status)


def _rests(row: TaskRow, last: Event | None, now: int) -> str:
    """What is odd about its rest, if something is."""
    if row.kept and row.lease_until is not None and row.lease_until <= now:
        return f" (the lease of {name(row.worker or '')} ended {instant(row.lease_until)}: any worker may take it)"
    if row.kept:
        return f" (kept by {name(row.worker or '')})"
    return " (parked)" if is_parked(row, last) else ""


def is_parked(row: TaskRow, last: Event | None) -> bool:
    """Whether it rests until a person says how it goes on, since the outcome of a call is unknown. ``last``: see
    ``standing``."""
    return row.status is Status.SUSPENDED and isinstance(last, TaskSuspended) and last.reason == texts.ATTEMPT_PARKED


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


def item(what: Item) -> str:
    """What reached a task from outside."""
    match what:
        case HumanResponseReceived(handle=handle, text=text, sender=sender):
            if timed_out(what):
                return "its cron table" if handle == NEXT_GOAL else f"no answer to {name(handle)} came in time"
            if handle != NEXT_GOAL:
                return f"the answer {quoted(text)} to {name(handle)}"
            return f"the message {quoted(text)}" + (f" of task {name(sender)}" if sender else "")
        case ExternalEvent(event_kind=kind, payload=payload):
            if timed_out(what):
                return f"no event {name(kind)} came in time"
            return f"the event {name(kind)}" + ("" if payload is None else f" with {value(payload)}")
        case TimerFired():
            return "its timer"
        case SubtaskCompleted(subtask_id=child, status=status, output=output):
            return f"task {name(child)} {name(status)}: {quoted(output)}"
        case SubtaskGroupCompleted(group_id=group, results=results):
            members = ", ".join(f"{name(one.subtask_id)} {name(one.status)}" for one in results)
            return f"group {name(group or '')} is complete: {members}"
        case ControlReceived(action=action, reason=reason):
            return f"an order to {name(action)}" + (f": {quoted(reason)}" if reason else "")
        case _:
            assert_never(what)
