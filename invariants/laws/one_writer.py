"""No entry was written by anybody but the task's owner of that moment.

The log alone shows a late writer when its epoch is lower than the one before it. A sampled row, or an answered
claim, shows more: *when the epoch was e the log ended at s*, so that whatever stands after s under a lower epoch
was written by somebody who had already been replaced, even if the new owner wrote nothing. That comparison
needs no clock.

One entry is written without a claim: the ``TaskCancelled`` of a task that nobody runs, by the post that cancels it,
under the epoch that it takes. Where every write was recorded, a post must explain it.

Not covered: writes to systems other than the store (``effect-at-most-once``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from invariants.evidence import Answer, Attempt, LogEntry, RunFacts, Sample, TaskEvidence, Verb
from invariants.law import Finding, Law, Tally
from invariants.wording import instant, span
from noeta.core.events import TaskCancelled

_GRANTS = (Verb.CLAIM, Verb.RENEW)

CLOCK_BACK_MAX: Final = 1_000_000
"""How far (microseconds) a store's one clock may be set back without looking like two clocks."""


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """The writers of one task, entry by entry."""
    tally.saw(sum(entry.epoch > 0 for entry in task.log))
    yield from _lower_epochs(task)
    yield from _replaced_writers(task)
    yield from _shared_epochs(task)
    yield from _wrong_seqs(task)
    if run.renewals_recorded:
        yield from _unposted_cancels(task)
        yield from _late_appends(task)
        yield from _two_clocks(task)
        if run.lease:
            yield from _late_renewals(task, run.lease)


def _lower_epochs(task: TaskEvidence) -> Iterator[Finding]:
    newest: LogEntry | None = None
    for entry in task.log:
        if newest is not None and entry.epoch < newest.epoch:
            yield Finding(
                "zombie-append",
                f"{task.holder(entry.epoch)} appended seq {entry.seq} to {task.task} under epoch {entry.epoch} at "
                f"{instant(entry.at)}; but {task.holder(newest.epoch)} held {task.task} as epoch {newest.epoch} and "
                f"had appended seq {newest.seq}; so two workers wrote",
                (newest, entry),
            )
        elif newest is None or entry.epoch > newest.epoch:
            newest = entry


def _replaced_writers(task: TaskEvidence) -> Iterator[Finding]:
    """Entries beside what rows and claims say of who owned the task when the log had a given length."""
    owners = _owners_by_length(task)
    newest: tuple[int, Sample | Attempt] | None = None
    fence: LogEntry | None = None
    for entry in task.log:
        for epoch, witness in owners.get(entry.seq - 1, ()):
            if newest is None or epoch > newest[0]:
                newest = (epoch, witness)
        in_log = fence is not None and fence.epoch > entry.epoch
        if newest is not None and entry.epoch < newest[0] and not in_log:
            yield Finding(
                "zombie-append",
                f"{task.holder(entry.epoch)} appended seq {entry.seq} to {task.task} under epoch {entry.epoch} at "
                f"{instant(entry.at)}; but {task.holder(newest[0])} had claimed {task.task} as epoch {newest[0]} when "
                f"its log ended at or before seq {entry.seq - 1}; so a replaced worker wrote",
                (newest[1], entry),
            )
        if fence is None or entry.epoch > fence.epoch:
            fence = entry
    yield from _unclaimed(task)


def _owners_by_length(task: TaskEvidence) -> dict[int, list[tuple[int, Sample | Attempt]]]:
    owners: dict[int, list[tuple[int, Sample | Attempt]]] = defaultdict(list)
    for row in task.rows:
        owners[row.last_seq].append((row.epoch, row))
    for attempt in task.attempts:
        granted = attempt.verb is Verb.CLAIM and attempt.answer is Answer.OK
        if granted and attempt.epoch is not None and attempt.answer_seq is not None:
            owners[attempt.answer_seq].append((attempt.epoch, attempt))
    return owners


