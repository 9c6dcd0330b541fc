"""Items of an inbox as the log names them: which number, what it was, and who sent it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from invariants.evidence import Sent, TaskEvidence
from noeta.core.events import Event, MessageTaken, TaskWoken
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    timed_out,
)


def items_of(event: Event) -> Iterator[tuple[int, Item]]:
    """The items that this entry takes, each with its number; a group's wake takes its members' results."""
    match event:
        case MessageTaken(number=number, message=item):
            yield number, item
        case TaskWoken(numbers=numbers, event=SubtaskGroupCompleted(results=results)):
            yield from zip(numbers, results, strict=False)
        case TaskWoken(numbers=numbers, event=item):
            yield from ((number, item) for number in numbers[:1])
        case _:
            return


def is_due_item(item: Item) -> bool:
    """Whether the store itself put it there, because a timer or a wait's time was due."""
    return isinstance(item, TimerFired) or timed_out(item)


def sender(item: Item) -> str:
    """Where an item comes from: the word under which it is counted."""
    match item:
        case ControlReceived():
            return "orders"
        case SubtaskCompleted() | SubtaskGroupCompleted():
            return "results"
        case ExternalEvent() if not timed_out(item):
            return "events"
        case HumanResponseReceived(sender=sender) if sender:
            return "words of tasks"
        case HumanResponseReceived(handle=handle) if not timed_out(item):
            return "messages" if handle == NEXT_GOAL else "answers"
        case _:
            return "timers"


def posted(task: TaskEvidence) -> Mapping[int, Sent]:
    """What clients were told is in the inbox, by number, where the answer names the bytes that were stored."""
    return {one.number: one for one in task.sent if one.number is not None and one.item and one.outcome == "stored"}
