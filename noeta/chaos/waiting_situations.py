"""The named situations of waiting, delegating and cancelling, read off the evidence of one task.

What was there first is told by numbers and positions, not by clocks of clients: an item that a sampled row, or an
earlier take of a later item, shows in the inbox before the wait began was early.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Final

from invariants import Kin, LogEntry, TaskEvidence, Verb
from invariants.evidence import Sample
from invariants.items import is_due_item, items_of
from noeta.core import texts
from noeta.core.events import (
    MessageTaken,
    TaskCancelled,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
)
from noeta.core.gates import approval_handle
from noeta.core.task import Status
from noeta.core.wake import (
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    condition_key,
    timed_out,
)

WAITING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "child-born": "a task was born with the entry of the call that asked for it",
        "group-born": "several tasks were born with one call, which waits for all",
        "child-faster-than-park": "a child had ended before its parent rested to wait for it",
        "child-failed-arrived": "a parent took the result of a child that had failed",
        "child-cancelled-arrived": "a parent took the result of a child that was cancelled",
        "background-result-told": "what came of a task in the background reached the root as a message",
        "handback-told": "a report of a task that went on reached its parent",
        "timer-fired": "a timer ended its task's wait",
        "timer-fired-by-claim": "a claim fired the timer of the task that it took",
        "timer-fired-by-sweep": "a timer, or the end of a wait, was fired before anybody claimed the task",
        "wait-timed-out": "a wait for a person or an event ended because its time was over",
        "early-wake-kept": "an item ended a wait that began after it had come",
        "wake-repeat-dropped": "a repeated answer, event or order was dropped by its key",
        "question-answered": "a person's answer ended the wait of the call that had asked",
        "event-received": "an event from outside ended a wait",
        "cancelled-while-pending": "a task that nobody had taken was ended by the post that cancelled it",
        "cancelled-while-waiting": "a task that waited was ended by the post that cancelled it",
        "cancelled-while-waiting-for-child": "the same, while it waited for its children",
        "cancelled-while-lapsed": "the same, while the lease of its lost worker was over",
        "cancelled-while-running": "a running task took the order to end",
        "cancel-cascaded": "a task ended because its parent had",
        "cancel-refused": "a cancel of an ended task was refused",
        "closed-and-reopened": "a task whose turn was closed went on with the next message",
        "depth-refused": "a task as deep as allowed was refused to delegate",
    }
)
"""Each of them, and what it means."""

_TOO_DEEP: Final = texts.TOO_DEEP.rpartition("}")[2]
_HANDBACK: Final = texts.HANDBACK.partition("{report}")[0]
_APPROVAL: Final = approval_handle("", "").partition(":")[0]
_CLOSED: Final = "closed"


def count_waiting(task: TaskEvidence, kin: Mapping[str, Kin]) -> Counter[str]:
    """The situations of one task. ``kin``: its family."""
    counts: Counter[str] = Counter()
    early = _EarlyItems(task)
    waits: LogEntry | None = None
    for entry in task.log:
        counts.update(_of_entry(entry, kin))
        if waits is not None and isinstance(entry.event, TaskWoken):
            counts.update(_of_wake(waits, entry.event, early))
        for _, item in items_of(entry.event):
            counts.update(_of_item(item))
        waits = entry if isinstance(entry.event, TaskSuspended) else None
    counts.update(_of_cancel(task))
    counts.update(_of_claims(task))
    for one in task.sent:
        counts["wake-repeat-dropped"] += one.outcome == "repeat" and one.wakes not in ("", f"human:{NEXT_GOAL}")
        counts["cancel-refused"] += one.outcome == "ended" and one.wakes == "control"
    return counts


def _of_entry(entry: LogEntry, kin: Mapping[str, Kin]) -> Counter[str]:
    counts: Counter[str] = Counter()
    match entry.event:
        case ToolParked(children=children):
            counts["child-born"] += len(children)
            counts["group-born"] += len(children) > 1
        case ToolFinished(children=children, is_error=is_error, output=output):
            counts["child-born"] += len(children)
            counts["depth-refused"] += is_error and _TOO_DEEP in output
        case TaskSuspended(wake_on=wake_on):
            counts["child-faster-than-park"] += _had_ended(wake_on, entry.at, kin)
        case TaskCancelled(reason=texts.PARENT_ENDED):
            counts["cancel-cascaded"] += 1
        case _:
            pass
    return counts


def _had_ended(wake_on: WakeCondition, at: int, kin: Mapping[str, Kin]) -> bool:
    """Whether all that is waited for had ended by then."""
    match wake_on:
        case SubtaskCompleted(subtask_id=child):
            children = [child]
        case SubtaskGroupCompleted(group_id=group, members=members):
            children = [f"{group}.{number}" for number in range(1, members + 1)]
        case _:
            return False
    ended = [kin[child].ended_at for child in children if child in kin]
    return len(ended) == len(children) and all(one is not None and one <= at for one in ended)


def _of_wake(waits: LogEntry, woken: TaskWoken, early: _EarlyItems) -> Counter[str]:
    counts: Counter[str] = Counter()
    event = woken.event
    match event:
        case _ if timed_out(event):
            # A rest between turns ends so when the cron table is due, which is no limit of a wait.
            counts["wait-timed-out"] += not (isinstance(event, HumanResponseReceived) and event.handle == NEXT_GOAL)
        case TimerFired():
            counts["timer-fired"] += 1
        case HumanResponseReceived(handle=handle):
            counts["question-answered"] += handle != NEXT_GOAL and not handle.startswith(_APPROVAL)
            stopped = isinstance(waits.event, TaskSuspended) and waits.event.reason.startswith(_CLOSED)
            counts["closed-and-reopened"] += stopped and handle == NEXT_GOAL
        case ExternalEvent():
            counts["event-received"] += 1
        case _:
            pass
    if woken.numbers and not is_due_item(event) and not isinstance(event, ControlReceived):
        counts["early-wake-kept"] += early.came_before(woken.numbers[0], waits.seq)
    return counts


def _of_item(item: Item) -> Iterator[str]:
    match item:
        case SubtaskCompleted(status="failed" | "cancelled" as status):
            yield f"child-{status}-arrived"
        case HumanResponseReceived(sender=sender, text=text) if sender:
            yield "handback-told" if text.startswith(_HANDBACK.format(child=sender)) else "background-result-told"
        case _:
            return


class _EarlyItems:
    """Which items are known to have been in the inbox when the log had a given length."""

    def __init__(self, task: TaskEvidence) -> None:
        seen = [(row.last_seq, row.inbox_seq) for row in task.rows]
        seen += [(entry.seq - 1, number) for entry in task.log for number, _ in items_of(entry.event)]
        seen.sort()
        self._lengths = [length for length, _ in seen]
        self._newest = list(accumulate((number for _, number in seen), max))

    def came_before(self, number: int, seq: int) -> bool:
        """Whether the item was there when the log was still shorter than this."""
        place = bisect_left(self._lengths, seq)
        return place > 0 and self._newest[place - 1] >= number


def _of_cancel(task: TaskEvidence) -> Counter[str]:
    """Where a cancelled task stood when it was cancelled."""
    last = task.log[-1] if task.log else None
    if last is None or not isinstance(last.event, TaskCancelled):
        return Counter()
    if any(one.verb is not Verb.POST and one.epoch == last.epoch for one in task.attempts):
        taken = task.log[-2].event if len(task.log) > 1 else None
        running = isinstance(taken, MessageTaken) and isinstance(taken.message, ControlReceived)
        return Counter({"cancelled-while-running": int(running)})
    before = [row for row in task.rows if row.status is not Status.TERMINAL and row.last_seq == last.seq - 1]
    return Counter([f"cancelled-while-{_stood(task.log[:-1], before[-1] if before else None)}"])


def _stood(log: Sequence[LogEntry], row: Sample | None) -> str:
    resting = log[-1].event if log else None
    if row is not None and row.status is Status.RUNNING:
        return "lapsed"
    if isinstance(resting, TaskSuspended) and (row is None or row.status is Status.SUSPENDED):
        for_child = condition_key(resting.wake_on).startswith(("child:", "group:"))
        return "waiting-for-child" if for_child else "waiting"
    if row is None and len(log) > 1:
        return "lapsed"
    return "pending"


def _of_claims(task: TaskEvidence) -> Counter[str]:
    """Who fired timers: a claim that took a waiting task, or whoever looked before it."""
    counts: Counter[str] = Counter()
    causes = {one.epoch: one.outcome for one in task.attempts if one.verb is Verb.CLAIM and one.outcome}
    counts["timer-fired-by-claim"] += sum(cause == "suspended" for cause in causes.values())
    for entry in task.log:
        fired = isinstance(entry.event, TaskWoken) and is_due_item(entry.event.event)
        counts["timer-fired-by-sweep"] += fired and causes.get(entry.epoch) == "pending"
    return counts