def _unclaimed(task: TaskEvidence) -> Iterator[Finding]:
    """Entries that stood in the log while the row's epoch was still lower: nobody had been given theirs."""
    rows = task.rows
    lowest: dict[int, Sample] = {}
    for row in rows:
        before = lowest.get(row.last_seq)
        if before is None or row.epoch < before.epoch:
            lowest[row.last_seq] = row
    least: Sample | None = None
    for entry in reversed(task.log):
        row_here = lowest.get(entry.seq)
        if row_here is not None and (least is None or row_here.epoch < least.epoch):
            least = row_here
        if least is not None and entry.epoch > least.epoch:
            yield Finding(
                "unclaimed-epoch",
                f"seq {entry.seq} of {task.task} stands under epoch {entry.epoch}, but at {instant(least.at)} the log "
                f"already reached seq {least.last_seq} and the row's epoch was only {least.epoch}",
                (entry, least),
            )


def _shared_epochs(task: TaskEvidence) -> Iterator[Finding]:
    """Two claim tokens whose appends both landed under one epoch."""
    log = {entry.seq: entry for entry in task.log}
    landed: dict[int, Attempt] = {}
    for attempt in task.attempts:
        if attempt.verb is not Verb.APPEND or attempt.answer is not Answer.OK or attempt.epoch is None:
            continue
        entry = log.get(attempt.first_seq)
        if not attempt.hashes or entry is None or entry.body_hash != attempt.hashes[0]:
            continue
        first = landed.setdefault(attempt.epoch, attempt)
        if first.token != attempt.token:
            yield Finding(
                "shared-epoch",
                f"{first.worker} appended seq {first.first_seq} to {task.task} under epoch {attempt.epoch} with token "
                f"{first.token}; but {attempt.worker} appended seq {attempt.first_seq} under the same epoch with token "
                f"{attempt.token}; so two claims wrote as one",
                (first, attempt),
            )


def _wrong_seqs(task: TaskEvidence) -> Iterator[Finding]:
    """An append that named an older end of the log than its answer shows: somebody wrote in between unseen."""
    for attempt in task.attempts:
        if attempt.verb is not Verb.APPEND or attempt.answer is not Answer.OK or attempt.answer_seq is None:
            continue
        if attempt.expected_seq is not None and attempt.answer_seq > attempt.expected_seq + attempt.count:
            yield Finding(
                "stale-seq",
                f"{attempt.worker} appended {attempt.count} entries to {task.task} expecting seq "
                f"{attempt.expected_seq}, and was told that the log now ends at {attempt.answer_seq}; so it wrote over "
                "a log that it had not read",
                (attempt,),
            )


def _unposted_cancels(task: TaskEvidence) -> Iterator[Finding]:
    """Cancelled ends under an epoch that no worker is known to have had, and that no cancelling post explains."""
    cancels = [entry for entry in task.log if isinstance(entry.event, TaskCancelled)]
    if not cancels:
        return
    owned = {row.epoch for row in task.rows if row.worker is not None}
    owned |= {one.epoch for one in task.attempts if one.epoch is not None and one.verb is not Verb.POST}
    for entry in cancels:
        if entry.epoch not in owned and not any(_may_have_cancelled(one, entry) for one in task.attempts):
            yield Finding(
                "uncaused-cancel",
                f"seq {entry.seq} of {task.task} ends it under epoch {entry.epoch} at {instant(entry.at)}; but no "
                f"worker held that epoch, and no cancel that was posted explains it",
                (entry,),
            )


def _may_have_cancelled(attempt: Attempt, entry: LogEntry) -> bool:
    """Whether this post wrote that entry, or may have: its answer named it, or it had none."""
    if attempt.verb is not Verb.POST or attempt.hashes[:1] != (entry.body_hash,):
        return False
    return attempt.is_open or (attempt.epoch, attempt.answer_seq) == (entry.epoch, entry.seq)


def _late_appends(task: TaskEvidence) -> Iterator[Finding]:
    """Entries later, by the store's clock, than every lease their claim was ever granted."""
    ends: dict[int, int] = {}
    vague: set[int] = set()
    claimed: set[int] = set()
    for attempt in task.attempts:
        if attempt.epoch is None or attempt.verb not in _GRANTS:
            continue
        if attempt.is_open:
            vague.add(attempt.epoch)
        elif attempt.answer is Answer.OK and attempt.lease_until is not None:
            claimed.add(attempt.epoch)
            ends[attempt.epoch] = max(ends.get(attempt.epoch, 0), attempt.lease_until)
    for entry in task.log:
        if entry.epoch in claimed and entry.epoch not in vague and entry.at > ends[entry.epoch]:
            over = ends[entry.epoch]
            yield Finding(
                "after-lease",
                f"{task.holder(entry.epoch)} appended seq {entry.seq} to {task.task} at {instant(entry.at)}; but its "
                f"lease had ended at {instant(over)}, {span(entry.at - over)} before, and was never renewed",
                (entry,),
            )


