"""A timer fires once, not before its time, and says what was asked.

The same holds for the limit of a wait for a person or an event: when it is over, the store puts the stored condition
into the inbox, as it does with a timer. All instants are the store's: those of the entries, and the one in the
condition, which must be the start of the call that asked plus the delay that its input names, whoever ran the call
again since. And for the cron table of a task, whose next occurrence is the limit of its rest between two turns: each
fires once, in order, and after an outage the newest alone (`invariants/crontabs.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from invariants.crontabs import Crons
from invariants.evidence import FinalRow, LogEntry, RunFacts, TaskEvidence
from invariants.items import is_due_item, items_of
from invariants.kinship import item_hash
from invariants.law import Fact, Finding, Law, Tally
from invariants.waits import Waits
from invariants.wording import instant, item_words, span
from noeta.core.events import (
    JobEnded,
    JobLost,
    ModelReplied,
    TaskSuspended,
    TaskWoken,
    ToolParked,
    ToolStarted,
)
from noeta.core.ids import micros
from noeta.core.wake import ControlReceived, Item, WakeCondition, due_at, item_key

ROUNDING: Final = 2
"""Microseconds that an instant may lose as a number of seconds."""


@dataclass(slots=True)
class _Seen:
    """``asked``: how many waits had this very condition; ``came``: how many items said that it was over."""

    tools: dict[str, tuple[str, Any]] = field(default_factory=dict)
    starts: dict[str, LogEntry] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    came: dict[str, list[Fact]] = field(default_factory=dict)
    waits: LogEntry | None = None


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Each wait that ends by itself: what was asked, what was stored, and what came of it."""
    seen, rests, crons = _Seen(), Waits(), Crons(task, run, tally)
    for entry in task.log:
        rests.see(entry.event)
        yield from crons.see(entry, rests)
        match entry.event:
            case ModelReplied(calls=calls):
                seen.tools.update((call.id, (call.tool, call.input)) for call in calls)
            case ToolStarted(call_id=call):
                seen.starts[call] = entry
            case ToolParked(call_id=call, wake_on=wake_on):
                yield from _asked(task, entry, call, wake_on, seen, run)
            case TaskSuspended(wake_on=wake_on):
                tally.saw(due_at(wake_on) is not None)
                if due_at(wake_on) is not None:
                    seen.asked[item_hash(wake_on)] += 1
                seen.waits = entry
                continue
            case TaskWoken():
                yield from _stored(task, entry, entry.event, seen.waits)
            case JobEnded() | JobLost() if not rests.between_turns:
                continue  # its call goes on waiting
            case _:
                pass
        seen.waits = None
        for _, item in items_of(entry.event):
            if is_due_item(item):
                yield from _came(task, entry, entry.at, item, seen)
    if task.final is not None:
        for unread in task.final.unread:
            if is_due_item(unread.item):
                yield from _came(task, task.final, unread.at, unread.item, seen)


def _asked(
    task: TaskEvidence, entry: LogEntry, call: str, wake_on: WakeCondition, seen: _Seen, run: RunFacts
) -> Iterator[Finding]:
    """The end of the wait beside what the call asked for."""
    name, given = seen.tools.get(call, ("", None))
    tool, start = run.tools.get(name), seen.starts.get(call)
    if tool is None or tool.timer_field is None or start is None or not isinstance(given, dict):
        return
    delay = given.get(tool.timer_field)
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        return
    foretold = start.at + micros(delay)
    due = due_at(wake_on)
    if due is None or abs(micros(due) - foretold) > ROUNDING:
        stored = "for ever" if due is None else f"until {instant(micros(due))}"
        yield Finding(
            "other-instant",
            f"call {call} ({name}) of {task.task}, started at {instant(start.at)}, asked for {span(micros(delay))}; "
            f"but it waits {stored} and not until {instant(foretold)}",
            (start, entry),
        )


def _stored(task: TaskEvidence, entry: LogEntry, woken: TaskWoken, waits: LogEntry | None) -> Iterator[Finding]:
    """What the store made of a condition is the condition that was waited on."""
    if waits is None or not isinstance(waits.event, TaskSuspended) or not is_due_item(woken.event):
        return
    if waits.event.wake_on != woken.event:
        yield Finding(
            "other-bytes",
            f"{task.holder(entry.epoch)} woke {task.task} at seq {entry.seq} with {item_words(woken.event)}; but that "
            f"is not the condition stored at seq {waits.seq}",
            (waits, entry),
        )


def _came(task: TaskEvidence, where: LogEntry | FinalRow, at: int, item: Item, seen: _Seen) -> Iterator[Finding]:
    assert not isinstance(item, ControlReceived)
    due = micros(due_at(item) or 0.0)
    what = f"that {item_key(item)} is over at {instant(due)} reached {task.task}"
    if at < due:
        yield Finding("too-early", f"{what} at {instant(at)}; so it fired before its time", (where,))
    key = item_hash(item)
    came = seen.came.setdefault(key, [])
    came.append(where)
    if not seen.asked[key]:
        yield Finding("never-asked", f"{what}; but {task.task} never waited for that", (where,))
    elif len(came) > seen.asked[key]:
        yield Finding(
            "fired-twice",
            f"{what} {len(came)} times; but it waited for it {seen.asked[key]} times",
            (came[0], where),
        )


LAW = Law(
    key="timers-once",
    title="Timers fire once",
    statement=(
        "A timer, or the limit of a wait, is the start of its call plus the delay asked for; it never fires before "
        "that instant by the store's clock, never twice, and what fires is the stored condition. A task with a cron "
        "table rests until its next occurrence; each fires in order, not before its time, once and never lost, after "
        "an outage the newest for all."
    ),
    source="Tasks and waking (timers); the rules of noeta.core.cron",
    reads="the log, the final inbox, granted claims, and which field of a tool's input is its delay",
    codes={
        "too-early": "a timer, or the end of a wait, before its time",
        "fired-twice": "one wait's timer came more than once",
        "never-asked": "a timer that no wait asked for",
        "other-bytes": "a timer's event that is not the stored condition",
        "other-instant": "a wait's end, or the beginning of a cron entry, that is not as its call asked",
        "other-rest": "a rest between two turns that does not end with the next occurrence of the cron table",
        "cron-early": "a cron entry fired before its time",
        "cron-twice": "a cron entry fired for an instant that it had fired for, or for an older one",
        "cron-lost": "a task was woken for its cron table, and went on without what was due",
        "cron-behind": "a cron entry fired for an older occurrence than the newest that was due",
        "no-occurrence": "a firing for an instant that the table does not name",
        "miscounted": "a firing that says another number of skipped occurrences than there were",
    },
    check=check,
)
