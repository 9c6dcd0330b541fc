"""`noeta tasks approve | deny`: a person decides about a tool call that a gate asks about, before it is started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from noeta.commands.tasks.answers import HAS_ENDED, Given, already, give
from noeta.commands.tasks.hints import At, word
from noeta.commands.tasks.looking import (
    Question,
    Seen,
    approvals_asked,
    decision,
    look,
    open_approvals,
    questions,
)
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Refused, Schema, TaskId, check_text, opened
from noeta.core import limits
from noeta.core.errors import BadInput
from noeta.core.gates import approval_handle, is_approval
from noeta.core.ids import check_name, micros
from noeta.core.store import Posted
from noeta.core.task import Status
from noeta.core.texts import APPROVE
from noeta.core.wake import HumanResponseReceived
from noeta.story.text import name, quoted, value
from noeta.story.words import ended, standing

Handle = Annotated[
    str | None, typer.Option(help="Which call. Default: the one it asks about; `noeta tasks show` names them.")
]


def approve(
    id: TaskId, store: Address, schema: Schema = "noeta", handle: Handle = None, as_json: AsJson = False
) -> None:
    """Let the tool call start that a task asks about: once, and only while it asks. The first decision about a call
    counts; a repeat changes nothing, another one is refused."""
    _decide(At(store, schema), id, handle, APPROVE, "approval", as_json=as_json)


def deny(
    id: TaskId,
    store: Address,
    reason: Annotated[str, typer.Option(help="Why; the model is told.")],
    schema: Schema = "noeta",
    handle: Handle = None,
    as_json: AsJson = False,
) -> None:
    """Do not let the tool call start that a task asks about. The first decision about a call counts; a repeat changes
    nothing, another one is refused."""
    check_text("--reason", reason)
    if reason == APPROVE:
        raise BadInput("--reason", f"{APPROVE!r} is the word that approves; say why it is denied")
    _decide(At(store, schema), id, handle, reason, "denial", as_json=as_json)


def decisions(at: At, task_id: str, handle: str) -> Iterator[str]:
    """How a person decides, to be pasted: about this call, and no later one."""
    yield at.hint("approve it", "approve", task_id, handle=handle)
    yield at.hint("deny it", "deny", task_id, handle=handle, reason="TEXT")


def asks(at: At, task_id: str, one: Question) -> str:
    """What it asks about, after the name of the task, and how a person decides."""
    hints = "; ".join(decisions(at, task_id, one.handle))
    return f"asks {quoted(one.approval or '')}: {name(one.tool)} {value(one.input)}; {hints}"


def _decide(at: At, task_id: str, handle: str | None, text: str, what: str, *, as_json: bool) -> None:
    if handle is not None:
        check_name("--handle", handle, chars_max=limits.KEY_CHARS_MAX)
        if not is_approval(task_id, handle):
            instead = at.hint("a question is answered", "answer", task_id, "TEXT", handle=handle)
            begins = approval_handle(task_id, "")
            raise BadInput("--handle", f"that of an approval begins with {begins!r}, found {handle!r}; {instead}")
    with opened(at, task_id=task_id) as dispatcher:
        seen = look(dispatcher.store, task_id)
        now = micros(dispatcher.world.wall())
        chosen = _the_approval(at, seen, now) if handle is None else handle
        given = _known(at, seen, chosen, text)
        if given is None:
            _check_open(at, seen, chosen, now)
            given = give(dispatcher, seen, chosen, text, what)
    tell(at, task_id, given.posted, given.words, as_json=as_json, note=given.note)


def _the_approval(at: At, seen: Seen, now: int) -> str:
    """The handle of the one approval that is open, or else of the last one that was decided.

    Raises:
        Refused: there is none, or several are open.
    """
    id, asked = name(seen.row.id), open_approvals(seen)
    if len(asked) > 1:
        choice = ", ".join(f"{word(one.handle)} ({name(one.tool)} {value(one.input)})" for one in asked)
        raise Refused(f"{id} asks about {len(asked)} calls; choose with --handle: {choice}")
    if asked:
        return asked[0].handle
    last = approvals_asked(seen)[-1:]
    if last and decision(seen, last[0]) is not None:
        return last[0]
    if seen.row.status is Status.TERMINAL:
        raise Refused(f"{id} {ended(seen.last)}: {HAS_ENDED}")
    raise Refused(f"{id} {_asks_now(at, seen, now)}")


def _known(at: At, seen: Seen, handle: str, text: str) -> Given | None:
    """What is said if this call was decided before: the same decision changes nothing. None: it was not.

    Raises:
        Refused: it was decided otherwise.
    """
    known = decision(seen, handle)
    if known is None or handle not in approvals_asked(seen):
        return None
    number, said = known
    if said == HumanResponseReceived(handle, text):
        return Given(Posted("repeat", number, made_ready=False), already(name(handle), "answer"), None)
    id = seen.row.id
    approves = said == HumanResponseReceived(handle, APPROVE)
    how = "was approved" if approves else f"was denied ({quoted(said.text)})"
    if seen.row.status is Status.TERMINAL:
        then = f"{name(id)} has ended: {HAS_ENDED}"
    elif approves:
        then = at.hint("end the whole task", "cancel", id)
    else:
        then = at.hint("say that it may ask again", "say", id, "TEXT")
    raise Refused(f"{name(handle)} {how}, and the first decision counts: yours was dropped; {then}")


def _check_open(at: At, seen: Seen, handle: str, now: int) -> None:
    """Nobody decides about a call before the log says what would run: a decision that came first would count as soon
    as the gate asks, and no person would have seen the question. A task that has ended takes nothing, by its store.

    Raises:
        Refused: this approval is not open. Says what is.
    """
    if seen.row.status is Status.TERMINAL or handle in [one.handle for one in open_approvals(seen)]:
        return
    id = name(seen.row.id)
    was_asked = handle in approvals_asked(seen)
    why = f"wait for {name(handle)} any more" if was_asked else f"ask for {name(handle)}"
    raise Refused(f"{id} does not {why}: nothing was written; it {_asks_now(at, seen, now)}")


def _asks_now(at: At, seen: Seen, now: int) -> str:
    """What a task asks people for, and the commands that go with it."""
    id = seen.row.id
    if approvals := open_approvals(seen):
        return "; ".join(asks(at, id, one) for one in approvals)
    if questions(seen):
        return f"asks for no approval, it asks a question; {at.hint('answer it', 'answer', id, 'TEXT')}"
    waits = standing(seen.row, seen.last, now)
    return f"asks for no approval, it waits for {waits}; {at.hint('look', 'show', id)}"
