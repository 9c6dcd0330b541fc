"""`noeta tasks cancel | close`: orders to end a task, or to stop its turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Annotated, Final

import typer

from noeta.commands.tasks.hints import At
from noeta.commands.tasks.known import until_known
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Refused, Schema, TaskId, opened
from noeta.core import codec, limits
from noeta.core.store import Posted
from noeta.runtime.dispatcher import Dispatcher
from noeta.story.text import name

Reason = Annotated[str, typer.Option(help="Why; it stands in the log.")]

_AGAIN: Final = "as it is (an order to a task that has ended changes nothing)"


def cancel(id: TaskId, store: Address, schema: Schema = "noeta", reason: Reason = "", as_json: AsJson = False) -> None:
    """End a task, and the tasks below it. One that nobody runs has ended when this returns; a running one ends within
    a renewal of its worker's lease. This is final."""
    at = At(store, schema)
    posted = _ordered(at, id, reason, Dispatcher.cancel)
    if posted.outcome == "cancelled":
        words = f"{name(id)} has ended, with seq {posted.last_seq} of its log"
    elif posted.outcome == "repeat":  # only of this command's own key: the first try had landed
        words = f"{name(id)} has the order: the first try had landed"
    else:
        words = f"{name(id)} is being run and has the order as item {posted.number}: its worker ends it soon"
    tell(at, id, posted, words, as_json=as_json)


def close(id: TaskId, store: Address, schema: Schema = "noeta", reason: Reason = "", as_json: AsJson = False) -> None:
    """Stop the turn of a task, and the tasks it waits for. An interactive task then rests until somebody says
    something; a one-shot task ends."""
    at = At(store, schema)
    posted = _ordered(at, id, reason, Dispatcher.close)
    if posted.outcome == "repeat":
        words = f"{name(id)} has the order: the first try had landed"
    else:
        then = "a worker may act on it now" if posted.made_ready else "it stops before its next step"
        words = f"{name(id)} has the order as item {posted.number}: {then}"
    tell(at, id, posted, words, as_json=as_json)


def _ordered(at: At, task_id: str, reason: str, order: Callable[..., Posted]) -> Posted:
    """What became of the order.

    Raises:
        Refused: the task had ended.
    """
    codec.check("--reason", reason, bytes_max=limits.ITEM_BYTES_MAX)
    key = f"{order.__name__}:{uuid.uuid4().hex}"
    with opened(at, task_id=task_id) as dispatcher:
        posted = until_known(dispatcher.world, lambda: order(dispatcher, task_id, reason, key=key), _AGAIN).answer
    if posted.outcome == "ended":
        raise Refused(f"{name(task_id)} has ended before: there is nothing to {order.__name__}")
    return posted
