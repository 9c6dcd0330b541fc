"""What the store answered is what the log holds.

Judged by the identity of each entry of each attempt: (epoch, claim token, seq, hash of its bytes). The log does
not say the token; where two attempts could be the one that wrote an entry, one that was acknowledged explains it,
and then one whose answer nobody got. Only an entry that no such attempt explains convicts a refused one.

A ``TaskCompleted`` is the one entry that may be left out of a commit that was acknowledged: the inbox had moved
and the answer said so. A ``fail`` writes its entry only where it hits the bound, and a cancel only where nobody runs
the task: without an answer nobody knows whether and at which seq, so it is looked for by epoch and hash, a cancel's by
its hash alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from invariants.evidence import Answer, Attempt, LogEntry, RunFacts, TaskEvidence, Verb
from invariants.law import Finding, Law, Tally
from invariants.wording import answered, seqs

_WRITES_ENTRIES = (Verb.APPEND, Verb.CREATE, Verb.FAIL, Verb.POST)


@dataclass(frozen=True, slots=True)
class _Identity:
    """An entry as its writer knew it. ``epoch`` None: a create, whose sender knows no epoch."""

    epoch: int | None
    seq: int
    hash: str


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Every recorded write of entries beside the final log."""
    log = {entry.seq: entry for entry in task.log}
    writes = [_placed(one, task.log) for one in task.attempts if one.hashes and one.verb in _WRITES_ENTRIES]
    explained: set[_Identity] = set()
    acknowledged: set[_Identity] = set()
    for attempt in writes:
        if not _wrote_nothing(attempt):
            claimed = _identities(attempt)[: _promised(attempt)]
            explained.update(claimed)
            if attempt.answer is Answer.OK:
                acknowledged.update(claimed)
    for attempt in writes:
        tally.saw(attempt.count)
        if attempt.answer is Answer.OK:
            yield from _acknowledged(task.task, attempt, log, explained)
        elif _wrote_nothing(attempt):
            yield from _refused(task.task, attempt, _identities(attempt), log, explained)
        else:
            yield from _open(task.task, attempt, log, acknowledged)


def _placed(attempt: Attempt, log: Iterable[LogEntry]) -> Attempt:
    """A ``fail`` or a cancel whose answer did not tell where it wrote, at the place where its entry stands; as it is if
    none does."""
    if attempt.verb not in (Verb.FAIL, Verb.POST) or attempt.expected_seq is not None:
        return attempt
    for one in log:
        if one.body_hash == attempt.hashes[0] and (attempt.verb is Verb.POST or one.epoch == attempt.epoch):
            return replace(attempt, expected_seq=one.seq - 1, epoch=one.epoch)
    return attempt


def _wrote_nothing(attempt: Attempt) -> bool:
    return attempt.answer is not None and attempt.answer.wrote_nothing


def _identities(attempt: Attempt) -> list[_Identity]:
    epoch = None if attempt.verb is Verb.CREATE else attempt.epoch
    return [_Identity(epoch, attempt.first_seq + i, body) for i, body in enumerate(attempt.hashes)]


def _promised(attempt: Attempt) -> int:
    """How many of its entries the answer speaks for; without an answer, all may be there."""
    if attempt.answer is not Answer.OK or attempt.answer_seq is None:
        return attempt.count
    return max(0, min(attempt.count, attempt.answer_seq - attempt.first_seq + 1))


def _stands(identity: _Identity, log: Mapping[int, LogEntry]) -> bool:
    entry = log.get(identity.seq)
    if entry is None or entry.body_hash != identity.hash:
        return False
    return identity.epoch is None or entry.epoch == identity.epoch


def _acknowledged(
    task: str, attempt: Attempt, log: Mapping[int, LogEntry], explained: Set[_Identity]
) -> Iterator[Finding]:
    identities = _identities(attempt)
    promised = _promised(attempt)
    least = attempt.count - 1 if attempt.may_hold_back else attempt.count
    if promised < least:
        yield Finding(
            "short-answer",
            f"{attempt.worker} appended {attempt.count} entries to {task} from seq {attempt.first_seq}, "
            f"{answered(attempt)}; so the store acknowledged a part of one commit",
            (attempt,),
        )
    for identity in identities[:promised]:
        entry = log.get(identity.seq)
        if entry is None:
            yield Finding(
                "lost",
                f"{attempt.worker} appended seq {identity.seq} to {task}, {answered(attempt)}; but the log has no seq "
                f"{identity.seq}; so an acknowledged entry was lost",
                (attempt,),
            )
        elif not _stands(identity, log):
            yield Finding(
                "changed",
                f"{attempt.worker} appended seq {identity.seq} with body {identity.hash[:12]} to {task}, "
                f"{answered(attempt)}; but the log has body {entry.body_hash[:12]} under epoch {entry.epoch} there; "
                f"so an acknowledged entry was changed",
                (attempt, entry),
            )
    yield from _refused(task, attempt, identities[max(promised, least) :], log, explained)


def _refused(
    task: str,
    attempt: Attempt,
    identities: list[_Identity],
    log: Mapping[int, LogEntry],
    explained: Set[_Identity],
) -> Iterator[Finding]:
    """None of these may stand, unless another attempt that was not refused put the same bytes there."""
    for identity in identities:
        if identity not in explained and _stands(identity, log):
            yield Finding(
                "refused-landed",
                f"{attempt.worker} sent {attempt.verb.value} of seq {identity.seq} to {task} under epoch "
                f"{attempt.epoch}, {answered(attempt)}; but the log holds it; so a write that was answered as not made "
                "was made",
                (attempt, log[identity.seq]),
            )
            return


def _open(task: str, attempt: Attempt, log: Mapping[int, LogEntry], acknowledged: Set[_Identity]) -> Iterator[Finding]:
    """All or none of it; what another attempt was acknowledged for is not of it."""
    identities = _identities(attempt)
    standing = [one for one in identities if _stands(one, log)]
    own = [one for one in standing if one not in acknowledged]
    whole = len(standing) == attempt.count
    held_back = attempt.may_hold_back and standing == identities[:-1]
    if own and not whole and not held_back:
        there = ", ".join(str(one.seq) for one in standing[:10])
        yield Finding(
            "torn",
            f"{attempt.worker} sent {seqs(attempt.first_seq, attempt.count)} to {task} in one commit, "
            f"{answered(attempt)}; but the log holds only seq {there} of it; so half a commit landed",
            (attempt, log[own[0].seq]),
        )


LAW = Law(
    key="acked-stays",
    title="What was acknowledged stays",
    statement=(
        "Entries answered ok are in every later read with the same bytes; of an attempt answered Conflict or "
        "StoreUnavailable nothing is; after CommitUnknown, or without an answer, it is all or none."
    ),
    source="Jepsen's set and append workloads; One writer and crash recovery (CommitUnknown)",
    reads="attempts with the hashes of their entries, and the final log",
    codes={
        "lost": "an acknowledged entry is not in the log",
        "changed": "an acknowledged entry has other bytes or another epoch",
        "short-answer": "a part of one commit was acknowledged",
        "refused-landed": "an entry that was answered as not written is in the log",
        "torn": "half of a commit of unknown outcome is in the log",
    },
    check=check,
)
