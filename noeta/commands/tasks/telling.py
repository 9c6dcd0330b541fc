"""`noeta tasks say | answer | event`: what reaches a task from outside."""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any, Final

import typer

from noeta.commands.tasks.hints import At, word
from noeta.commands.tasks.known import Known, until_known
from noeta.commands.tasks.looking import Question, Seen, is_over, item_of, look, questions
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Refused, Schema, TaskId, check_text, opened
from noeta.commands.tasks.words import ended, name, quoted, standing
from noeta.core import codec, limits
from noeta.core.errors import BadInput
from noeta.core.ids import check_name, micros
from noeta.core.lower import lower_item
from noeta.core.store import Posted
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, ExternalEvent, HumanResponseReceived, Item
from noeta.runtime.dispatcher import Dispatcher

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
        words = _became(dispatcher, id, known, item, "message", "text", f"message id {name(said)}")
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
    """Answer what a task asks. The first answer to a question counts; another one is refused."""
    check_text("TEXT", text)
    at = At(store, schema)
    if handle is not None:
        check_name("--handle", handle)
        if handle == NEXT_GOAL:
            instead = at.hint("a message is said", "say", id, "TEXT")
            raise BadInput("--handle", f"{NEXT_GOAL!r} is no question; {instead}")
    with opened(at, task_id=id) as dispatcher:
        seen = look(dispatcher.store, id)
        asked = questions(seen)
        if handle is None:
            handle = _the_question(at, seen, asked, micros(dispatcher.world.wall())).handle
        elif seen.row.status is not Status.TERMINAL and is_over(seen, handle):
            raise Refused(f"{name(id)} does not wait for {name(handle)} any more: nothing was written")
        to = handle
        known = until_known(
            dispatcher.world,
            lambda: dispatcher.say(id, text, message_id=ANSWER_ID, handle=to),
            f"with --handle {word(to)}",
        )
        words = _became(dispatcher, id, known, HumanResponseReceived(to, text), "answer", "answer", name(to))
    is_early = known.answer.outcome == "stored" and to not in [one.handle for one in asked]
    note = f"it does not ask {name(to)} now; the answer is kept until it does" if is_early else None
    tell(at, id, known.answer, words, as_json=as_json, note=note)


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
        words = _became(dispatcher, id, known, happened, f"event {name(kind)}", "payload", f"event id {name(told)}")
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


def _the_question(at: At, seen: Seen, asked: list[Question], now: int) -> Question:
    """The one question that is open.

    Raises:
        Refused: there is none, or there are several.
    """
    id = name(seen.row.id)
    if len(asked) == 1:
        return asked[0]
    if asked:
        handles = ", ".join(f"{word(one.handle)} ({quoted(one.text or one.tool)})" for one in asked)
        raise Refused(f"{id} asks {len(asked)} questions; choose with --handle: {handles}")
    if seen.row.status is Status.TERMINAL:
        raise Refused(f"{id} {ended(seen.last)}: {HAS_ENDED}")
    waits = standing(seen.row, seen.last, now)
    instead = at.hint("say something instead", "say", seen.row.id, "TEXT")
    raise Refused(f"{id} asks nothing, it waits for {waits}; {instead}")


def _became(
    dispatcher: Dispatcher, task_id: str, known: Known[Posted], item: Item, what: str, says: str, key: str
) -> str:
    """What became of the item, in words. ``what`` it is and ``says``, to a person; ``key``: what tells repeats.

    Raises:
        Refused: the task has ended, or another item came under this key.
    """
    id, posted = name(task_id), known.answer
    if posted.outcome == "ended":
        raise Refused(f"{id} has ended, the {what} was not taken: {HAS_ENDED}")
    if posted.outcome == "stored":
        then = "it may go on now" if posted.made_ready else "it is read when the task comes to it"
        return f"{id} has the {what} as item {posted.number}: {then}"
    first = item_of(dispatcher.store, task_id, posted.number)
    if first is None:
        return f"{key} is known already: nothing changed"
    if codec.canonical(first) != codec.canonical(item):
        raise Refused(f"another {says} is known under {key}: yours was dropped")
    if known.after_unknown:
        return f"{id} has the {what}: the first try had landed"
    return f"{key} has this {says} already: nothing changed"
