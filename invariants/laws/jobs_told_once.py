"""A background job ends in the log, once, and its model hears of it, once.

A job belongs to the claim under which it was started. Its owner records its end under that epoch; whoever claims the
task after that has lost it, and says so before it asks the model anew or lets the task rest. What a job writes, outside
the store, shows whether it was true: nothing before its start was durable, and nothing once the log says that it has
ended, is lost, or its task has ended.

A task that was ended from outside has nobody who could tell: a cancel of what nobody runs takes an epoch of its own,
and where the store, or a claimer that did not load the task, writes the failure, the jobs stay untold.

A row under which nobody holds the job is judged only where the task rests. One that is pending, or runs under a higher
epoch, has yet to tell with its next step; whether it takes that step is ``never-stuck``'s question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from invariants.evidence import Answer, JobLine, LogEntry, RunFacts, TaskEvidence, Verb
from invariants.law import Fact, Finding, Law, Tally
from invariants.wording import instant, kind
from noeta.core import texts
from noeta.core.errors import UnreadableLog
from noeta.core.events import (
    Ending,
    Entry,
    JobEnded,
    JobLost,
    JobStarted,
    ModelCalled,
    ModelReplied,
    TaskCancelled,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    TurnFailed,
)
from noeta.core.fold import TaskState, advance
from noeta.core.model import UserSaid
from noeta.core.task import Shape
from noeta.core.telling import told_of_job

UNLOADED: Final = frozenset({texts.TOO_MANY_FAILURES, texts.TOO_MANY_TAKEOVERS, texts.UNREADABLE_LOG})
"""The failures that are written without the log having been read."""


@dataclass(slots=True)
class _Jobs:
    """``live``: neither ended nor lost, in the order of their starts, which is that of their epochs; ``called``: the
    model call before the newest entry, and whether it is open; ``untold``: the end that no model call has followed."""

    started: dict[str, LogEntry] = field(default_factory=dict)
    ended: dict[str, LogEntry] = field(default_factory=dict)
    live: dict[str, LogEntry] = field(default_factory=dict)
    before: LogEntry | None = None
    called: LogEntry | None = None
    is_open: bool = False
    untold: LogEntry | None = None
    ending: LogEntry | None = None


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Each job from its start to its end, and what it wrote beside that."""
    jobs = _Jobs()
    for entry in task.log:
        match entry.event:
            case JobStarted(job_id=job):
                tally.saw()
                tally.counts["jobs started"] += 1
                yield from _started(task, jobs, entry, job)
            case JobEnded(job_id=job) | JobLost(job_id=job):
                yield from _ended(task, jobs, entry, job, tally)
            case ModelCalled():
                yield from _asked(task, jobs, entry)
            case ModelReplied() | TurnFailed() | TaskWoken():
                jobs.is_open = False
            case TaskSuspended():
                jobs.is_open = False
                yield from _older(task, jobs, entry)
            case event if isinstance(event, Ending) and jobs.ending is None:
                jobs.ending = entry
                yield from _left(task, jobs, entry, tally)
            case _:
                pass
        jobs.before = entry
    yield from _told(task, jobs, tally)
    yield from _forgotten(task, jobs, run)
    yield from _written(task, jobs, tally)


def _started(task: TaskEvidence, jobs: _Jobs, entry: LogEntry, job: str) -> Iterator[Finding]:
    first, before = jobs.started.setdefault(job, entry), jobs.before
    if first is not entry:
        yield Finding(
            "started-twice",
            f"job {job} of {task.task} was started at seq {first.seq} and again at seq {entry.seq}",
            (first, entry),
        )
        return
    jobs.live[job] = entry
    asked = before is not None and before.epoch == entry.epoch and isinstance(before.event, ToolFinished)
    if not asked or before is None or before.event.call_id != job or before.event.is_error:  # type: ignore[union-attr]
        yield Finding(
            "started-unasked",
            f"seq {entry.seq} of {task.task} starts job {job}; but the entry before it is not the result of that call",
            (entry,) if before is None else (before, entry),
        )


