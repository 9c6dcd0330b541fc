"""What a model is told of an event that ended a wait, in words: the same on every worker. Keeps: same-request."""

from __future__ import annotations

from noeta.core import codec, texts
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    timed_out,
)


def told(event: Item) -> tuple[str, bool]:
    """The words, and whether they are bad news: a child that did not complete (of a group: none did), or a wait whose
    time is over. A null payload is none of these."""
    if timed_out(event):
        return texts.WAIT_TIMED_OUT, True
    match event:
        case SubtaskCompleted():
            return told_of_child(event.subtask_id, event.status, event.output), event.status != "completed"
        case SubtaskGroupCompleted(results=results):
            lines = [told_of_child(one.subtask_id, one.status, one.output) for one in results]
            return "\n\n".join(lines), all(one.status != "completed" for one in results)
        case HumanResponseReceived(text=text):
            return text, False
        case ExternalEvent(payload=payload):
            return codec.canonical(payload).decode(), False
        case TimerFired():
            return texts.TIMER_FIRED, False
        case ControlReceived():
            raise AssertionError(f"an order is obeyed and not told: {event}")


def told_of_child(child: str, status: str, output: str) -> str:
    """What is told of a sub-agent that ended."""
    return texts.CHILD_ENDED.format(child=child, status=status, output=output)
