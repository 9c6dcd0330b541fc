"""`noeta tasks cancel | close`: orders to end a task, or to stop its turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Final

import typer

from noeta.commands.tasks.hints import At
from noeta.commands.tasks.known import until_known
from noeta.commands.tasks.looking import last_event
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Refused, Schema, TaskId, check_text, opened
from noeta.core.events import TaskCancelled
from noeta.core.store import Posted
from noeta.runtime.dispatcher import Dispatcher
from noeta.story.text import name
from noeta.story.words import ended

Reason = Annotated[str | None, typer.Option(help="Why; it stands in the log.")]

_AGAIN: Final = "as it is (an order to a task that has ended changes nothing)"


def cancel(
    id: TaskId, store: Address, schema: Schema = "noeta", reason: Reason = None, as_json: AsJson = False
) -> None:
    """End a task, and the tasks below it. One that nobody runs has ended when this returns; a running one ends within
    a renewal of its worker's lease. This is final; a repeat changes nothing."""
    at = At(store, schema)
    with _ordering(at, id, reason) as dispatcher:
        row = dispatcher.store.task(id)
        posted = _ordered(dispatcher, id, reason, Dispatcher.cancel)
        if posted.outcome == "ended":
            last, _ = last_event(dispatcher.store, dispatcher.store.task(id))
            if not isinstance(last, TaskCancelled):
                raise Refused(f"{name(id)} has ended before: there is nothing to cancel")
            words = f"{name(id)} has ended already, it {ended(last)}: nothing changed"
            posted = Posted("repeat", None, made_ready=False)
        elif posted.outcome == "cancelled":
            words = f"{name(id)} has ended, with seq {posted.last_seq} of its log"
        elif posted.outcome == "repeat":  # only of this command's own key: the first try had landed
            words = f"{name(id)} has the order: the first try had landed"
        elif row.kept:
            keeper = name(row.worker or "")
            words = (
                f"{name(id)} rests, kept by {keeper}, and has the order as item {posted.number}: {keeper} ends it soon"
            )
        else:
            words = f"{name(id)} is being run and has the order as item {posted.number}: its worker ends it soon"
    tell(at, id, posted, words, as_json=as_json)


def close(id: TaskId, store: Address, schema: Schema = "noeta", reason: Reason = None, as_json: AsJson = False) -> None:
    """Stop the turn of a task, and the tasks it waits for. An interactive task then rests until somebody says
    something; a one-shot task ends."""
    at = At(store, schema)
    with _ordering(at, id, reason) as dispatcher:
        posted = _ordered(dispatcher, id, reason, Dispatcher.close)
    if posted.outcome == "ended":
        raise Refused(f"{name(id)} has ended before: there is nothing to close")
    if posted.outcome == "repeat":
        words = f"{name(id)} has the order: the first try had landed"
    else:
        then = "a worker may act on it now" if posted.made_ready else "it stops before its next step"
        words = f"{name(id)} has the order as item {posted.number}: {then}"
    tell(at, id, posted, words, as_json=as_json)


def _ordering(at: At, task_id: str, reason: str | None) -> AbstractContextManager[Dispatcher]:
    """The store; a reason that says nothing is refused before."""
    if reason is not None:
        check_text("--reason", reason)
    return opened(at, task_id=task_id)


def _ordered(dispatcher: Dispatcher, task_id: str, reason: str | None, order: Callable[..., Posted]) -> Posted:
    """What became of the order."""
    key = f"{order.__name__}:{uuid.uuid4().hex}"
    return until_known(dispatcher.world, lambda: order(dispatcher, task_id, reason or "", key=key), _AGAIN).answer
