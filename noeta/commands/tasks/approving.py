"""`noeta tasks approve | deny`: a person decides about a tool call that a gate asks about, before it is started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from noeta.commands.tasks.answers import HAS_ENDED, give
from noeta.commands.tasks.hints import At, word
from noeta.commands.tasks.looking import Question, Seen, look, questions
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Refused, Schema, TaskId, check_text, opened
from noeta.core import limits
from noeta.core.errors import BadInput
from noeta.core.gates import approval_handle, is_approval
from noeta.core.ids import check_name, micros
from noeta.core.task import Status
from noeta.core.texts import APPROVE
from noeta.story.text import name, value
from noeta.story.words import ended, standing

Handle = Annotated[
    str | None, typer.Option(help="Which call. Default: the one it asks about; `noeta tasks show` names them.")
]


def approve(
    id: TaskId, store: Address, schema: Schema = "noeta", handle: Handle = None, as_json: AsJson = False
) -> None:
    """Let the tool call start that a task asks about: once. The first decision about a call counts; another one is
    refused."""
    _decide(At(store, schema), id, handle, APPROVE, "approval", as_json=as_json)


def deny(
    id: TaskId,
    store: Address,
    reason: Annotated[str, typer.Option(help="Why; the model is told.")],
    schema: Schema = "noeta",
    handle: Handle = None,
    as_json: AsJson = False,
) -> None:
    """Do not let the tool call start that a task asks about. The first decision about a call counts; another one is
    refused."""
    check_text("--reason", reason)
    if reason == APPROVE:
        raise BadInput("--reason", f"{APPROVE!r} is the word that approves; say why it is denied")
    _decide(At(store, schema), id, handle, reason, "denial", as_json=as_json)


def decisions(at: At, task_id: str, handle: str | None) -> Iterator[str]:
    """How a person decides, to be pasted. ``handle`` None: it asks about one call alone."""
    yield at.hint("approve it", "approve", task_id, handle=handle)
    yield at.hint("deny it", "deny", task_id, handle=handle, reason="TEXT")


def _decide(at: At, task_id: str, handle: str | None, text: str, what: str, *, as_json: bool) -> None:
    if handle is not None:
        check_name("--handle", handle, chars_max=limits.KEY_CHARS_MAX)
        if not is_approval(task_id, handle):
            instead = at.hint("a question is answered", "answer", task_id, "TEXT", handle=handle)
            begins = approval_handle(task_id, "")
            raise BadInput("--handle", f"that of an approval begins with {begins!r}, found {handle!r}; {instead}")
    with opened(at, task_id=task_id) as dispatcher:
        seen = look(dispatcher.store, task_id)
        handle = handle or _the_approval(at, seen, micros(dispatcher.world.wall())).handle
        given = give(dispatcher, seen, handle, text, what)
    tell(at, task_id, given.posted, given.words, as_json=as_json, note=given.note)


def _the_approval(at: At, seen: Seen, now: int) -> Question:
    """The one approval that is open.

    Raises:
        Refused: there is none, or there are several.
    """
    id, asked = name(seen.row.id), questions(seen)
    approvals = [one for one in asked if one.approval is not None]
    if len(approvals) == 1:
        return approvals[0]
    if approvals:
        choice = ", ".join(f"{word(one.handle)} ({name(one.tool)} {value(one.input)})" for one in approvals)
        raise Refused(f"{id} asks about {len(approvals)} calls; choose with --handle: {choice}")
    if seen.row.status is Status.TERMINAL:
        raise Refused(f"{id} {ended(seen.last)}: {HAS_ENDED}")
    waits = standing(seen.row, seen.last, now)
    if asked:
        instead = at.hint("answer it", "answer", seen.row.id, "TEXT")
        raise Refused(f"{id} asks for no approval, it asks a question; {instead}")
    instead = at.hint("look", "show", seen.row.id)
    raise Refused(f"{id} asks for no approval, it waits for {waits}; {instead}")
