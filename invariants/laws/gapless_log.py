"""The log of a task is a sequence: 1, 2, 3, …, under epochs that never go back."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import instant


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Positions and epochs, each beside the one before it."""
    before: LogEntry | None = None
    for entry in task.log:
        tally.saw()
        yield from _position(task.task, before, entry)
        if before is not None and entry.epoch < before.epoch:
            yield Finding(
                "epoch-back",
                f"seq {entry.seq} of {task.task} stands under epoch {entry.epoch}, after seq {before.seq} under epoch "
                f"{before.epoch}, at {instant(entry.at)}",
                (before, entry),
            )
        before = entry


def _position(task: str, before: LogEntry | None, entry: LogEntry) -> Iterator[Finding]:
    if before is None:
        if entry.seq != 1:
            yield Finding("no-beginning", f"the log of {task} starts at seq {entry.seq}, not at 1", (entry,))
    elif entry.seq <= before.seq:
        yield Finding("repeat", f"seq {entry.seq} of {task} follows seq {before.seq}", (before, entry))
    elif entry.seq != before.seq + 1:
        missing = entry.seq - before.seq - 1
        yield Finding(
            "gap",
            f"seq {entry.seq} of {task} follows seq {before.seq}: {missing} missing in between",
            (before, entry),
        )


LAW = Law(
    key="gapless-log",
    title="Gapless log",
    statement=(
        "The seq of a log starts at 1 and has no gap, and entries of a lower epoch never follow entries of a higher "
        "one."
    ),
    source="A task is a log",
    reads="the log",
    codes={
        "no-beginning": "the first entry is not seq 1",
        "gap": "a seq is missing",
        "repeat": "a seq comes twice or out of order",
        "epoch-back": "an entry of a lower epoch follows one of a higher epoch",
    },
    check=check,
)
