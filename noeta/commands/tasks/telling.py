"""`noeta tasks say | answer | event`: what reaches a task from outside."""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any, Final

import typer

from noeta.commands.tasks.known import Known, until_known
from noeta.commands.tasks.looking import Question, Seen, look, questions
from noeta.commands.tasks.place import Address, Refused, Schema, TaskId, opened
from noeta.commands.tasks.words import ended, name, quoted, standing
from noeta.core import codec, limits
from noeta.core.errors import BadInput
from noeta.core.ids import check_name, micros
from noeta.core.lower import lower_item
from noeta.core.store import Posted
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, ExternalEvent

ANSWER_ID: Final = "answer"
"""The message id of every answer: the first answer to a question counts, another is a repeat."""

HAS_ENDED: Final = "nothing more will happen to it; create a new task"
EVENT_KEY: Final = "event:{kind}:{id}"

Text = Annotated[str, typer.Argument(metavar="TEXT", help="What is said. After --, it may begin with a dash.")]


def say(
    id: TaskId,
    text: Text,
    store: Address,
    schema: Schema = "noeta",
    message_id: Annotated[
        str | None, typer.Option(help="Your id for this message: a repeat of it is dropped. Default: a fresh one.")
    ] = None,
) -> None:
    """Say something to a task. It hears it between two steps, or, if it waits for a message, at once."""
    said = message_id if message_id is not None else uuid.uuid4().hex
    _check_text(text)
    check_name("--message-id", said)
    with opened(store, schema, task_id=id) as dispatcher:
        known = until_known(
            dispatcher.world,
            lambda: dispatcher.say(id, text, message_id=said),
            f"with --message-id {name(said)}",
        )
    _told(id, "message", known, f"message id {name(said)} was used before")


def answer(
    id: TaskId,
    text: Text,
    store: Address,
    schema: Schema = "noeta",
    handle: Annotated[
        str | None, typer.Option(help="Which question. Default: the one it asks; `noeta tasks show` names them.")
    ] = None,
) -> None:
    """Answer what a task asks. The first answer to a question counts; a later one is dropped."""
    _check_text(text)
    if handle is not None:
        check_name("--handle", handle)
        if handle == NEXT_GOAL:
            raise BadInput("--handle", f"{NEXT_GOAL!r} is no question; a message is said: noeta tasks say {id} TEXT")
    with opened(store, schema, task_id=id) as dispatcher:
        seen = look(dispatcher.store, id)
        asked = questions(seen)
        if handle is None:
            handle = _the_question(seen, asked, micros(dispatcher.world.wall())).handle
        to = handle
        known = until_known(
            dispatcher.world,
            lambda: dispatcher.say(id, text, message_id=ANSWER_ID, handle=to),
            f"with --handle {name(to)}",
        )
    _told(id, "answer", known, f"{name(to)} has an answer already")
    if known.answer.outcome == "stored" and to not in [one.handle for one in asked]:
        typer.echo(f"note: it does not ask {name(to)} now; the answer is kept until it does")


def event(
    id: TaskId,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What happened: the kind a task waits for.")],
    store: Address,
    schema: Schema = "noeta",
    payload: Annotated[str | None, typer.Option(help="What is told of it, as JSON.")] = None,
    event_id: Annotated[
        str | None, typer.Option(help="Its id outside: a repeat of it is dropped. Default: a fresh one.")
    ] = None,
) -> None:
    """Tell a task that something happened. An event that comes before the task waits for it is kept."""
    check_name("KIND", kind)
    check_name("task_id", id, chars_max=limits.TASK_ID_CHARS_MAX)
    told = event_id if event_id is not None else uuid.uuid4().hex
    check_name("--event-id", told)
    happened = ExternalEvent(kind, None if payload is None else _read_json(payload))
    key = EVENT_KEY.format(kind=kind, id=told)
    lower_item(id, happened, key, field="event")  # refused before any store is opened
    with opened(store, schema, task_id=id) as dispatcher:
        known = until_known(
            dispatcher.world, lambda: dispatcher.post(id, happened, key), f"with --event-id {name(told)}"
        )
    _told(id, f"event {name(kind)}", known, f"event id {name(told)} was used before")


def _check_text(text: str) -> None:
    """Refuse a text that no store could hold, before any is opened."""
    if not text:
        raise BadInput("TEXT", "must not be empty")
    codec.check("TEXT", text, bytes_max=limits.ITEM_BYTES_MAX)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            "--payload", f"expected JSON, found {quoted(text)} ({error}); in a shell: --payload '{{\"paid\": true}}'"
        ) from error


def _no_constant(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


def _the_question(seen: Seen, asked: list[Question], now: int) -> Question:
    """The one question that is open.

    Raises:
        Refused: there is none, or there are several.
    """
    id = name(seen.row.id)
    if len(asked) == 1:
        return asked[0]
    if asked:
        handles = ", ".join(f"{name(one.handle)} ({quoted(one.text or one.tool)})" for one in asked)
        raise Refused(f"{id} asks {len(asked)} questions; choose with --handle: {handles}")
    if seen.row.status is Status.TERMINAL:
        raise Refused(f"{id} {ended(seen.last)}: {HAS_ENDED}")
    waits = standing(seen.row, seen.last, now)
    raise Refused(f"{id} asks nothing, it waits for {waits}; say something instead: noeta tasks say {id} TEXT")


def _told(task_id: str, what: str, known: Known[Posted], repeat: str) -> None:
    """Say what became of it.

    Raises:
        Refused: the task has ended.
    """
    id, posted = name(task_id), known.answer
    match posted.outcome:
        case "ended":
            raise Refused(f"{id} has ended, the {what} was not taken: {HAS_ENDED}")
        case "repeat" if known.after_unknown:
            typer.echo(f"{id} has the {what}: the first try had landed")
        case "repeat":
            typer.echo(f"{repeat}: nothing changed")
        case _:
            then = "it may go on now" if posted.made_ready else "it is read when the task comes to it"
            typer.echo(f"{id} has the {what} as item {posted.number}: {then}")
    typer.echo(f"look: noeta tasks show {id}")
