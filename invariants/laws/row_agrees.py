"""The row is what the log says, as far as it must be.

A row is an accelerator: a wake, claim, release or sweep moves it without an entry. So each row seen is compared
with the fold of the log up to *its own* ``last_seq``, in the stated relation:

* fold suspended on c: the row is suspended on exactly c, or pending or running with an unread item or the end of its
  wait due, or it comes from a kept claim: resumed by its owner, lapsed or released (until its next entry);
* fold pending or running: the row is pending or running;
* fold terminal: the row is terminal, and no other row is;
* an owner if and only if the row is running or kept;
* a suspended row is kept if and only if the fold has live background jobs (``RunFacts.keeps_claims``: or for whatever
  else keeps claims in this run).

The fold is advanced once through the log; rows are looked up by their ``last_seq``, so the pass is linear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from invariants.evidence import LogEntry, RunFacts, Sample, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import instant, item_words, row_words
from noeta.core.errors import UnreadableLog
from noeta.core.events import Entry
from noeta.core.fold import TaskState, advance
from noeta.core.ids import micros
from noeta.core.task import Status
from noeta.core.wake import WakeCondition, due_at

_UNDERWAY = frozenset({Status.PENDING, Status.RUNNING})


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Each row beside the fold of the log up to its last seq."""
    rows: dict[int, list[Sample]] = defaultdict(list)
    for row in task.rows:
        rows[row.last_seq].append(row)
        yield from _owner(task.task, row)
    state = TaskState(task.task)
    for entry in task.log:
        try:
            advance(state, Entry(entry.seq, entry.epoch, entry.at, entry.event, ""))
        except UnreadableLog as error:
            tally.doubt(f"the log of {task.task} does not fold: {error}")
            return
        here = rows.get(entry.seq, ())
        tally.saw(len(here))
        yield from _at(task.task, here, entry, state, run)
    yield from _length(task)


def _owner(task: str, row: Sample) -> Iterator[Finding]:
    owned = row.worker is not None or row.token is not None
    if owned != (row.kept or row.status is Status.RUNNING):
        yield Finding(
            "owner",
            f"the row of {task} is {row_words(row)} at {instant(row.at)}; but only a running or kept task has an "
            f"owner, and every one has",
            (row,),
        )


def _at(
    task: str, rows: tuple[()] | list[Sample], entry: LogEntry, state: TaskState, run: RunFacts
) -> Iterator[Finding]:
    """The rows seen when the log ended with this entry, in order of time."""
    status, wake_on = state.status, state.wake_on
    may_be_kept = run.keeps_claims or bool(state.jobs)
    for row in rows:
        if row.status is Status.SUSPENDED:
            yield from _kept_for(task, row, entry, state, run)
            may_be_kept &= row.kept
        code = _differs(row, status, wake_on, may_be_kept)
        if code is not None:
            waits = f" on {item_words(wake_on)}" if wake_on is not None else ""
            yield Finding(
                code,
                f"the log of {task} up to seq {entry.seq} folds to {status.value}{waits}; but the row at "
                f"{instant(row.at)} was {row_words(row)}, with {row.unread} unread",
                (entry, row),
            )


def _kept_for(task: str, row: Sample, entry: LogEntry, state: TaskState, run: RunFacts) -> Iterator[Finding]:
    """Whether the claim of a task that rests is kept as its jobs want it."""
    if row.kept and not state.jobs and not run.keeps_claims:
        yield Finding(
            "kept-for-nothing",
            f"the row of {task} was {row_words(row)} at {instant(row.at)}; but the log up to seq {entry.seq} has no "
            f"live job that the claim is kept for",
            (entry, row),
        )
    elif state.jobs and not row.kept:
        yield Finding(
            "jobs-let-go",
            f"the log of {task} up to seq {entry.seq} has live jobs, {', '.join([*state.jobs][:5])}; but the row at "
            f"{instant(row.at)} was {row_words(row)}, and not kept; so nobody looks after them",
            (entry, row),
        )


def _differs(row: Sample, status: Status, wake_on: WakeCondition | None, may_be_kept: bool) -> str | None:
    """How the row breaks the relation; None if it does not."""
    if (status is Status.TERMINAL) != (row.status is Status.TERMINAL):
        return "row-not-ended" if status is Status.TERMINAL else "row-ended"
    if status in _UNDERWAY:
        return "row-waits" if row.status is Status.SUSPENDED else None
    if status is Status.SUSPENDED:
        if row.status is Status.SUSPENDED:
            return None if row.wake_on == wake_on else "other-wait"
        due = None if wake_on is None else due_at(wake_on)
        is_due = due is not None and micros(due) <= row.at
        return None if row.unread or is_due or may_be_kept else "woken-by-nothing"
    return None


def _length(task: TaskEvidence) -> Iterator[Finding]:
    last = task.log[-1].seq if task.log else 0
    if task.final is not None and task.final.row.last_seq != last:
        yield Finding(
            "last-seq",
            f"the row of {task.task} says that its log ends at seq {task.final.row.last_seq}; but it ends at seq "
            f"{last}",
            (task.final,),
        )
    ahead = max((row for row in task.samples if row.last_seq > last), key=lambda row: row.last_seq, default=None)
    if ahead is not None:
        yield Finding(
            "last-seq",
            f"the row of {task.task} said at {instant(ahead.at)} that its log reached seq {ahead.last_seq}; but the "
            f"log ends at seq {last}",
            (ahead,),
        )


LAW = Law(
    key="row-agrees",
    title="Row and log agree",
    statement="The task row at its last seq stands in the stated relation to the fold of the log up to there.",
    source="Tasks and waking; A task is a log",
    reads="the log, and rows over time",
    codes={
        "row-not-ended": "the log has ended, the row has not",
        "row-ended": "the row has ended, the log has not",
        "row-waits": "the row is suspended, the log is in the middle of a turn",
        "other-wait": "the row waits for something else than the log",
        "woken-by-nothing": "the row left its wait without an item, a due timer or a kept claim",
        "kept-for-nothing": "a claim is kept while its task rests, and no job of it is live",
        "jobs-let-go": "a task rests with live jobs, and its claim is not kept",
        "owner": "an owner without a running or kept task, or the other way round",
        "last-seq": "the row names another end of the log than it has",
    },
    check=check,
)
