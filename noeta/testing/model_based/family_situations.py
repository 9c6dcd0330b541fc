"""What happened in a step between tasks that are related, and through orders to end or to stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from noeta.core.lower import CASCADE_KEY
from noeta.core.store import Child, LogPage, Posted
from noeta.core.task import Shape, Status
from noeta.core.wake import BACKGROUND, CANCEL, ControlReceived, HumanResponseReceived
from noeta.testing.model_based.calls import Call

OF_FAMILIES: Final = (
    "cancel of a pending task",
    "cancel of a suspended task",
    "cancel of a lapsed task",
    "cancel of a task that somebody runs",
    "cancel of a child: its parent heard",
    "cancel repeated",
    "order to stop",
    "renewal with an order",
    "child ordered to end: pending",
    "child ordered to end: suspended",
    "child ordered to end: running",
    "child ordered to end: kept",
    "order cut a rest short",
    "child born in the background",
    "child of the root born by another",
    "child born under a root that had ended",
    "result of a child in the background",
)


def of_an_order(step: Call, answer: Posted, before: Mapping[str, LogPage]) -> Iterator[str]:
    """Of a post of a control."""
    task, item, *_ = step.arguments
    if step.verb != "post" or not isinstance(item, ControlReceived):
        return
    row = before[str(task)].row
    if item.action != CANCEL:
        yield "order to stop"
    elif answer.outcome == "cancelled":
        lapsed = row.shape in (Shape.RUNNING, Shape.KEPT)
        yield f"cancel of a {'lapsed' if lapsed else row.shape.value} task"
        if row.parent is not None and before[row.parent].row.status is not Status.TERMINAL:
            yield "cancel of a child: its parent heard"
    elif answer.outcome == "repeat":
        yield "cancel repeated"
    elif answer.outcome == "stored":
        yield "cancel of a task that somebody runs"


def of_births(children: Sequence[Child], before: Mapping[str, LogPage]) -> Iterator[str]:
    """Of the children of a commit that landed."""
    for child in children:
        if child.id in before or child.group != BACKGROUND or child.parent is None:
            continue
        yield "child born in the background"
        if child.depth > 1:
            yield "child of the root born by another"
        if before[child.parent].row.status is Status.TERMINAL:
            yield "child born under a root that had ended"


def of_relatives(before: Mapping[str, LogPage], after: Mapping[str, LogPage]) -> Iterator[str]:
    """What other tasks heard of an end."""
    for id, page in after.items():
        was = before.get(id)
        if was is None or page.row.inbox_seq == was.row.inbox_seq:
            continue
        known = {item.number for item in was.unread}
        for item in page.unread:
            if item.number in known:
                continue
            if item.key == CASCADE_KEY:
                yield f"child ordered to end: {was.row.shape.value}"
                if was.row.shape is Shape.PENDING and page.row.ready_at != was.row.ready_at:
                    yield "order cut a rest short"
            elif isinstance(item.item, HumanResponseReceived) and item.item.sender:
                yield "result of a child in the background"
