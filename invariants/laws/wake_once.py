"""A wait ends once, by the first item that satisfies it.

``TaskWoken`` takes its items in the append that records it, so a wake delivered twice shows as a second
``TaskWoken`` without a wait between, or as an item taken twice (``taken-once``). A lost wake shows as a task
that rests beside an item that satisfies it (``never-stuck``), or here: as a wait that a later item ended, or as an item
that was taken while nothing could be told of it. Numbers say which of two items was there first, so an early wake that
was not kept is found without a clock. Timers are the subject of ``timers-once``.

Two kinds of items go before what was there first: an order before anything, and what a wait is for before the end of
its time. Whether such a later item was there when the wait ended is only judged where that is certain: it was stored
before the claim under which the wake was written, for then its worker has read it. A row that was seen before that
claim shows it, or the instant of an item that is still unread. What the same append takes does not: its writer may have
looked again after it had decided.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from invariants.evidence import Answer, FinalRow, LogEntry, RunFacts, Sent, TaskEvidence, Verb
from invariants.items import is_due_item, items_of, posted
from invariants.kinship import item_hash
from invariants.law import Finding, Law, Tally
from invariants.waits import Waits
from invariants.wording import item_words, kind
from noeta.core.events import Ending, JobEnded, JobLost, MessageTaken, TaskSuspended, TaskWoken
from noeta.core.wake import (
    ANY_WAIT,
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskGroupCompleted,
    WakeCondition,
    condition_key,
    item_group_key,
    item_key,
    matches_wake,
    timed_out,
)


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Each wake beside the wait it ends, and beside the items that were there before it."""
    waits: LogEntry | None = None
    ended_by: dict[int, LogEntry] = {}
    calls = Waits()
    sent = posted(task)
    for entry in task.log:
        event = entry.event
        calls.see(event)
        if isinstance(event, JobEnded | JobLost):
            waits = None if calls.between_turns else waits
        elif waits is not None and not isinstance(event, TaskWoken | Ending):
            yield Finding(
                "went-on-unwoken",
                f"{task.task} waits since seq {waits.seq}; but seq {entry.seq} {kind(event)} follows with no wake in "
                f"between",
                (waits, entry),
            )
            waits = None
        match event:
            case TaskSuspended():
                waits = entry
            case TaskWoken():
                tally.saw()
                yield from _woken(task, waits, entry, event)
                yield from _again(task, entry, event, ended_by)
                yield from _same_bytes(task, entry, event, sent)
                waits = None
            case MessageTaken():
                yield from _swallowed(task, entry, event, calls.parked)
            case _:
                pass
    yield from _passed_over(task, run)


def _woken(task: TaskEvidence, waits: LogEntry | None, entry: LogEntry, woken: TaskWoken) -> Iterator[Finding]:
    what = _what(task, entry, woken)
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
    elif isinstance(wake_on, SubtaskGroupCompleted) and not isinstance(woken.event, ControlReceived):
        if len(woken.numbers) < wake_on.members:
            yield Finding(
                "group-unfinished",
                f"{what}; but it takes {len(woken.numbers)} results of a group of {wake_on.members}",
                (waits, entry),
            )


def _what(task: TaskEvidence, entry: LogEntry, woken: TaskWoken) -> str:
    return f"{task.holder(entry.epoch)} woke {task.task} at seq {entry.seq} with {item_words(woken.event)}"


def _again(task: TaskEvidence, entry: LogEntry, woken: TaskWoken, ended_by: dict[int, LogEntry]) -> Iterator[Finding]:
    for number in woken.numbers:
        first = ended_by.setdefault(number, entry)
        if first is not entry:
            yield Finding(
                "ended-two-waits",
                f"{_what(task, entry, woken)}, item {number}; but that item had ended another wait at seq {first.seq}",
                (first, entry),
            )


def _same_bytes(task: TaskEvidence, entry: LogEntry, woken: TaskWoken, sent: Mapping[int, Sent]) -> Iterator[Finding]:
    for number, item in items_of(woken):
        one = sent.get(number)
        if one is not None and one.item != item_hash(item):
            yield Finding(
                "other-bytes",
                f"{_what(task, entry, woken)}, item {number}; but its sender had posted other bytes under that number",
                (one, entry),
            )


def _swallowed(
    task: TaskEvidence, entry: LogEntry, taken: MessageTaken, parked: Mapping[str, WakeCondition]
) -> Iterator[Finding]:
    """What only a wait can make known must be left for it; and what a call waits for is not taken past it."""
    item = taken.message
    match item:
        case ControlReceived():
            return
        case ExternalEvent() if not is_due_item(item):
            why = "an event is kept for the wait that it satisfies"
        case HumanResponseReceived(handle=handle) if handle != NEXT_GOAL and not is_due_item(item):
            why = "an answer is kept for the wait that it satisfies"
        case _ if any(_is_for(wake_on, item) for wake_on in parked.values()):
            why = "a call waits for it"
        case _:
            return
    yield Finding(
        "swallowed",
        f"{task.holder(entry.epoch)} took item {taken.number} ({item_words(item)}) of {task.task} at seq {entry.seq} "
        f"while the task ran; but {why}; so a wake was lost",
        (entry,),
    )