def _ended(task: TaskEvidence, jobs: _Jobs, entry: LogEntry, job: str, tally: Tally) -> Iterator[Finding]:
    start, before = jobs.started.get(job), jobs.ended.setdefault(job, entry)
    jobs.live.pop(job, None)
    if start is None:
        yield Finding(
            "ended-unstarted",
            f"seq {entry.seq} {kind(entry.event)} of {task.task} is about job {job}, which no entry started",
            (entry,),
        )
        return
    if before is not entry:
        yield Finding(
            "ended-twice",
            f"job {job} of {task.task} has {kind(before.event)} at seq {before.seq}, and {kind(entry.event)} at seq "
            f"{entry.seq}",
            (start, before, entry),
        )
        return
    jobs.untold = entry
    is_lost = isinstance(entry.event, JobLost)
    tally.counts["jobs lost" if is_lost else f"jobs {entry.event.how}"] += 1  # type: ignore[union-attr]
    if is_lost and entry.epoch <= start.epoch:
        yield Finding(
            "lost-alive",
            f"{task.holder(entry.epoch)} recorded job {job} of {task.task} as lost at seq {entry.seq} under epoch "
            f"{entry.epoch}; but the claim that started it at seq {start.seq} was that one; so its owner was there",
            (start, entry),
        )
    elif not is_lost and entry.epoch != start.epoch:
        yield Finding(
            "ended-elsewhere",
            f"{task.holder(entry.epoch)} recorded the end of job {job} of {task.task} at seq {entry.seq} under epoch "
            f"{entry.epoch}; but it was started at seq {start.seq} under epoch {start.epoch}, and ends with that claim",
            (start, entry),
        )


def _asked(task: TaskEvidence, jobs: _Jobs, entry: LogEntry) -> Iterator[Finding]:
    """The model is asked: of all that was lost before, it is told now, unless an open call is made again."""
    before, called = jobs.untold, jobs.called
    assert isinstance(entry.event, ModelCalled)
    if before is not None and called is not None and isinstance(called.event, ModelCalled):
        if called.event.request_hash == entry.event.request_hash:
            yield Finding(
                "untold",
                f"seq {before.seq} {kind(before.event)} of {task.task} is what the model must hear next; but the "
                f"request of seq {entry.seq} is the one of seq {called.seq}, from before it",
                (called, before, entry),
            )
    if not jobs.is_open:
        yield from _older(task, jobs, entry)
    jobs.called, jobs.is_open, jobs.untold = entry, True, None


def _older(task: TaskEvidence, jobs: _Jobs, entry: LogEntry) -> Iterator[Finding]:
    """Jobs of a claim before this one, which must have been told as lost by now."""
    while jobs.live:
        job, start = next(iter(jobs.live.items()))
        if start.epoch >= entry.epoch:
            return
        del jobs.live[job]
        yield Finding(
            "job-forgotten",
            f"{task.holder(start.epoch)} started job {job} of {task.task} at seq {start.seq} under epoch "
            f"{start.epoch}; but {task.holder(entry.epoch)} wrote seq {entry.seq} {kind(entry.event)} under epoch "
            f"{entry.epoch}, and had not told that it is lost",
            (start, entry),
        )


def _left(task: TaskEvidence, jobs: _Jobs, entry: LogEntry, tally: Tally) -> Iterator[Finding]:
    """A task has ended: so have its jobs, and its log says so."""
    if not jobs.live:
        return
    if _from_outside(task, jobs, entry):
        tally.counts["jobs of tasks ended from outside"] += len(jobs.live)
        jobs.live.clear()
        return
    for job, start in jobs.live.items():
        yield Finding(
            "job-unended",
            f"{task.task} ended at seq {entry.seq} with {kind(entry.event)}; but what became of job {job}, started at "
            f"seq {start.seq}, is not in its log",
            (start, entry),
        )
    jobs.live.clear()


def _from_outside(task: TaskEvidence, jobs: _Jobs, entry: LogEntry) -> bool:
    """Whether nobody who had read the log wrote this end."""
    match entry.event:
        case TaskFailed(reason=reason):
            return reason in UNLOADED
        case TaskCancelled():
            own = jobs.before is None or jobs.before.epoch < entry.epoch
            return own and not any(
                one.verb in (Verb.CLAIM, Verb.RENEW, Verb.APPEND)
                and one.answer is Answer.OK
                and one.epoch == entry.epoch
                for one in task.attempts
            )
        case _:
            return False


def _told(task: TaskEvidence, jobs: _Jobs, tally: Tally) -> Iterator[Finding]:
    """The fold puts the words about each job into what the model is sent: with its first end, and never again."""
    if not jobs.ended:
        return
    state = TaskState(task.task)
    for entry in task.log:
        before = len(state.said)
        try:
            advance(state, Entry(entry.seq, entry.epoch, entry.at, entry.event, ""))
        except UnreadableLog as error:
            tally.doubt(f"the log of {task.task} does not fold: {error}")
            return
        if not isinstance(entry.event, JobEnded | JobLost):
            continue
        job = entry.event.job_id
        is_first = job in jobs.started and jobs.ended[job] is entry
        if state.said[before:] != ([UserSaid(told_of_job(entry.event))] if is_first else []):
            yield Finding(
                "untold",
                f"seq {entry.seq} {kind(entry.event)} of {task.task} adds {len(state.said) - before} words to what its "
                f"model is sent, which are not what became of job {job}, told once",
                (entry,),
            )


