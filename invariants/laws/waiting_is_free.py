"""A task that waits holds nothing, and nobody works on it.

What evidence can show of that: its row names no worker, token or lease; nobody writes to it or renews it under the
epoch that suspended it; and its epoch does not rise, so nobody claims it, unless something came for it. A claim that is
kept for the sake of live background jobs is no such wait. That it costs no thread, connection or scan beside other
tasks is measured elsewhere (`bench/`).
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Answer, LogEntry, RunFacts, Sample, TaskEvidence, Verb
from invariants.law import Finding, Law, Tally
from invariants.waits import LiveJobs, Waits
from invariants.wording import instant, kind, row_words
from noeta.core.events import JobEnded, JobLost, TaskSuspended
from noeta.core.task import Status


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Rows that wait, and what was done to the task after each suspension."""
    yield from _rows(task, tally)
    yield from _written(task, run, tally)
    if run.lease:
        yield from _renewed(task, run)


def _waits(row: Sample) -> bool:
    return row.status is Status.SUSPENDED and not row.kept


def _rows(task: TaskEvidence, tally: Tally) -> Iterator[Finding]:
    """Each waiting row, and the next one beside it."""
    before: Sample | None = None
    for row in task.rows:
        if before is not None and row.epoch > before.epoch and row.last_seq == before.last_seq:
            if row.inbox_seq == before.inbox_seq:
                yield Finding(
                    "claimed-while-waiting",
                    f"{task.task} was {row_words(before)} at {instant(before.at)}; but at {instant(row.at)} it was "
                    f"{row_words(row)}, and nothing had come for it in between",
                    (before, row),
                )
        before = row if _waits(row) else None
        if not _waits(row):
            continue
        tally.saw()
        if row.worker is not None or row.token is not None or row.leased:
            yield Finding(
                "held-while-waiting",
                f"{task.task} was {row_words(row)} at {instant(row.at)}; but a task that waits has no worker, token or "
                f"lease",
                (row,),
            )


def _rests(task: TaskEvidence, run: RunFacts) -> Iterator[tuple[LogEntry, LogEntry | None, bool]]:
    """Each entry, with the one before it after which the task rests, if it does, and whether the claim was surely given
    up with that: by its row, or because no live job was left to keep it for."""
    freed = {row.last_seq for row in task.rows if _waits(row)}
    calls, jobs = Waits(), LiveJobs()
    rest: LogEntry | None = None
    is_free = False
    for entry in task.log:
        yield entry, rest, is_free
        calls.see(entry.event)
        jobs.see(entry)
        match entry.event:
            case TaskSuspended():
                rest, is_free = entry, not run.keeps_claims and not jobs.started
            case JobEnded() | JobLost() if rest is not None and not calls.between_turns:
                rest, is_free = entry, False  # its call waits on, or its wake came with the same append
            case _:
                rest, is_free = None, False
        is_free |= rest is not None and rest.seq in freed
    if rest is not None:
        yield rest, rest, is_free


def _written(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """The epoch that suspended a task is over."""
    for entry, rest, is_free in _rests(task, run):
        tally.saw(isinstance(entry.event, TaskSuspended) and entry is not rest)
        if rest is not None and is_free and entry is not rest and entry.epoch == rest.epoch:
            yield Finding(
                "wrote-while-waiting",
                f"{task.holder(rest.epoch)} suspended {task.task} at seq {rest.seq} under epoch {rest.epoch}; but "
                f"seq {entry.seq} {kind(entry.event)} follows under the same epoch; so it had kept the task",
                (rest, entry),
            )


def _renewed(task: TaskEvidence, run: RunFacts) -> Iterator[Finding]:
    """Every grant of the run is for ``lease``, so that its end tells the store's instant at which it was made."""
    suspended = {rest.epoch: rest for _, rest, is_free in _rests(task, run) if rest is not None and is_free}
    for attempt in task.attempts:
        waits = suspended.get(attempt.epoch or 0)
        if waits is None or attempt.verb is not Verb.RENEW or attempt.answer is not Answer.OK:
            continue
        if attempt.lease_until is not None and attempt.lease_until - run.lease > waits.at:
            yield Finding(
                "renewed-while-waiting",
                f"{attempt.worker} was granted a renewal of {task.task} under epoch {attempt.epoch} at "
                f"{instant(attempt.lease_until - run.lease)}; but it had suspended it at {instant(waits.at)}",
                (waits, attempt),
            )


LAW = Law(
    key="waiting-is-free",
    title="Waiting is free",
    statement=(
        "A suspended task without a kept claim has no worker, token or lease; nobody writes to it or renews it under "
        "the epoch that suspended it, and nobody claims it unless something came for it. Only live background jobs "
        "keep a claim."
    ),
    source="Tasks and waking",
    reads="the log, rows that wait, and granted renewals",
    codes={
        "held-while-waiting": "a row that waits names a worker, a token or a lease",
        "wrote-while-waiting": "an entry under the epoch that had suspended the task",
        "renewed-while-waiting": "a renewal granted to the claim that had suspended the task",
        "claimed-while-waiting": "the epoch of a waiting row rose, and nothing had come",
    },
    check=check,
)
