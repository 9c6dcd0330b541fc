"""`noeta tasks cancel | close`: orders to end a task, or to stop its turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Annotated, Final

import typer

from noeta.commands.tasks.known import Known, until_known
from noeta.commands.tasks.place import Address, Refused, Schema, TaskId, opened
from noeta.commands.tasks.words import name
from noeta.core import codec, limits
from noeta.core.store import Posted
from noeta.runtime.dispatcher import Dispatcher

Reason = Annotated[str, typer.Option(help="Why; it stands in the log.")]

_AGAIN: Final = "as it is (an order to a task that has ended changes nothing)"


def cancel(id: TaskId, store: Address, schema: Schema = "noeta", reason: Reason = "") -> None:
    """End a task, and the tasks below it. One that nobody runs has ended when this returns; a running one ends within
    a renewal of its worker's lease. This is final."""
    known = _ordered(id, store, schema, reason, Dispatcher.cancel)
    if known.answer.outcome == "cancelled":
        typer.echo(f"{name(id)} has ended, with seq {known.answer.last_seq} of its log")
    elif known.answer.outcome == "repeat":  # only of this command's own key: the first try had landed
        typer.echo(f"{name(id)} has the order: the first try had landed")
    else:
        typer.echo(f"{name(id)} is being run and has the order as item {known.answer.number}: its worker ends it soon")
    typer.echo(f"look: noeta tasks show {name(id)}")


def close(id: TaskId, store: Address, schema: Schema = "noeta", reason: Reason = "") -> None:
    """Stop the turn of a task, and the tasks it waits for. An interactive task then rests until somebody says
    something; a one-shot task ends."""
    known = _ordered(id, store, schema, reason, Dispatcher.close)
    if known.answer.outcome == "repeat":
        typer.echo(f"{name(id)} has the order: the first try had landed")
    else:
        then = "a worker may act on it now" if known.answer.made_ready else "it stops before its next step"
        typer.echo(f"{name(id)} has the order as item {known.answer.number}: {then}")
    typer.echo(f"look: noeta tasks show {name(id)}")


def _ordered(task_id: str, store: str, schema: str, reason: str, order: Callable[..., Posted]) -> Known[Posted]:
    """What became of the order.

    Raises:
        Refused: the task had ended.
    """
    codec.check("--reason", reason, bytes_max=limits.ITEM_BYTES_MAX)
    key = f"{order.__name__}:{uuid.uuid4().hex}"
    with opened(store, schema, task_id=task_id) as dispatcher:
        known = until_known(dispatcher.world, lambda: order(dispatcher, task_id, reason, key=key), _AGAIN)
    if known.answer.outcome == "ended":
        raise Refused(f"{name(task_id)} has ended before: there is nothing to {order.__name__}")
    return known