def _is_for(wake_on: WakeCondition, item: Item) -> bool:
    is_member = isinstance(wake_on, SubtaskGroupCompleted) and item_group_key(item) == condition_key(wake_on)
    return is_member or matches_wake(wake_on, item)


def _passed_over(task: TaskEvidence, run: RunFacts) -> Iterator[Finding]:
    """Backwards, with the lowest number of each kind among the items that were still unread: one that satisfies the
    wait too, and has a lower number than the one that ended it, was there and was passed over. So was one that goes
    before it and was read."""
    lowest: dict[str, tuple[int, LogEntry | FinalRow]] = {}
    waits: dict[int, WakeCondition] = {}
    before: WakeCondition | None = None
    for entry in task.log:
        if isinstance(entry.event, TaskWoken) and before is not None:
            waits[entry.seq] = before
        if not isinstance(entry.event, JobEnded | JobLost):
            before = entry.event.wake_on if isinstance(entry.event, TaskSuspended) else None
    for item in task.final.unread if task.final is not None else ():
        _note(lowest, item.number, item.item, task.final)
    read_to = _read_to(task, run)
    for entry in reversed(task.log):
        if isinstance(entry.event, TaskWoken) and entry.event.numbers and entry.seq in waits:
            passed = _passed(waits[entry.seq], entry.event, lowest, read_to(entry.epoch))
            if passed is not None:
                number, where = passed
                newest = max(entry.event.numbers)
                why = (
                    "was there before it" if number < newest else "goes before it, was there when the task was claimed"
                )
                yield Finding(
                    "passed-over",
                    f"{_what(task, entry, entry.event)}, item {newest}; but item {number}, which ends that wait as "
                    f"well, {why} and was passed over",
                    (entry, where),
                )
        for number, taken in items_of(entry.event):
            _note(lowest, number, taken, entry)


def _note(
    lowest: dict[str, tuple[int, LogEntry | FinalRow]], number: int, item: Item, where: LogEntry | FinalRow | None
) -> None:
    key = item_key(item)
    if where is not None and not is_due_item(item) and (key not in lowest or number < lowest[key][0]):
        lowest[key] = number, where


def _passed(
    wake_on: WakeCondition, woken: TaskWoken, lowest: Mapping[str, tuple[int, LogEntry | FinalRow]], read_to: int
) -> tuple[int, LogEntry | FinalRow] | None:
    """An order goes before all else, what came before the end of the time for it, and otherwise the first that
    satisfies the wait. ``read_to``: up to this number, the writer of the wake has read every item."""
    newest = max(woken.numbers)
    is_order = isinstance(woken.event, ControlReceived)
    befores = {ANY_WAIT: newest - 1 if is_order else max(newest - 1, read_to)}
    if not is_order and not isinstance(wake_on, SubtaskGroupCompleted):
        befores[condition_key(wake_on)] = max(newest - 1, read_to) if timed_out(woken.event) else newest - 1
    found = [lowest[key] for key, before in befores.items() if key in lowest and lowest[key][0] <= before]
    return found[0] if found else None


def _read_to(task: TaskEvidence, run: RunFacts) -> Callable[[int], int]:
    """By the epoch of a claim: the newest item that was surely stored before that claim."""
    rows = sorted((row.epoch, row.inbox_seq) for row in task.samples)
    epochs = [epoch for epoch, _ in rows]
    numbers = list(accumulate((number for _, number in rows), max))
    claimed: dict[int, int] = {}
    for attempt in task.attempts if run.lease else ():
        if attempt.verb is Verb.CLAIM and attempt.answer is Answer.OK and attempt.lease_until and attempt.epoch:
            claimed[attempt.epoch] = attempt.lease_until - run.lease
    unread = [item for item in (() if task.final is None else task.final.unread) if not is_due_item(item.item)]
    stored = [item.at for item in unread]

    def read_to(epoch: int) -> int:
        seen = bisect_left(epochs, epoch)
        older = bisect_left(stored, claimed[epoch]) if epoch in claimed else 0
        return max(numbers[seen - 1] if seen else 0, unread[older - 1].number if older else 0)

    return read_to


LAW = Law(
    key="wake-once",
    title="Woken once",
    statement=(
        "A wait ends by one TaskWoken, which takes the first stored items that satisfy it (an order before all else, "
        "the end of its time after all else), byte for byte as they were posted; an item that came before the wait is "
        "kept for it, none ends two waits, and repeated wakes cause no extra turn."
    ),
    source="Tasks and waking",
    reads="the log, the final inbox, and what clients posted",
    codes={
        "woken-twice": "a wake of a task that was not waiting",
        "went-on-unwoken": "a suspended task went on with no wake",
        "took-nothing": "a wake that takes no item",
        "other-wake": "a wake that does not satisfy the wait",
        "other-bytes": "a wake that is not what was posted",
        "ended-two-waits": "one item ended two waits",
        "passed-over": "an item that was there first, or goes before, and ends the wait too, was passed over",
        "swallowed": "a wake was taken past the wait that it satisfies",
        "group-unfinished": "a group's wake with fewer results than members",
    },
    check=check,
)