def _two_clocks(task: TaskEvidence) -> Iterator[Finding]:
    """Entries whose instants go back: a lease that one of them was judged by means nothing to the other."""
    before: LogEntry | None = None
    for entry in task.log:
        if before is not None and entry.at + CLOCK_BACK_MAX < before.at:
            yield Finding(
                "two-clocks",
                f"{task.holder(before.epoch)} appended seq {before.seq} to {task.task} at {instant(before.at)}; but "
                f"{task.holder(entry.epoch)} appended seq {entry.seq} at {instant(entry.at)}, "
                f"{span(before.at - entry.at)} before; so they were not judged by one clock",
                (before, entry),
            )
        before = entry


def _late_renewals(task: TaskEvidence, lease: int) -> Iterator[Finding]:
    """Renewals granted after the claim's lease had ended, or after the next claim. Every grant of the run is for
    ``lease``, so its end tells the store's instant at which it was made, whatever the sender's clock says."""
    grants: dict[int, list[Attempt]] = defaultdict(list)
    vague: set[int] = set()
    for attempt in task.attempts:
        if attempt.epoch is None or attempt.verb not in _GRANTS:
            continue
        if attempt.is_open:
            vague.add(attempt.epoch)
        elif attempt.answer is Answer.OK and attempt.lease_until is not None:
            grants[attempt.epoch].append(attempt)
    successor: Attempt | None = None
    for epoch in sorted(grants, reverse=True):
        made = sorted(grants[epoch], key=_granted_until)
        late = made[-1]
        if successor is not None and late.verb is Verb.RENEW and _granted_until(late) > _granted_until(successor):
            yield Finding(
                "stale-renewal",
                f"{late.worker} was granted a renewal of {task.task} under epoch {epoch} at "
                f"{instant(_granted_until(late) - lease)}; but {successor.worker} had claimed it as epoch "
                f"{successor.epoch} at {instant(_granted_until(successor) - lease)}",
                (successor, late),
            )
        elif epoch not in vague:
            yield from _revived(task, made, lease)
        claims = [one for one in made if one.verb is Verb.CLAIM]
        if claims and (successor is None or _granted_until(claims[0]) < _granted_until(successor)):
            successor = claims[0]


def _revived(task: TaskEvidence, made: list[Attempt], lease: int) -> Iterator[Finding]:
    for before, after in pairwise(made):
        at = _granted_until(after) - lease
        if after.verb is Verb.RENEW and at > _granted_until(before):
            yield Finding(
                "revived-lease",
                f"{after.worker} was granted a renewal of {task.task} under epoch {after.epoch} at {instant(at)}; but "
                f"its lease had ended at {instant(_granted_until(before))}, {span(at - _granted_until(before))} before",
                (before, after),
            )


def _granted_until(attempt: Attempt) -> int:
    assert attempt.lease_until is not None
    return attempt.lease_until


LAW = Law(
    key="one-writer",
    title="One writer",
    statement=(
        "An append lands only with the task's current epoch and claim token, a lease that is not over by the store's "
        "clock, and the expected seq; otherwise nothing is written. Only the cancel of a task that nobody runs needs "
        "no claim."
    ),
    source="Kleppmann, How to do distributed locking (fencing tokens); ADR 0001",
    reads="the log; rows and answered claims for writers that the log alone does not show",
    codes={
        "zombie-append": "an entry under a lower epoch than one that was already claimed",
        "unclaimed-epoch": "an entry under an epoch that nobody had been given yet",
        "shared-epoch": "two claim tokens wrote under one epoch",
        "stale-seq": "an append landed although the log had moved past its expected seq",
        "after-lease": "an entry written after the last lease of its claim had ended",
        "two-clocks": "an entry written earlier, by the store's word, than the one before it",
        "stale-renewal": "a renewal granted to a claim that had been replaced",
        "revived-lease": "a renewal granted after the lease had ended",
        "uncaused-cancel": "a cancelled end that neither an owner nor a posted cancel wrote",
    },
    check=check,
)
