"""What holds for a whole run, as the laws read it: faults, tools, and each family of tasks in small.

The only part of the evidence that is in memory as a whole, so it holds no bodies. What one task's law must know of
another task stands here (`Kin`); how it is computed from a log, in `kinship.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.task import Status

STUCK_AFTER: Final = 10 * MICROS_PER_SECOND
"""How long a due task may stay unclaimed beside an idle worker, unless the run says otherwise. Ten of the
harness's leases of 1 s: a busy machine is slow, not stuck."""


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that a struck process held at that instant."""

    task: str
    epoch: int


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """A fault that did strike. ``held``: the claims of the processes it hit. ``ended_at`` None: never healed."""

    at: int
    kind: str
    process: str
    ended_at: int | None = None
    workers: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class LockSeen:
    """A row lock that a worker's session at the server held when somebody looked, at ``at`` by the server's clock.

    Attributes:
        worker: whose session it is.
        pid: the server's process behind the session.
        age_seconds: for how long its transaction has been open, by the server's clock: the lock is not older.
        statement: what it ran, or runs.
    """

    at: int
    worker: str
    pid: int
    age_seconds: float
    statement: str = ""


@dataclass(frozen=True, slots=True)
class ToolKind:
    """What the laws must know of a tool. ``journals``: each start that returns a result has journalled one effect;
    ``journals_errors``: also one whose result is an error (otherwise 0 or 1: it may have stopped before).
    ``timer_field``: the field of its input that says how many seconds from its start its wait ends by itself."""

    name: str
    retry_safe: bool = False
    journals: bool = True
    journals_errors: bool = False
    timer_field: str | None = None


@dataclass(frozen=True, slots=True)
class Kin:
    """A task as the rest of its family must know it, at the end of the run.

    Attributes:
        ended_at: the instant of its terminal entry.
        group, parent: as its row says.
        born_at, root, depth: the instant of its first entry, the top of its tree, how many tasks stand above it.
        result: hex SHA-256 of the item that its end owes its parent; None if it has not ended, or has no parent.
        gave_up_at: the first time that it gave up the calls it waited for: a turn that failed or was stopped.
        reports: how many of its calls reported to its parent; None: nobody counted (`RunFacts.reports_of`).
    """

    status: Status
    ended_at: int | None = None
    group: str | None = None
    parent: str | None = None
    born_at: int | None = None
    root: str | None = None
    depth: int = 0
    result: str | None = None
    gave_up_at: int | None = None
    reports: int | None = None


@dataclass(frozen=True)
class RunFacts:
    """What holds for the whole run; the only part that is in memory as a whole.

    Attributes:
        tools: by name.
        kin: of every task that was delegated, and of every one that delegated. A reader may leave out all others.
        kin_whole: whether a task of a family that is not among ``kin`` does not exist.
        still: nobody wrote any more when logs and rows were read, so that all of them are as of one instant.
        idle_since: for each queue, the instant from which a worker serving it had room and polled without a
            break until the final rows were read.
        stuck_after: how long a due task may stay unclaimed then, in microseconds.
        journal_lines: how many lines the journals of the run hold in all; 0 means that nobody kept them.
        renewals_recorded: every claim and renewal is among the attempts, so that the end of each lease is known.
        lease: what every claim and renewal of this run asks for, in microseconds; 0: they differ, or nobody knows.
        keeps_claims: whether anything but live background jobs may keep a claim while its task is suspended.
        depth_max: how deep below its root a sub-agent may stand; None: unbounded, or nobody knows.
        lock_looks: each instant at which somebody looked for locks of the workers' sessions, in order.
        locks: what was found there; a look that found nothing adds nothing.
        statement_timeout: after how long the server ends a worker's statement, in microseconds; 0: nobody knows.
    """

    faults: tuple[FaultSeen, ...] = ()
    tools: Mapping[str, ToolKind] = field(default_factory=dict)
    kin: Mapping[str, Kin] = field(default_factory=dict)
    kin_whole: bool = True
    still: bool = False
    idle_since: Mapping[str, int] = field(default_factory=dict)
    stuck_after: int = STUCK_AFTER
    journal_lines: int = 0
    renewals_recorded: bool = False
    lease: int = 0
    keeps_claims: bool = False
    depth_max: int | None = None
    lock_looks: Sequence[int] = ()
    locks: Sequence[LockSeen] = ()
    statement_timeout: int = 0

    def held_when_struck(self, task: str, epoch: int) -> FaultSeen | None:
        """The first fault that hit the holder of this task's epoch."""
        return self._hits.get((task, epoch))

    def below(self, task: str) -> Iterator[tuple[str, Kin]]:
        """Every task whose id is derived from this one's, in id order: its children, and theirs."""
        ids = self._ids
        place = bisect_left(ids, f"{task}.")
        while place < len(ids) and ids[place].startswith(f"{task}."):
            yield ids[place], self.kin[ids[place]]
            place += 1

    def reports_of(self, task: str) -> int | None:
        """How many calls of this task reported to its parent; None: nobody counted."""
        kin = self.kin.get(task)
        return None if kin is None else kin.reports

    def members(self, task: str, group: str) -> Sequence[Kin]:
        """The tasks that were born into a group of this task."""
        return [one for _, one in self.below(task) if one.group == group]

    def settled(self, ended_at: int | None, seen_at: int) -> bool:
        """Whether what ended then must show in a row that was read at ``seen_at``. Rows are not read at one instant
        unless the run was ``still``: what has only just ended proves nothing."""
        if ended_at is None:
            return True
        return ended_at <= seen_at if self.still else seen_at - ended_at > self.stuck_after

    @cached_property
    def _ids(self) -> Sequence[str]:
        return sorted(self.kin)

    @cached_property
    def _hits(self) -> Mapping[tuple[str, int], FaultSeen]:
        hits: dict[tuple[str, int], FaultSeen] = {}
        for fault in self.faults:
            for held in fault.held:
                hits.setdefault((held.task, held.epoch), fault)
        return hits
