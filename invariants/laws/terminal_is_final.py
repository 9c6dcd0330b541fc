"""A task ends once: nothing follows its terminal entry, and its row never leaves the terminal status."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import LogEntry, RunFacts, Sample, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import instant, kind
from noeta.core.events import Ending
from noeta.core.task import Status


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """What comes after the end, in the log and in the rows."""
    yield from _log(task, tally)
    yield from _rows(task, tally)


def _log(task: TaskEvidence, tally: Tally) -> Iterator[Finding]:
    ending: LogEntry | None = None
    for entry in task.log:
        if ending is not None:
            yield Finding(
                "entry-after-end",
                f"{task.task} ended with {kind(ending.event)} at seq {ending.seq}; but seq {entry.seq} "
                f"{kind(entry.event)} follows under epoch {entry.epoch} at {instant(entry.at)}",
                (ending, entry),
            )
        elif isinstance(entry.event, Ending):
            tally.saw()
            ending = entry


def _rows(task: TaskEvidence, tally: Tally) -> Iterator[Finding]:
    ended: Sample | None = None
    for row in task.rows:
        if ended is None:
            if row.status is Status.TERMINAL:
                tally.saw()
                ended = row
            continue
        if row.status is not Status.TERMINAL:
            yield Finding(
                "left-terminal",
                f"the row of {task.task} was terminal at {instant(ended.at)}; but it was {row.status.value} under "
                f"epoch {row.epoch} at {instant(row.at)}",
                (ended, row),
            )
        elif row.last_seq != ended.last_seq:
            yield Finding(
                "grew-after-end",
                f"the row of {task.task} was terminal with last seq {ended.last_seq} at {instant(ended.at)}; but its "
                f"last seq was {row.last_seq} at {instant(row.at)}",
                (ended, row),
            )


LAW = Law(
    key="terminal-is-final",
    title="The end is final",
    statement="Nothing follows the terminal entry, and nothing leaves the terminal status.",
    source="Tasks and waking (the four statuses)",
    reads="the log, and rows of ended tasks",
    codes={
        "entry-after-end": "an entry stands after the terminal one",
        "left-terminal": "a terminal row became something else",
        "grew-after-end": "the last seq of a terminal row changed",
    },
    check=check,
)
