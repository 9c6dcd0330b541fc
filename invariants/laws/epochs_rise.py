"""A task's epoch never goes back, and one epoch names one owner.

Owners are seen in sampled rows and in what workers recorded of their own claims; a cancel that ended its task took an
epoch as well, and is the only one who stands behind it. Rows are compared in the order in which one sampler read them;
the final row is the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from invariants.evidence import Attempt, RunFacts, Sample, TaskEvidence, Verb
from invariants.law import Finding, Law, Tally
from invariants.wording import instant


@dataclass(frozen=True, slots=True)
class _Owner:
    worker: str
    token: str
    seen: Sample | Attempt


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Epochs over time, and who stood behind each."""
    yield from _never_back(task, tally)
    yield from _one_owner(task, tally)


def _never_back(task: TaskEvidence, tally: Tally) -> Iterator[Finding]:
    highest: Sample | None = None
    for row in task.rows:
        tally.saw()
        if highest is not None and row.epoch < highest.epoch:
            yield Finding(
                "epoch-back",
                f"the epoch of {task.task} was {highest.epoch} at {instant(highest.at)}; but it was {row.epoch} at "
                f"{instant(row.at)}; so it went back",
                (highest, row),
            )
        else:
            highest = row
    newest = max(task.log, key=lambda entry: entry.epoch, default=None)
    if task.final is not None and newest is not None and newest.epoch > task.final.row.epoch:
        yield Finding(
            "epoch-back",
            f"seq {newest.seq} of {task.task} was written under epoch {newest.epoch}; but the row ends with epoch "
            f"{task.final.row.epoch}; so it went back",
            (newest, task.final),
        )


def _one_owner(task: TaskEvidence, tally: Tally) -> Iterator[Finding]:
    owners: dict[int, _Owner] = {}
    told: set[tuple[int, str, str]] = set()
    for epoch, owner in _owners(task):
        tally.saw()
        first = owners.setdefault(epoch, owner)
        other = (epoch, owner.worker, owner.token)
        if (first.worker, first.token) != (owner.worker, owner.token) and other not in told:
            told.add(other)
            yield Finding(
                "two-owners",
                f"epoch {epoch} of {task.task} belongs to {first.worker} with token {first.token}; but also to "
                f"{owner.worker} with token {owner.token}; so one epoch names two owners",
                (first.seen, owner.seen),
            )


def _owners(task: TaskEvidence) -> Iterator[tuple[int, _Owner]]:
    """Every sight of an owner. A worker's own record counts whatever was answered: it acted as that owner."""
    for attempt in task.attempts:
        if attempt.epoch is not None and attempt.verb is Verb.POST:
            yield attempt.epoch, _Owner(attempt.worker, f"of a cancel, {attempt.id}", attempt)
        elif attempt.epoch is not None and attempt.token is not None:
            yield attempt.epoch, _Owner(attempt.worker, attempt.token, attempt)
    for row in task.rows:
        if row.worker is not None and row.token is not None:
            yield row.epoch, _Owner(row.worker, row.token, row)


LAW = Law(
    key="epochs-rise",
    title="Epochs rise",
    statement="A task's epoch never goes back, and one epoch names one owner (worker and claim token).",
    source="One writer and crash recovery; the cluster test's sampled rows",
    reads="sampled rows, and what workers recorded of their claims",
    codes={
        "epoch-back": "a later row, or the final one, has a lower epoch",
        "two-owners": "one epoch was held by two workers or under two tokens",
    },
    check=check,
)
