"""A task that waits holds nothing, and nobody works on it.

What evidence can show of that: its row names no worker, token or lease; nobody writes to it or renews it under the
epoch that suspended it; and its epoch does not rise, so nobody claims it, unless something came for it. A kept claim is
no such wait. That it costs no thread, connection or scan beside other tasks is measured elsewhere (`bench/`).
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Answer, LogEntry, RunFacts, Sample, TaskEvidence, Verb
from invariants.law import Finding, Law, Tally
from invariants.wording import instant, kind, row_words
from noeta.core.events import TaskSuspended
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


def _written(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """The epoch that suspended a task is over."""
    freed = {row.last_seq for row in task.rows if _waits(row)}
    waits: LogEntry | None = None
    for entry in task.log:
        given_up = waits is not None and (not run.keeps_claims or waits.seq in freed)
        if waits is not None and given_up and entry.epoch == waits.epoch:
            yield Finding(
                "wrote-while-waiting",
                f"{task.holder(waits.epoch)} suspended {task.task} at seq {waits.seq} under epoch {waits.epoch}; but "
                f"seq {entry.seq} {kind(entry.event)} follows under the same epoch; so it had kept the task",
                (waits, entry),
            )
        waits = entry if isinstance(entry.event, TaskSuspended) else None
        tally.saw(waits is not None)


def _renewed(task: TaskEvidence, run: RunFacts) -> Iterator[Finding]:
    """Every grant of the run is for ``lease``, so that its end tells the store's instant at which it was made."""
    freed = {row.last_seq for row in task.rows if _waits(row)}
    suspended = {
        entry.epoch: entry
        for entry in task.log
        if isinstance(entry.event, TaskSuspended) and (not run.keeps_claims or entry.seq in freed)
    }
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
        "the epoch that suspended it, and nobody claims it unless something came for it."
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
