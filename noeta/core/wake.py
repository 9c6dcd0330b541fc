"""What a task can wait for, and the one rule that says what satisfies it.

The condition a task stores and the event that satisfies it are the same dataclass; only the identity fields
decide a match, payloads ride along. ``matches_wake`` is the single implementation. Stores do not match: they
compare the text keys below, and a property test holds the keys to ``matches_wake``.

A wait for a person or an outside event may have a time limit, ``timeout_at``. When it is over the store puts the
stored condition itself into the inbox, byte for byte, as it does with a timer: an event that carries ``timeout_at``
says that nothing came, so that a null payload and a timeout are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

NEXT_GOAL: Final = "next-goal"
"""The handle an interactive task waits on between two turns."""

BACKGROUND: Final = "background"
"""The group of children that nobody waits for. Derived group ids hold a ``.``, so this is never one of them."""


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
    """A person said something. Matches on ``handle``: a question's, or ``NEXT_GOAL`` for a plain message.

    ``sender``: the task that speaks, if it is no person: a sub-agent in the background. ``timeout_at``: how long a
    condition waits, in seconds since the epoch.
    """

    handle: str = NEXT_GOAL
    text: str = ""
    sender: str = ""
    timeout_at: float | None = None


class TimerFired(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A timer is due. Matches when it fired at or after the instant asked for (seconds since the epoch).

    Only the store makes this event, from the stored condition, byte for byte. Keeps: timers-once.
    """

    fire_at: float


class ExternalEvent(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Something happened outside. Matches on ``event_kind``. ``timeout_at``: how long a condition waits."""

    event_kind: str
    payload: Any = None
    timeout_at: float | None = None


class ControlReceived(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """An order from outside that satisfies every wait: ``cancel`` ends the task, ``close`` stops its turn."""

    action: str = "cancel"
    reason: str = ""


WakeCondition = SubtaskCompleted | SubtaskGroupCompleted | HumanResponseReceived | TimerFired | ExternalEvent
WakeEvent = WakeCondition
Item = WakeEvent | ControlReceived
"""Anything that reaches a task from outside. Each is taken by exactly one append. Keeps: taken-once."""

CANCEL: Final = "cancel"
CLOSE: Final = "close"

ANY_WAIT: Final = "control"
"""The key of items that satisfy every wait."""


def matches_wake(condition: WakeCondition | None, event: Item) -> bool:
    """Whether this event satisfies this condition. Other variants, or no condition: never.

    Controls satisfy every wait. The end of a wait's time satisfies that very wait alone.
    """
    match condition, event:
        case None, _:
            return False
        case _, ControlReceived():
            return True
        case _ if timed_out(event):
            return condition == event
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


def timed_out(event: Item) -> bool:
    """Whether this event says that a wait's time is over and nothing came."""
    return isinstance(event, HumanResponseReceived | ExternalEvent) and event.timeout_at is not None


def due_at(condition: WakeCondition) -> float | None:
    """When the store ends this wait by itself, in seconds since the epoch; None: never."""
    match condition:
        case TimerFired(fire_at=at):
            return at
        case HumanResponseReceived(timeout_at=limit) | ExternalEvent(timeout_at=limit):
            return limit
        case _:
            return None


def find_wake(condition: WakeCondition, unread: Sequence[tuple[int, Item]]) -> tuple[tuple[int, ...], Item] | None:
    """The numbers of the unread items that end this wait, and the event they make; None if nothing does.

    An order to end or to stop goes before all else. A group's event is built from its members' items in birth order:
    the same bytes each time. Keeps: wake-once.
    """
    for number, item in unread:
        if isinstance(item, ControlReceived):
            return (number,), item
    if isinstance(condition, SubtaskGroupCompleted):
        first: dict[str, tuple[int, SubtaskCompleted]] = {}
        for number, item in unread:
            if isinstance(item, SubtaskCompleted) and item.group_id == condition.group_id:
                first.setdefault(item.subtask_id, (number, item))  # a member counts once, however often it is told
        if len(first) >= condition.members:
            members = [first[child] for child in sorted(first, key=_birth)]
            event = SubtaskGroupCompleted(condition.group_id, condition.members, tuple(item for _, item in members))
            return tuple(number for number, _ in members), event
    # What came goes before the end of the time for it, which may have been noted while nobody looked.
    for number, item in sorted(unread, key=lambda one: (timed_out(one[1]), one[0])):
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
    told = {item.subtask_id for item in results if isinstance(item, SubtaskCompleted) and item_group_key(item) == key}
    return max(0, condition.members - len(told))
