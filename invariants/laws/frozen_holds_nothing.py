"""A worker that freezes holds nobody up for longer than a statement may take.

Seen from the server: whoever holds a row lock has a transaction open, and how long it has been open bounds how long the
lock has been held. No session of a worker is exempt; but only looks that fell into the freeze of some worker say
anything about this promise, so only those count as seen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from invariants.evidence import FaultSeen, LockSeen, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import instant, span
from noeta.core.ids import MICROS_PER_SECOND, micros

FREEZES: Final = frozenset({"pause"})
"""The kinds of fault that freeze a worker and leave its connections open."""

LATE: Final = MICROS_PER_SECOND // 2
"""How much later than its time a statement may be seen, in microseconds: a server on a busy machine ends it late, and
between a session's age and its locks the one who looks needs a moment."""


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Nothing of one task: locks are seen by session."""
    return iter(())


def conclude(run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Every lock that was seen."""
    frozen = [fault for fault in run.faults if fault.kind in FREEZES]
    tally.saw(sum(_looks_within(run.lock_looks, fault) for fault in frozen))
    tally.counts["looks for locks"] += len(run.lock_looks)
    tally.counts["locks seen"] += len(run.locks)
    if not run.statement_timeout:
        if run.lock_looks:
            tally.doubt("nobody said after how long the server ends a worker's statement")
        return
    freezes = _by_worker(frozen)
    for lock in run.locks:
        if micros(lock.age_seconds) > run.statement_timeout + LATE:
            yield _held_on(lock, _frozen_at(freezes.get(lock.worker, ()), lock.at), run)


def _looks_within(looks: Sequence[int], fault: FaultSeen) -> int:
    until = len(looks) if fault.ended_at is None else bisect_right(looks, fault.ended_at)
    return max(0, until - bisect_left(looks, fault.at))


def _by_worker(frozen: Sequence[FaultSeen]) -> dict[str, list[FaultSeen]]:
    found: dict[str, list[FaultSeen]] = {}
    for fault in sorted(frozen, key=lambda fault: fault.at):
        for worker in {fault.process, *fault.workers}:
            found.setdefault(worker, []).append(fault)
    return found


def _frozen_at(freezes: Sequence[FaultSeen], at: int) -> FaultSeen | None:
    """The freeze of a worker that this instant falls into, or the last one before it."""
    before = bisect_right(freezes, at, key=lambda fault: fault.at)
    return freezes[before - 1] if before else None


def _held_on(lock: LockSeen, freeze: FaultSeen | None, run: RunFacts) -> Finding:
    frozen = "" if freeze is None else f", which was frozen at {instant(freeze.at)},"
    return Finding(
        "held-too-long",
        f"a session of {lock.worker}{frozen} (pid {lock.pid}) held a row lock at {instant(lock.at)} in a transaction "
        f"that had been open for {lock.age_seconds:.3f} s; but its statements end after {span(run.statement_timeout)}",
        (lock,) if freeze is None else (freeze, lock),
    )


LAW = Law(
    key="frozen-holds-nothing",
    title="The frozen hold nothing",
    statement=(
        "No session of a worker, frozen at whatever instant, is seen to hold a row lock in a transaction that has been "
        "open for longer than statement_timeout."
    ),
    source="system design, section 10 (Postgres); harness design, section 5",
    reads="looks at the locks of the workers' sessions while a worker was frozen, and statement_timeout",
    codes={"held-too-long": "a row lock in a transaction that is older than a statement may get"},
    check=check,
    conclude=conclude,
)
