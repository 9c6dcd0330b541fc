"""`noeta task ID`: what happened to one task, told from its log: of a store, or of what a run left behind."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from noeta.commands.tasks.as_json import dumps
from noeta.commands.tasks.hints import STORE_VARIABLE, At
from noeta.commands.tasks.looking import last_event, look, questions
from noeta.commands.tasks.place import AsJson, Refused, Schema, TaskId, opened
from noeta.commands.tasks.showing import next_steps
from noeta.core.errors import BadInput, UnknownTask
from noeta.core.ids import micros
from noeta.core.store import Store
from noeta.core.task import Status
from noeta.story.as_json import story_json
from noeta.story.head import CHILDREN_MAX, Head, Kid, born, head_lines, tail_lines
from noeta.story.lines import WIDTH_MIN, Look, Shown, broken, story_lines
from noeta.story.parts import Part, Seen
from noeta.story.tell import tell
from noeta.story.text import name, quoted
from noeta.story.words import ended, is_parked, standing

IDS_SHOWN: Final = 5

_COLOURS: Final[Mapping[Look, Mapping[str, Any]]] = {
    Look.HEAD: {"bold": True},
    Look.CLAIM: {"fg": "cyan", "bold": True},
    Look.BETWEEN: {"fg": "yellow"},
    Look.STRUCK: {"fg": "red", "bold": True},
    Look.FAILED: {"fg": "red"},
}

Told = tuple[Head, Sequence[Part], int, Sequence[str]]
"""A head, its story, what time it is, and the commands with which a person goes on."""


def task(
    id: TaskId,
    store: Annotated[
        str | None, typer.Option("--store", help="Its store: postgresql://… or sqlite:PATH.", envvar=STORE_VARIABLE)
    ] = None,
    schema: Schema = "noeta",
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Instead of a store, what a storm left behind (runs/latest)."),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            help=f"Break lines at so many characters, {WIDTH_MIN} or more. Default: the terminal's, or never."
        ),
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours on a terminal, either.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tell what happened to a task: who held it when, what it did, what was cut short and how that went on.

    One line an entry of its log: how long after its creation, the entry's number, what happened. A claim begins with
    its epoch. Of a run (--run) the story also has who held each claim, and the faults that hit them. Long texts are
    cut; --json has them whole. Exit codes as of `noeta tasks`.
    """
    if width is not None and width < WIDTH_MIN:
        raise BadInput("--width", f"at least {WIDTH_MIN}, found {width}")
    if run is not None:
        head, parts, now, steps = _of_run(run, id)
    elif store is not None:
        head, parts, now, steps = _of_store(At(store, schema), id)
    else:
        raise BadInput("--store", f"say where the task is: --store, --run, or {STORE_VARIABLE} in the environment")
    if as_json:
        typer.echo(dumps(story_json(head, parts, now)))
        return
    if width is None and is_terminal():
        width = max(WIDTH_MIN, shutil.get_terminal_size().columns)
    coloured = is_terminal() and not no_color and not os.environ.get("NO_COLOR")
    for line in _lines(head, parts, now, steps, width):
        text = typer.style(line.text, **_COLOURS[line.look]) if coloured and line.look in _COLOURS else line.text
        typer.echo(text, color=coloured)


def is_terminal() -> bool:
    """Whether somebody reads this as it is written."""
    return sys.stdout.isatty()


def _lines(head: Head, parts: Sequence[Part], now: int, steps: Sequence[str], width: int | None) -> Iterator[Shown]:
    yield from broken(head_lines(head, now), width, Look.HEAD)
    yield Shown("")
    yield from story_lines(parts, width)
    yield from broken(tail_lines(head), width, Look.HEAD)
    yield from (Shown(step, Look.HEAD) for step in steps)  # never broken: they are pasted


def _of_store(at: At, id: str) -> Told:
    with opened(at, task_id=id) as dispatcher:
        now = micros(dispatcher.world.wall())
        seen = look(dispatcher.store, id)
        kids = tuple(_kids(dispatcher.store, born(seen.entries), now))
    row = seen.row
    asked = questions(seen)
    steps = tuple(next_steps(at, seen, asked)) if asked or is_parked(row, seen.last) else ()
    holders = {} if row.worker is None else {row.epoch: name(row.worker)}
    return (
        Head(id, row, seen.entries, kids, seen.unread),
        tell(seen.entries, Seen(holders, epoch=row.epoch)),
        now,
        steps,
    )


def _kids(store: Store, ids: Sequence[str], now: int) -> Iterator[Kid]:
    """How the children stand; those that are not told of are not looked at."""
    for id in ids[:CHILDREN_MAX]:
        try:
            row = store.task(id)
        except UnknownTask:
            yield Kid(id)
            continue
        last, _ = last_event(store, row)
        yield Kid(id, ended(last) if row.status is Status.TERMINAL else f"waits for {standing(row, last, now)}")
    yield from map(Kid, ids[CHILDREN_MAX:])


def _of_run(path: Path, id: str) -> Told:
    from noeta.chaos.evidence_dir import RUN, RunDir
    from noeta.chaos.evidence_reader import DirEvidence
    from noeta.chaos.report.task_story import story_of

    if not (path / RUN).is_file():
        raise BadInput("--run", f"expected a run directory with a {RUN}, found {quoted(str(path))}")
    evidence = DirEvidence(RunDir(path))
    task = evidence.of(id)
    if not task.log:
        ids = sorted(one.task for one in evidence.tasks() if one.log)
        more = f" and {len(ids) - IDS_SHOWN} more" if len(ids) > IDS_SHOWN else ""
        there = ", ".join(map(name, ids[:IDS_SHOWN])) or "none at all"
        raise Refused(f"this run has no log of a task {quoted(id)}; it has {there}{more}")
    head, seen = story_of(task, evidence.run)
    return head, tell(task.log, seen), task.log[-1].at if task.final is None else task.final.at, ()
