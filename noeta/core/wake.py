"""What a task can wait for, and the one rule that says what satisfies it.

The condition a task stores and the event that satisfies it are the same dataclass; only the identity fields
decide a match, payloads ride along. ``matches_wake`` is the single implementation. Stores do not match: they
compare the text keys below, and a property test holds the keys to ``matches_wake``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

NEXT_GOAL: Final = "next-goal"
"""The handle an interactive task waits on between two turns."""


class SubtaskCompleted(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A child ended. Matches on ``subtask_id``; the rest is the result."""

    subtask_id: str
    status: str = "completed"
    output: str = ""
    group_id: str | None = None


class SubtaskGroupCompleted(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Every member of a group ended. Matches on ``group_id``; built by the claimer from the member items."""

    group_id: str
    members: int = 0
    results: tuple[SubtaskCompleted, ...] = ()


class HumanResponseReceived(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A person said something. Matches on ``handle``: a question's, or ``NEXT_GOAL`` for a plain message."""

    handle: str = NEXT_GOAL
    text: str = ""


class TimerFired(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A timer is due. Matches when it fired at or after the instant asked for (seconds since the epoch).

    Only the store makes this event, from the stored condition, byte for byte. Keeps: timers-once.
    """

    fire_at: float


class ExternalEvent(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Something happened outside. Matches on ``event_kind``."""

    event_kind: str
    payload: Any = None


class ControlReceived(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """An order from outside that satisfies every wait: ``cancel`` ends the task."""

    action: str = "cancel"
    reason: str = ""


WakeCondition = SubtaskCompleted | SubtaskGroupCompleted | HumanResponseReceived | TimerFired | ExternalEvent
WakeEvent = WakeCondition
Item = WakeEvent | ControlReceived
"""Anything that reaches a task from outside. Each is taken by exactly one append. Keeps: taken-once."""

ANY_WAIT: Final = "control"
"""The key of items that satisfy every wait."""


def matches_wake(condition: WakeCondition | None, event: Item) -> bool:
    """Whether this event satisfies this condition. Other variants, or no condition: never.

    Controls satisfy every wait.
    """
    match condition, event:
        case None, _:
            return False
        case _, ControlReceived():
            return True
        case SubtaskCompleted(), SubtaskCompleted():
            return condition.subtask_id == event.subtask_id
        case SubtaskGroupCompleted(), SubtaskGroupCompleted():
            return condition.group_id == event.group_id
        case HumanResponseReceived(), HumanResponseReceived():
            return condition.handle == event.handle
        case TimerFired(), TimerFired():
            return event.fire_at >= condition.fire_at
        case ExternalEvent(), ExternalEvent():
            return condition.event_kind == event.event_kind
        case _:
            return False


def find_wake(condition: WakeCondition, unread: Sequence[tuple[int, Item]]) -> tuple[tuple[int, ...], Item] | None:
    """The numbers of the unread items that end this wait, and the event they make; None if nothing does.

    A group's event is built from its members' items in birth order: the same bytes each time. Keeps: wake-once.
    """
    if isinstance(condition, SubtaskGroupCompleted):
        members = [
            (item, number)
            for number, item in unread
            if isinstance(item, SubtaskCompleted) and item.group_id == condition.group_id
        ]
        if len(members) >= condition.members:
            members.sort(key=lambda member: _birth(member[0].subtask_id))
            results = tuple(result for result, _ in members)
            event = SubtaskGroupCompleted(condition.group_id, condition.members, results)
            return tuple(number for _, number in members), event
    for number, item in unread:
        if matches_wake(condition, item):
            return (number,), item
    return None


def _birth(child_id: str) -> tuple[str, int]:
    head, _, number = child_id.rpartition(".")
    return (head, int(number)) if number.isdigit() else (child_id, 0)


def condition_key(condition: WakeCondition) -> str:
    """What a suspended row's ``wake_key`` says: an inserted item with an equal key makes the row pending."""
    match condition:
        case SubtaskCompleted():
            return f"child:{condition.subtask_id}"
        case SubtaskGroupCompleted():
            return f"group:{condition.group_id}"
        case HumanResponseReceived():
            return f"human:{condition.handle}"
        case TimerFired():
            return "timer"
        case ExternalEvent():
            return f"event:{condition.event_kind}"


def item_key(item: Item) -> str:
    """The key under which an item can satisfy a waiting row."""
    return ANY_WAIT if isinstance(item, ControlReceived) else condition_key(item)


def item_group_key(item: Item) -> str | None:
    """The second key of a child's result: the group it was born into."""
    if isinstance(item, SubtaskCompleted) and item.group_id is not None:
        return f"group:{item.group_id}"
    return None


def members_missing(condition: WakeCondition, results: tuple[Item, ...]) -> int:
    """How many more member items a group condition needs, given those already known; 1 for other waits."""
    if not isinstance(condition, SubtaskGroupCompleted):
        return 1
    key = condition_key(condition)
    return max(0, condition.members - sum(item_group_key(item) == key for item in results))
