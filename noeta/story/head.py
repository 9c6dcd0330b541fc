"""What stands above a story: whose task it is, what is asked of it, and how it stands now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from noeta.core.events import ModelReplied, TaskCreated, ToolFinished, ToolParked
from noeta.core.store import UnreadItem
from noeta.core.task import Status, TaskRow
from noeta.story.crons import cron_lines
from noeta.story.parts import Written
from noeta.story.text import instant, name, quoted, span
from noeta.story.under_way import UnderWay
from noeta.story.words import ended, is_parked, item, standing, wait

GOAL_CHARS_MAX: Final = 400
"""A person must be able to read what is asked, and then what became of it."""

CHILDREN_MAX: Final = 20
UNREAD_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Kid:
    """A task that was born in a call of this one. ``stands``: how, if anybody looked."""

    id: str
    stands: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """A task as it stands. ``row`` None: nobody saw it. ``kids``: those in its log, and how each stands."""

    task: str
    row: TaskRow | None
    log: Sequence[Written]
    kids: tuple[Kid, ...] = ()
    unread: tuple[UnreadItem, ...] = ()


def born(log: Sequence[Written]) -> list[str]:
    """The ids of the tasks born in the calls of this one, in birth order."""
    return [
        child for entry in log if isinstance(entry.event, ToolFinished | ToolParked) for child in entry.event.children
    ]


def status(head: Head, now: int) -> str:
    """How the task stands, in one sentence. ``now``: see ``words.standing``."""
    row = head.row
    if row is None:
        return "nobody saw how it stands"
    last = head.log[-1].event if head.log else None
    match row.status:
        case Status.TERMINAL:
            return ended(last)
        case Status.RUNNING:
            worker, until = name(row.worker or ""), row.lease_until or 0
            if until <= now:
                return f"running, but the lease of {worker} ended {instant(until, digits=3)}: any worker may take it"
            return f"running, held by {worker} until {instant(until, digits=3)}, or longer"
        case status if is_parked(row, last) and row.wake_on is not None:
            return f"{status.value}, {parked(head.log)}; waits for {wait(row.wake_on)}"
        case status:
            return f"{status.value}, waits for {standing(row, last, now)}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A call whose outcome nobody can tell. ``tool`` None: its reply is not in the part of the log that was read."""

    call: str
    tool: str | None


def unknown_calls(log: Sequence[Written]) -> list[Unknown]:
    """The calls for which the park that the log ends with waits. ``log`` may be its end alone."""
    tools: dict[str, str] = {}
    under_way = UnderWay()
    for entry in log[:-1]:
        if isinstance(entry.event, ModelReplied):
            tools |= {call.id: call.tool for call in entry.event.calls}
        under_way.follow(entry)
    return [Unknown(call, tools.get(call)) for call in under_way.calls]


def parked(log: Sequence[Written]) -> str:
    """That a task is parked, and for which calls. ``log``: see ``unknown_calls``."""
    calls = [
        f"call {name(one.call)}" if one.tool is None else f"{name(one.tool)} (call {name(one.call)})"
        for one in unknown_calls(log)
    ]
    outcome = "their outcomes are" if len(calls) > 1 else "its outcome is"
    return f"parked: {', '.join(calls) or 'a call'}, {outcome} unknown"


def head_lines(head: Head, now: int) -> Iterator[str]:
    """The lines above the story."""
    yield f"{name(head.task)}: {status(head, now)}"
    first = head.log[0] if head.log else None
    if first is None or not isinstance(first.event, TaskCreated):
        yield "its log does not begin with its creation" if head.log else "it has no log"
        return
    created, last = first.event, head.log[-1]
    kind = "interactive (it rests between turns)" if created.interactive else "one-shot (it ends with its answer)"
    epoch = last.epoch if head.row is None else head.row.epoch
    yield f"agent {name(created.agent)}, {kind}, epoch {epoch} (each claim of a worker raises it)"
    yield f"goal: {quoted(created.goal, most=GOAL_CHARS_MAX)}"
    if created.parent_task_id is not None:
        group = "" if created.group is None else f", in group {name(created.group)}"
        root = created.root_task_id or created.parent_task_id
        yield f"for task {name(created.parent_task_id)}{group}; root {name(root)}, depth {created.subtask_depth}"
    yield from _kids(head.kids)
    yield from cron_lines(head.log, now)
    if head.row is not None and (head.row.takeovers or head.row.fail_attempts):
        yield f"trouble: {head.row.takeovers} takeovers and {head.row.fail_attempts} failures in a row"
    entries = "1 entry" if len(head.log) == 1 else f"{len(head.log):,} entries"
    yield f"log: {entries} in {span(last.at - first.at)}; times are since {instant(first.at, digits=3)}"


def tail_lines(head: Head) -> Iterator[str]:
    """The lines below it: what has come and is not taken."""
    for one in head.unread[:UNREAD_MAX]:
        yield f"not taken yet: item {one.number}: {item(one.item)}"
    more = len(head.unread) - UNREAD_MAX
    if more > 0:
        yield f"not taken yet: {more:,} items more"


def _kids(kids: Sequence[Kid]) -> Iterator[str]:
    for one in kids[:CHILDREN_MAX]:
        yield f"delegated to {name(one.id)}" + (f": {one.stands}" if one.stands else "")
    if len(kids) > CHILDREN_MAX:
        yield f"delegated to {len(kids) - CHILDREN_MAX:,} tasks more"