def _forgotten(task: TaskEvidence, jobs: _Jobs, run: RunFacts) -> Iterator[Finding]:
    """The task rests, and nobody holds the claim under which a job was started."""
    final = task.final
    if final is None or not jobs.live or not task.log or final.at - task.log[-1].at <= run.stuck_after:
        return
    shape = final.row.shape
    for job, start in jobs.live.items():
        if shape is Shape.SUSPENDED or (shape is Shape.KEPT and final.row.epoch != start.epoch):
            yield Finding(
                "job-forgotten",
                f"job {job} of {task.task} was started at seq {start.seq} under epoch {start.epoch}, and its log knows "
                f"no end of it; but the task is {shape.value} under epoch {final.row.epoch} since "
                f"{instant(task.log[-1].at)}",
                (start, final),
            )


def _written(task: TaskEvidence, jobs: _Jobs, tally: Tally) -> Iterator[Finding]:
    """What each job wrote, beside its start and its end."""
    tally.counts["lines of jobs"] += len(task.job_lines)
    for job, lines in _by_job(task).items():
        start, end = jobs.started.get(job), jobs.ended.get(job)
        oldest = min(lines, key=lambda line: line.at + line.error)
        if start is None or oldest.at + oldest.error < start.at:
            since = "has no such job" if start is None else f"starts it at {instant(start.at)}"
            yield Finding(
                "ran-unlogged",
                f"job {job} of {task.task} wrote at {instant(oldest.at)}; but the log {since}",
                (oldest,) if start is None else (oldest, start),
            )
        newest = max(lines, key=lambda line: line.at - line.error)
        yield from _after(task, job, newest, end, jobs.ending)


def _by_job(task: TaskEvidence) -> Mapping[str, list[JobLine]]:
    lines: defaultdict[str, list[JobLine]] = defaultdict(list)
    for line in task.job_lines:
        lines[line.job].append(line)
    return lines


def _after(
    task: TaskEvidence, job: str, newest: JobLine, end: LogEntry | None, ending: LogEntry | None
) -> Iterator[Finding]:
    """The newest line of a job beside the entry after which there is none."""
    entry = end or ending
    if entry is None or newest.at - newest.error <= entry.at:
        return
    match entry.event:
        case JobLost():
            code, what = "written-after-lost", "it is lost"
        case JobEnded():
            code, what = "written-after-ended", "it has ended"
        case _:
            code, what = "outlived-task", "its task has ended"
    witnesses: tuple[Fact, ...] = (entry, newest)
    yield Finding(
        code,
        f"seq {entry.seq} {kind(entry.event)} of {task.task} says at {instant(entry.at)} that {what}; but job {job} "
        f"wrote at {instant(newest.at)}; so something of it still ran",
        witnesses,
    )


LAW = Law(
    key="jobs-told-once",
    title="Jobs are told once",
    statement=(
        "Every background job that was started ends in the log, once: under the epoch that started it, or as lost "
        "under a higher one, before that one asks the model anew, rests or ends the task (a task ended by who has not "
        "read its log aside); the model is told of it once; and nothing of it writes before its start is durable, or "
        "after its end."
    ),
    source="Background jobs; One writer and crash recovery (what a lost worker leaves behind)",
    reads="the log, the final rows, and what jobs wrote",
    codes={
        "started-twice": "two entries start one job",
        "started-unasked": "a job that does not come with the result of its call, or of one that failed",
        "ended-unstarted": "the end of a job that no entry started",
        "ended-twice": "a job has ended, or is lost, more than once",
        "ended-elsewhere": "the end of a job under another epoch than its start",
        "lost-alive": "a job recorded as lost by the claim that started it",
        "job-unended": "a task ended, and the log does not say what became of its job",
        "job-forgotten": "a later owner went on, or the task rests, and nobody said that the job is lost",
        "untold": "the end of a job is not what the model is told with its next request, once",
        "ran-unlogged": "a job wrote before its start was in the log, or without one",
        "written-after-ended": "a job wrote after the log said that it has ended",
        "written-after-lost": "a job wrote after the log said that it is lost",
        "outlived-task": "a job wrote after its task had ended",
    },
    check=check,
)
