"""`noeta tasks list`: which tasks there are, and what each waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Annotated, Any, Final

import typer

from noeta.commands.tasks.approving import asks
from noeta.commands.tasks.as_json import dumps, question_json, row_json, unknown_json
from noeta.commands.tasks.hints import At, word
from noeta.commands.tasks.looking import Question, approval_of, last_event, tail_of
from noeta.commands.tasks.place import Address, AsJson, Schema, opened
from noeta.commands.tasks.showing import go_on
from noeta.core.events import Entry, Event
from noeta.core.gates import is_approval
from noeta.core.ids import check_name, micros
from noeta.core.lower import check_count
from noeta.core.store import Store
from noeta.core.task import Status, TaskRow
from noeta.core.wake import (
    NEXT_GOAL,
    ExternalEvent,
    HumanResponseReceived,
    TimerFired,
    WakeCondition,
)
from noeta.story.head import parked, unknown_calls
from noeta.story.text import instant, name
from noeta.story.words import is_parked, standing

PAGE_MAX: Final = 1_000
"""Tasks of one page; each costs one more read, for the end of its log."""

FETCH: Final = 200
HEADER: Final = ("ID", "STATUS", "EPOCH", "SINCE", "PARENT", "WAITS FOR")


class Waiting(Enum):
    """Kinds of waits, as a person asks for them."""

    ANY = "any"
    MESSAGE = "message"
    ANSWER = "answer"
    APPROVAL = "approval"
    PERSON = "person"
    EVENT = "event"
    TIMER = "timer"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class Line:
    """A task of the page. ``since``: when its newest entry was written, in microseconds. ``approval``: what it asks a
    person to approve, if it waits for that. ``tail``: the end of its log, if it is parked."""

    row: TaskRow
    last: Event | None
    since: int | None
    approval: Question | None
    tail: tuple[Entry, ...]


def _choice(kind: type[Status] | type[Waiting], help: str) -> Any:
    """An option that takes one of these words."""
    words = [one.value for one in kind]

    def parse(text: str) -> Enum:
        if text not in words:
            raise typer.BadParameter(f"expected one of {', '.join(words)}, found {text!r}")
        return kind(text)

    return typer.Option(parser=parse, metavar="|".join(words), help=help)


def list_tasks(
    store: Address,
    schema: Schema = "noeta",
    status: Annotated[Status | None, _choice(Status, "Only tasks of this status.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only tasks of this queue.")] = None,
    waiting: Annotated[
        Waiting | None,
        _choice(
            Waiting,
            "Only tasks that wait for this; answer: approvals too; person: all of people.",
        ),
    ] = None,
    after: Annotated[str, typer.Option(help="Only tasks whose id comes after this one: the next page.")] = "",
    limit: Annotated[int, typer.Option(help=f"Tasks of one page, from 1 to {PAGE_MAX}.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List tasks in the order of their ids: status, what each waits for, since when, its epoch and its parent.

    SINCE is when the newest entry of its log was written, by the store's clock; times are in UTC.
    """
    for field, given in (("--queue", queue), ("--after", after or None)):
        if given is not None:
            check_name(field, given)
    check_count("--limit", limit, PAGE_MAX)
    at = At(store, schema)
    with opened(at) as dispatcher:
        now = micros(dispatcher.world.wall())
        found = list(islice(_found(dispatcher.store, status, queue, waiting, after), limit + 1))
        page = [_line(dispatcher.store, row) for row in found[:limit]]
    next_after = page[-1].row.id if len(found) > limit else None
    if as_json:
        tasks = [
            row_json(line.row, line.last, line.since, now)
            | {
                "approval": None if line.approval is None else question_json(line.approval),
                "unknown_calls": unknown_json(unknown_calls(line.tail)),
            }
            for line in page
        ]
        typer.echo(dumps({"tasks": tasks, "next_after": next_after}))
        return
    if page:
        typer.echo("\n".join(_table([HEADER, *(_cells(line, now) for line in page)])))
    for line in page:
        if line.approval is not None:
            typer.echo(f"{name(line.row.id)} {asks(at, line.row.id, line.approval)}")
        if is_parked(line.row, line.last):
            typer.echo(f"{name(line.row.id)} is {parked(line.tail)}; {go_on(at, line.row)}")
    typer.echo(_summary(page, next_after))


def _found(
    store: Store, status: Status | None, queue: str | None, waiting: Waiting | None, after: str
) -> Iterator[TaskRow]:
    while True:
        rows = store.tasks(after=after, limit=FETCH, status=status, queue=queue)
        yield from (row for row in rows if waiting is None or _waits(row.id, row.wake_on, waiting))
        if len(rows) < FETCH:
            return
        after = rows[-1].id


def _line(store: Store, row: TaskRow) -> Line:
    last, since = last_event(store, row)
    return Line(row, last, since, approval_of(store, row), tail_of(store, row) if is_parked(row, last) else ())


def _waits(task_id: str, condition: WakeCondition | None, kind: Waiting) -> bool:
    if condition is None or kind is Waiting.ANY:
        return condition is not None
    match condition:
        case HumanResponseReceived() if kind is Waiting.PERSON:
            return True
        case HumanResponseReceived(handle=handle) if kind is Waiting.APPROVAL:
            return is_approval(task_id, handle)
        case HumanResponseReceived(handle=handle):
            return kind is (Waiting.MESSAGE if handle == NEXT_GOAL else Waiting.ANSWER)
        case ExternalEvent():
            return kind is Waiting.EVENT
        case TimerFired():
            return kind is Waiting.TIMER
        case _:
            return kind is Waiting.TASKS


def _cells(line: Line, now: int) -> tuple[str, ...]:
    row = line.row
    since = "?" if line.since is None else instant(line.since)
    parent = "-" if row.parent is None else name(row.parent)
    return name(row.id), row.status.value, str(row.epoch), since, parent, standing(row, line.last, now)


def _table(lines: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _summary(page: Sequence[Line], next_after: str | None) -> str:
    if not page:
        return "no tasks like that here"
    counts = Counter(line.row.status for line in page)
    parts = ", ".join(f"{counts[status]} {status.value}" for status in Status if counts[status])
    noun = "task" if len(page) == 1 else "tasks"
    more = "" if next_after is None else f"; there are more: add --after {word(next_after)}"
    return f"{len(page)} {noun}: {parts}{more}"
