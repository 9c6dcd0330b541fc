"""A wait ends once, by an item that satisfies it.

``TaskWoken`` takes its items in the append that records it, so a wake delivered twice shows as a second
``TaskWoken`` without a wait between, or as an item taken twice (``taken-once``). A lost wake shows as a task
that rests beside an item that satisfies it (``never-stuck``).
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import instant, item_words, kind
from noeta.core.events import Ending, TaskSuspended, TaskWoken
from noeta.core.ids import micros
from noeta.core.wake import ControlReceived, SubtaskGroupCompleted, TimerFired, matches_wake


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Each wake beside the wait it ends."""
    waits: LogEntry | None = None
    for entry in task.log:
        event = entry.event
        if waits is not None and not isinstance(event, TaskWoken | Ending):
            yield Finding(
                "went-on-unwoken",
                f"{task.task} waits since seq {waits.seq}; but seq {entry.seq} {kind(event)} follows with no wake in "
                f"between",
                (waits, entry),
            )
            waits = None
        if isinstance(event, TaskSuspended):
            waits = entry
        elif isinstance(event, TaskWoken):
            tally.saw()
            yield from _woken(task, waits, entry, event)
            waits = None


def _woken(task: TaskEvidence, waits: LogEntry | None, entry: LogEntry, woken: TaskWoken) -> Iterator[Finding]:
    what = f"{task.holder(entry.epoch)} woke {task.task} at seq {entry.seq} with {item_words(woken.event)}"
    if waits is None or not isinstance(waits.event, TaskSuspended):
        yield Finding("woken-twice", f"{what}; but it was not waiting", (entry,))
        return
    wake_on = waits.event.wake_on
    if not woken.numbers:
        yield Finding("took-nothing", f"{what}; but the wake takes no stored item", (waits, entry))
    if not matches_wake(wake_on, woken.event):
        yield Finding(
            "other-wake", f"{what}; but it waits for {item_words(wake_on)} since seq {waits.seq}", (waits, entry)
        )
    elif isinstance(woken.event, TimerFired):
        yield from _timer(what, waits, entry, wake_on == woken.event, woken.event)
    elif isinstance(wake_on, SubtaskGroupCompleted) and not isinstance(woken.event, ControlReceived):
        if len(woken.numbers) < wake_on.members:
            yield Finding(
                "group-unfinished",
                f"{what}; but it takes {len(woken.numbers)} results of a group of {wake_on.members}",
                (waits, entry),
            )


def _timer(what: str, waits: LogEntry, entry: LogEntry, is_stored: bool, fired: TimerFired) -> Iterator[Finding]:
    due = micros(fired.fire_at)
    if not is_stored:
        yield Finding("other-bytes", f"{what}; but that is not the condition stored at seq {waits.seq}", (waits, entry))
    if entry.at < due:
        yield Finding(
            "too-early", f"{what} at {instant(entry.at)}; but the timer is due at {instant(due)}", (waits, entry)
        )


LAW = Law(
    key="wake-once",
    title="Woken once",
    statement=(
        "A wait ends by one TaskWoken, which takes stored items that satisfy it; a timer's event is the stored "
        "condition, never before its time by the store's clock; repeated wakes cause no extra turn."
    ),
    source="Tasks and waking",
    reads="the log",
    codes={
        "woken-twice": "a wake of a task that was not waiting",
        "went-on-unwoken": "a suspended task went on with no wake",
        "took-nothing": "a wake that takes no item",
        "other-wake": "a wake that does not satisfy the wait",
        "other-bytes": "a timer's event that is not the stored condition",
        "too-early": "a timer before its time",
        "group-unfinished": "a group's wake with fewer results than members",
    },
    check=check,
)
