"""`noeta tasks show`: one task, its log entry by entry, what is unread, and the tasks below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import typer

from noeta.commands.tasks.approving import decisions
from noeta.commands.tasks.as_json import dumps, row_json, seen_json
from noeta.commands.tasks.hints import At
from noeta.commands.tasks.looking import BELOW_MAX, Question, Seen, below, last_event, left_unread, look, questions
from noeta.commands.tasks.place import Address, AsJson, Schema, TaskId, opened
from noeta.core.events import Event, TaskCreated
from noeta.core.ids import micros
from noeta.core.task import Status, TaskRow
from noeta.core.wake import NEXT_GOAL, ExternalEvent, HumanResponseReceived
from noeta.story.crons import cron_lines
from noeta.story.entries import Teller
from noeta.story.head import parked
from noeta.story.text import instant, name, quoted, value
from noeta.story.words import ended, is_parked, item, standing

QUESTION_CHARS_MAX: Final = 1_000
"""A person must be able to read what is asked."""

LEFT_MAX: Final = 20
"""Numbers of items left unread that a line names; `--json` has all of them."""


def show(id: TaskId, store: Address, schema: Schema = "noeta", as_json: AsJson = False) -> None:
    """Show a task: its row, its whole log (seq, epoch, the store's time in UTC, what happened), its unread items, and
    the tasks it delegated to, as a tree.

    Long texts are cut; --json has them whole.
    """
    at = At(store, schema)
    with opened(at, task_id=id) as dispatcher:
        now = micros(dispatcher.world.wall())
        seen = look(dispatcher.store, id)
        rows, more = below(dispatcher.store, id)
        children = [(row, *last_event(dispatcher.store, row)) for row in rows]
    asked = questions(seen)
    if as_json:
        told = [row_json(row, last, since, now) for row, last, since in children]
        typer.echo(dumps(seen_json(seen, asked, told, now)))
        return
    for line in (*_head(seen, asked, now), *_log(seen), *_inbox(seen)):
        typer.echo(line)
    for line in _tree(at, id, [(row, last) for row, last, _ in children], now, more=more):
        typer.echo(line)
    for line in next_steps(at, seen, asked):
        typer.echo(line)


def _head(seen: Seen, asked: list[Question], now: int) -> Iterator[str]:
    row, created = seen.row, seen.entries[0].event
    assert isinstance(created, TaskCreated)
    kind = "interactive" if created.interactive else "one-shot"
    yield (
        f"{name(row.id)}: {row.status.value}, agent {name(created.agent)}, {kind}, queue {name(row.queue)}, "
        f"epoch {row.epoch}"
    )
    word = "at" if row.status is Status.TERMINAL else "since"
    yield f"{_stands(row, seen.last, now, ': ')}, {word} {instant(seen.entries[-1].at)}"
    if row.parent is not None:
        group = "" if row.group is None else f", group {name(row.group)}"
        root = created.root_task_id or row.parent
        yield f"parent: {name(row.parent)}{group}, root: {name(root)}, depth {created.subtask_depth}"
    if row.takeovers or row.fail_attempts:
        yield f"trouble: {row.takeovers} takeovers and {row.fail_attempts} failures in a row"
    yield from cron_lines(seen.entries, now)
    if is_parked(row, seen.last):
        yield parked(seen.entries)
    for one in asked:
        yield f"asks{'' if one.approval is None else ' for approval'}: {_question(one)} (handle {name(one.handle)})"


def _question(one: Question) -> str:
    call = f"{name(one.tool)} {value(one.input)}"
    if one.text is None:
        return call
    text = quoted(one.text, most=QUESTION_CHARS_MAX)
    return text if one.approval is None else f"{text}: {call}"


def _log(seen: Seen) -> Iterator[str]:
    teller = Teller()
    yield f"log, {len(seen.entries)} {'entry' if len(seen.entries) == 1 else 'entries'}:"
    wide = len(str(seen.entries[-1].seq))
    for entry in seen.entries:
        yield f"  {entry.seq:>{wide}}  e{entry.epoch}  {instant(entry.at, digits=3)}  {teller.tell(entry.event)}"


def _inbox(seen: Seen) -> Iterator[str]:
    if seen.unread:
        yield f"unread, {'more than ' if seen.unread_more else ''}{len(seen.unread)}:"
    for one in seen.unread:
        yield f"  item {one.number}  {instant(one.at, digits=3)}  {item(one.item)}"
    if left := left_unread(seen):
        more = f" and {len(left) - LEFT_MAX:,} more" if len(left) > LEFT_MAX else ""
        noun = "item" if len(left) == 1 else "items"
        yield f"left unread when it ended: {noun} {', '.join(map(str, left[:LEFT_MAX]))}{more}"


def _tree(at: At, task_id: str, children: list[tuple[TaskRow, Event | None]], now: int, *, more: bool) -> Iterator[str]:
    """The tasks below, each under the one in whose call it was born."""
    if not children:
        return
    noun = "task" if len(children) == 1 else "tasks"
    yield f"below it, {len(children)} {noun}:"
    levels = task_id.count(".")
    for row, last in children:
        depth = (row.id.count(".") - levels) // 2  # a call and a number a level
        background = " (in the background)" if row.group == "background" else ""
        yield f"{'  ' * depth}{name(row.id)}{background}  {row.status.value}, {_stands(row, last, now)}"
    if more:
        yield "  " + at.hint(f"and more than {BELOW_MAX}", "list", after=children[-1][0].id)


def _stands(row: TaskRow, last: Event | None, now: int, colon: str = " ") -> str:
    return f"it {ended(last)}" if row.status is Status.TERMINAL else f"waits for{colon}{standing(row, last, now)}"


def next_steps(at: At, seen: Seen, asked: list[Question]) -> Iterator[str]:
    """What can be done about it."""
    if not asked:
        yield _end(at, seen)
    elif asked[0].approval is None:
        yield at.hint("answer it", "answer", seen.row.id, "TEXT", handle=asked[0].handle if len(asked) > 1 else None)
    else:
        yield from decisions(at, seen.row.id, asked[0].handle)  # never another call than the one that is shown


def go_on(at: At, row: TaskRow) -> str:
    """How a person resumes a task that is parked. Its host may have named the handle on which it rests."""
    handle = row.wake_on.handle if isinstance(row.wake_on, HumanResponseReceived) else NEXT_GOAL
    if handle == NEXT_GOAL:
        return at.hint("go on with", "say", row.id, "TEXT")
    return at.hint("go on with", "answer", row.id, "TEXT", handle=handle)


def _end(at: At, seen: Seen) -> str:
    row, id = seen.row, seen.row.id
    if is_parked(row, seen.last):
        return go_on(at, row)
    match row.status, row.wake_on:
        case Status.TERMINAL, _:
            return "it has ended: nothing more will happen to it"
        case Status.SUSPENDED, HumanResponseReceived(handle=handle) if handle == NEXT_GOAL:
            return at.hint("say something", "say", id, "TEXT")
        case Status.SUSPENDED, ExternalEvent(event_kind=kind):
            return at.hint("bring the event", "event", id, kind, payload="JSON")
        case _:
            return at.hint("end it", "cancel", id)
