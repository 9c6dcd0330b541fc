"""`noeta tasks say | answer | event`: what reaches a task from outside."""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any, Final

import typer

from noeta.commands.tasks.answers import HAS_ENDED, became, give
from noeta.commands.tasks.approving import decisions
from noeta.commands.tasks.hints import At, word
from noeta.commands.tasks.known import until_known
from noeta.commands.tasks.looking import Question, Seen, look, questions
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Refused, Schema, TaskId, check_text, opened
from noeta.core import codec, limits
from noeta.core.errors import BadInput
from noeta.core.gates import is_approval
from noeta.core.ids import check_name, micros
from noeta.core.lower import lower_item
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, ExternalEvent, HumanResponseReceived
from noeta.story.text import name, quoted
from noeta.story.words import ended, standing

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
    as_json: AsJson = False,
) -> None:
    """Say something to a task. It hears it between two steps, or, if it waits for a message, at once.

    A repeat of a message id changes nothing; with another text it is refused.
    """
    said = message_id if message_id is not None else uuid.uuid4().hex
    check_text("TEXT", text)
    check_name("--message-id", said)
    with opened(at := At(store, schema), task_id=id) as dispatcher:
        known = until_known(
            dispatcher.world,
            lambda: dispatcher.say(id, text, message_id=said),
            f"with --message-id {word(said)}",
        )
        item = HumanResponseReceived(NEXT_GOAL, text)
        words = became(dispatcher, id, known, item, "message", "text", f"message id {name(said)}")
    tell(at, id, known.answer, words, as_json=as_json)


def answer(
    id: TaskId,
    text: Text,
    store: Address,
    schema: Schema = "noeta",
    handle: Annotated[
        str | None, typer.Option(help="Which question. Default: the one it asks; `noeta tasks show` names them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer what a task asks. The first answer to a question counts; another one is refused. About a tool call that
    waits for approval `noeta tasks approve | deny` decides, and no answer."""
    check_text("TEXT", text)
    at = At(store, schema)
    if handle is not None:
        check_name("--handle", handle, chars_max=limits.KEY_CHARS_MAX)
        if handle == NEXT_GOAL:
            instead = at.hint("a message is said", "say", id, "TEXT")
            raise BadInput("--handle", f"{NEXT_GOAL!r} is no question; {instead}")
        if is_approval(id, handle):
            raise BadInput("--handle", _no_question(at, id, handle))
    with opened(at, task_id=id) as dispatcher:
        seen = look(dispatcher.store, id)
        asked = questions(seen)
        if handle is None:
            handle = _the_question(at, seen, asked, micros(dispatcher.world.wall())).handle
        given = give(dispatcher, seen, handle, text, "answer")
    tell(at, id, given.posted, given.words, as_json=as_json, note=given.note)


def event(
    id: TaskId,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What happened: the kind a task waits for.")],
    store: Address,
    schema: Schema = "noeta",
    payload: Annotated[str | None, typer.Option(help="What is told of it, as JSON.")] = None,
    event_id: Annotated[
        str | None, typer.Option(help="Its id outside: a repeat of it is dropped. Default: a fresh one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell a task that something happened. An event that comes before the task waits for it is kept.

    A repeat of an event id changes nothing; with another payload it is refused.
    """
    check_name("KIND", kind)
    check_name("task_id", id, chars_max=limits.TASK_ID_CHARS_MAX)
    told = event_id if event_id is not None else uuid.uuid4().hex
    check_name("--event-id", told)
    happened = ExternalEvent(kind, None if payload is None else _read_json(payload))
    key = EVENT_KEY.format(kind=kind, id=told)
    lower_item(id, happened, key, field="event")  # refused before any store is opened
    with opened(at := At(store, schema), task_id=id) as dispatcher:
        known = until_known(
            dispatcher.world, lambda: dispatcher.post(id, happened, key), f"with --event-id {word(told)}"
        )
        words = became(dispatcher, id, known, happened, f"event {name(kind)}", "payload", f"event id {name(told)}")
    tell(at, id, known.answer, words, as_json=as_json)


def _read_json(text: str) -> Any:
    try:
        payload = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            "--payload", f"expected JSON, found {quoted(text)} ({error}); in a shell: --payload '{{\"paid\": true}}'"
        ) from error
    codec.check("--payload", payload, bytes_max=limits.ITEM_BYTES_MAX)
    return payload


def _no_constant(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


def _no_question(at: At, task_id: str, handle: str) -> str:
    return f"{name(handle)} is an approval, and no answer decides it; {'; '.join(decisions(at, task_id, handle))}"


def _the_question(at: At, seen: Seen, asked: list[Question], now: int) -> Question:
    """The one question that is open.

    Raises:
        BadInput: it asks for an approval alone, which "yes" would deny, since but one word gives it.
        Refused: there is none, or there are several.
    """
    id = name(seen.row.id)
    plain = [one for one in asked if one.approval is None]
    if asked and not plain:
        raise BadInput("TEXT", _no_question(at, seen.row.id, asked[0].handle))
    if len(asked) == 1:
        return asked[0]
    if asked:
        handles = ", ".join(f"{word(one.handle)} ({quoted(one.text or one.tool)})" for one in plain)
        many = "1 question" if len(plain) == 1 else f"{len(plain)} questions"
        beside = "" if len(plain) == len(asked) else f" and for {len(asked) - len(plain)} to be approved"
        raise Refused(f"{id} asks {many}{beside}; choose with --handle: {handles}")
    if seen.row.status is Status.TERMINAL:
        raise Refused(f"{id} {ended(seen.last)}: {HAS_ENDED}")
    waits = standing(seen.row, seen.last, now)
    instead = at.hint("say something instead", "say", seen.row.id, "TEXT")
    raise Refused(f"{id} asks nothing, it waits for {waits}; {instead}")
