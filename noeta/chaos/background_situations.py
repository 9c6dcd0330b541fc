"""The named situations of tasks that work in the background, are woken by a cron table, ask first, or are parked:
part of `situations.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from invariants import Answer, FaultSeen, TaskEvidence, Verb
from invariants.evidence import LogEntry
from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    JobEnded,
    JobLost,
    JobStarted,
    TaskCreated,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
)
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from scripted_model.script import BadScript, from_goal

BACKGROUND: Final = MappingProxyType(
    {
        "job-ended": "a background job ended by itself",
        "job-failed": "a background job ended by itself with another exit code than 0",
        "job-stopped": "a background job was stopped by its owner, or with its task",
        "job-killed": "a background job was killed before its end, and its owner was there to tell",
        "job-lost": "a background job was lost with the claim that it belonged to",
        "job-lost-after-freeze": "the same, and the owner had been frozen",
        "job-of-a-child": "a sub-agent started a background job",
        "job-woke-its-task": "the end of a background job began a turn of a task at rest",
        "kept-resumed": "a task whose claim was kept while it rested went on under the same epoch",
        "kept-taken-over": "a kept claim lapsed, and another worker took its task",
        "kept-released": "a worker that stopped gave a kept claim back",
        "cron-fired": "a cron table began a turn",
        "cron-caught-up": "a cron table fired once for several occurrences that nobody was there for",
        "approval-given": "a person approved a call, which was started then",
        "approval-refused": "a person did not approve a call",
        "approval-given-after-takeover": "a call was approved, and a worker that waited for that or heard it was lost",
        "approval-refused-after-takeover": "a call was refused, and a worker that waited for that or heard it was lost",
        "denied-by-gate": "a gate did not let a call start",
        "call-rewritten": "a call was started with what a gate made of it",
        "parked": "a task was parked, since nobody knew what a call of it had done",
        "resumed-from-park": "somebody typed a message to a parked task, and it went on",
        "redriven-under-park": "a task that may be parked started an interrupted call again without asking",
    }
)
"""Each of them, and what it means."""

_REFUSED: Final = texts.DENIED.format(reason=texts.NOT_APPROVED.partition("{")[0])


@dataclass(slots=True)
class _Seen:
    """``jobs``: the epoch each was started under; ``asked``: the entries that asked for approval, by handle;
    ``rests``: the entry with which the task rests; ``parks``: whether its script may park it."""

    jobs: dict[str, int] = field(default_factory=dict)
    asked: dict[str, LogEntry] = field(default_factory=dict)
    rests: LogEntry | None = None
    parks: bool = False


def count_background(task: TaskEvidence, faults: Iterable[FaultSeen]) -> Counter[str]:
    """The situations of one task. ``faults``: all of the run's."""
    counts: Counter[str] = Counter()
    granted = {one.epoch for one in task.attempts if one.verb is Verb.CLAIM and one.epoch is not None}
    frozen = {
        held.epoch
        for fault in faults
        if fault.kind.startswith("pause")
        for held in fault.held
        if held.task == task.task
    }
    seen = _Seen()
    for entry in task.log:
        counts.update(_of_entry(entry, seen, granted, frozen))
        _follow(entry, seen)
    counts.update(_of_claims(task))
    return +counts


def at_rest(entry: LogEntry, rests: LogEntry | None) -> LogEntry | None:
    """The entry with which a task rests once this one is written; None: it goes on. ``rests``: the same before it. That
    a job has ended wakes a task only between two turns."""
    if isinstance(entry.event, TaskSuspended):
        return entry
    told = isinstance(entry.event, JobEnded | JobLost)
    return rests if told and not _rests_between_turns(rests) else None


def _of_entry(entry: LogEntry, seen: _Seen, granted: Collection[int], frozen: Collection[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    match entry.event:
        case JobStarted():
            counts["job-of-a-child"] += "." in entry.task
        case JobEnded(how=how, exit_code=code):
            counts["job-ended"] += how == "exited"
            counts["job-failed"] += how == "exited" and code != 0
            counts["job-stopped"] += how == "stopped"
            counts["job-killed"] += how == "killed"
            counts["job-woke-its-task"] += _rests_between_turns(seen.rests)
        case JobLost(job_id=job):
            counts["job-lost"] += 1
            counts["job-lost-after-freeze"] += seen.jobs.get(job) in frozen
        case CronFired(missed=missed):
            counts["cron-fired"] += 1
            counts["cron-caught-up"] += missed > 0
        case TaskWoken(event=HumanResponseReceived(handle=handle, text=text)):
            parked = seen.rests is not None and _is_park(seen.rests)
            counts["resumed-from-park"] += parked and handle == NEXT_GOAL
            if handle in seen.asked:
                what = "approval-given" if text == texts.APPROVE else "approval-refused"
                counts[what] += 1
                counts[f"{what}-after-takeover"] += _changed_hands(seen.asked[handle], seen.rests, entry, granted)
        case ToolFinished(source="denied", output=output):
            counts["denied-by-gate"] += not output.startswith(_REFUSED)
        case ToolStarted(start=start) as started:
            counts["call-rewritten"] += start == 1 and isinstance(started.input, dict)
            counts["redriven-under-park"] += start > 1 and seen.parks
        case TaskSuspended():
            counts["parked"] += _is_park(entry)
        case _:
            pass
    return counts


def _follow(entry: LogEntry, seen: _Seen) -> None:
    match entry.event:
        case TaskCreated(goal=goal):
            seen.parks = _parks(goal)
        case JobStarted(job_id=job):
            seen.jobs[job] = entry.epoch
        case ApprovalAsked(wake_on=wake_on):
            seen.asked[wake_on.handle] = entry
        case _:
            pass
    seen.rests = at_rest(entry, seen.rests)


def _rests_between_turns(rests: LogEntry | None) -> bool:
    """Whether whatever the model is told begins a turn."""
    if rests is None or not isinstance(rests.event, TaskSuspended):
        return False
    wake_on = rests.event.wake_on
    return isinstance(wake_on, HumanResponseReceived) and wake_on.handle == NEXT_GOAL


def _is_park(entry: LogEntry) -> bool:
    return isinstance(entry.event, TaskSuspended) and entry.event.reason == texts.ATTEMPT_PARKED


def _changed_hands(asked: LogEntry, rests: LogEntry | None, woken: LogEntry, granted: Collection[int]) -> bool:
    """Whether the worker that asked is not the one that rested on it, or the first one that heard the answer wrote
    nothing."""
    since = asked if rests is None else rests
    return since.epoch != asked.epoch or any(since.epoch < epoch < woken.epoch for epoch in granted)


def _of_claims(task: TaskEvidence) -> Counter[str]:
    counts: Counter[str] = Counter()
    kept = {row.epoch for row in task.rows if row.kept}
    for attempt in task.attempts:
        match attempt.verb, attempt.answer:
            case Verb.RESUME, Answer.OK:
                counts["kept-resumed"] += 1
            case Verb.RELEASE, Answer.OK:
                counts["kept-released"] += attempt.epoch in kept
            case Verb.CLAIM, Answer.OK:
                counts["kept-taken-over"] += attempt.outcome == "kept"
            case _:
                pass
    return counts


def _parks(goal: str) -> bool:
    """Whether the script of this goal asks a person what nobody can tell; other agents have no script."""
    try:
        return from_goal(goal).parks
    except BadScript:
        return False
