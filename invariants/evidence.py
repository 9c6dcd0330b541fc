"""What the laws read: everything a run left behind, as plain frozen data, task by task.

This is the whole interface between the laws and whoever gathers evidence (the harness, the simulator, an
operator's check of a live store). Instants are whole microseconds since the epoch, by the store's clock unless
a line says otherwise; clocks of workers are never compared with the store's.

A reader hands out one ``TaskEvidence`` per task that *anything* names: a task that was created and
acknowledged and has no log must still appear, with an empty log. Within a task everything is in the order in
which it happened: the log by ``seq``, samples as one sampler took them, attempts as their process made them.
So the laws need one pass, and memory for one task at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from invariants.facts import STUCK_AFTER as STUCK_AFTER
from invariants.facts import FaultSeen as FaultSeen
from invariants.facts import Held as Held
from invariants.facts import Kin as Kin
from invariants.facts import LockSeen as LockSeen
from invariants.facts import RunFacts as RunFacts
from invariants.facts import ToolKind as ToolKind
from noeta.core.events import Event
from noeta.core.store import UnreadItem
from noeta.core.task import Status, TaskRow
from noeta.core.wake import WakeCondition


class Verb(StrEnum):
    """What a worker or client asked of the store."""

    CREATE = "create"
    CLAIM = "claim"
    RENEW = "renew"
    RELEASE = "release"
    RESUME = "resume"
    APPEND = "append"
    FAIL = "fail"
    POST = "post"
    WAKE = "wake"


class Answer(StrEnum):
    """How the store answered. An attempt never answered has None."""

    OK = "ok"
    CONFLICT = "conflict"
    """``Conflict`` or ``InvalidLease``: nothing was written."""
    UNAVAILABLE = "unavailable"
    """``StoreUnavailable``: nothing was written."""
    REFUSED = "refused"
    """``BadInput``, ``UnknownTask``, ``IllegalTransition``: nothing was written."""
    UNKNOWN = "unknown"
    """``CommitUnknown``: it may have landed."""

    @property
    def wrote_nothing(self) -> bool:
        """Whether the store promised that nothing was written."""
        return self in (Answer.CONFLICT, Answer.UNAVAILABLE, Answer.REFUSED)


class Outcome(StrEnum):
    """How a task ends, or ``waiting``: it rests suspended, its script done."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the final log. ``body_hash``: hex SHA-256 of the stored bytes."""

    task: str
    seq: int
    epoch: int
    at: int
    event: Event
    body_hash: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write as its sender recorded it: before it was sent, and again after the answer.

    Attributes:
        process: the operating system process, by name and incarnation (``w1#2``).
        worker: the name its claims carry; a client's name for ``create`` and ``post``.
        epoch, token: the fence it was sent with; of a claim, the fence it was granted; of a cancel that ended its task,
            the epoch that it took (it has no token that anybody is told).
        expected_seq: the last seq the writer knew; an append's entries go to ``expected_seq + 1`` and on.
        hashes: the body hashes of its entries in order, the terminal one last; of a cancel, its ``TaskCancelled``,
            unless the answer says that it wrote none.
        item: hex SHA-256 of what a post or wake puts into the inbox.
        may_hold_back: the last of ``hashes`` is a ``TaskCompleted``, which the store leaves out when the inbox
            has moved (answer ok, ``answer_seq`` one short).
        lease_until: of a claim or renewal answered ok, the lease granted; otherwise the end the sender knew.
        sent_at, answered_at: by the *sender's* clock; for explanations, never for judgement.
        answer_seq: append, and a cancel that ended its task: the last seq now; other posts: the item's number; claim:
            the row's last seq.
        outcome: what a post was answered (``Posted.outcome``); of a claim, its cause.
    """

    id: str
    process: str
    worker: str
    verb: Verb
    task: str
    sent_at: int
    epoch: int | None = None
    token: str | None = None
    expected_seq: int | None = None
    hashes: tuple[str, ...] = ()
    may_hold_back: bool = False
    key: str | None = None
    lease_until: int | None = None
    answered_at: int | None = None
    answer: Answer | None = None
    answer_seq: int | None = None
    item: str | None = None
    outcome: str | None = None

    @property
    def first_seq(self) -> int:
        """Where its first entry goes; a create's is 1."""
        return (self.expected_seq or 0) + 1

    @property
    def count(self) -> int:
        """How many entries it sent."""
        return len(self.hashes)

    @property
    def is_open(self) -> bool:
        """Whether nobody was told what became of it: unknown, or never answered."""
        return self.answer is None or self.answer is Answer.UNKNOWN


@dataclass(frozen=True, slots=True)
class Sample:
    """A task row as one short read saw it. ``unread``: how many items were not yet taken at that instant. ``leased``:
    it has the end of a lease."""

    at: int
    task: str
    status: Status
    kept: bool
    epoch: int
    worker: str | None
    token: str | None
    last_seq: int
    inbox_seq: int
    wake_on: WakeCondition | None
    unread: int
    leased: bool = False


@dataclass(frozen=True, slots=True)
class FinalRow:
    """The row at the end of the run, with its unread items, read together with the end of the log.

    ``stamped``: numbers of the items that the terminal entry stamped unread; None if the reader cannot tell,
    in which case what became of the untaken items of an ended task is not judged. ``inbox_seen``: ``unread`` is
    complete up to this number; None: up to the row's ``inbox_seq``. ``stamped_order``: the order of an ended parent
    (``kinship.ORDER_KEY``) is among the stamped items; None if the reader knows their numbers alone.
    """

    at: int
    row: TaskRow
    unread: tuple[UnreadItem, ...] = ()
    stamped: tuple[int, ...] | None = None
    inbox_seen: int | None = None
    stamped_order: bool | None = None

    @property
    def inbox_whole(self) -> bool:
        """Whether every unread item is among ``unread``."""
        return self.inbox_seen is None or self.inbox_seen >= self.row.inbox_seq

    def as_sample(self) -> Sample:
        """The same row as the last sample of its task."""
        row = self.row
        return Sample(
            self.at,
            row.id,
            row.status,
            row.kept,
            row.epoch,
            row.worker,
            row.token,
            row.last_seq,
            row.inbox_seq,
            row.wake_on,
            len(self.unread),
            row.lease_until is not None,
        )


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One side effect, written outside the store. ``token`` is ``<task>:<call>:<start>``; only lines of kind
    ``effect`` are effects. ``at`` is by the worker's clock."""

    token: str
    task: str
    call: str
    tool: str
    start: int
    worker: str
    pid: int
    at: int
    kind: str = "effect"


@dataclass(frozen=True, slots=True)
class JobLine:
    """A line that a background job of the task wrote, outside the store. ``job``: the id in its ``JobStarted``; ``at``:
    when, by the store's clock, as far as that is known: up to ``error`` microseconds off, either way. Of each job the
    oldest and the newest line are enough."""

    task: str
    job: str
    at: int
    error: int = 0
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """One post by a client. ``outcome``: ``stored``, ``repeat``, ``ended``, ``cancelled`` as the store answers, or
    ``unknown``; ``number`` where the answer named one. ``item``: hex SHA-256 of what was posted; ``wakes``: its
    ``wake.item_key``. Both are empty if nobody noted them."""

    task: str
    key: str | None
    number: int | None
    outcome: str
    at: int
    item: str = ""
    wakes: str = ""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What a task's script says will come of it, whatever faults strike.

    Attributes:
        reason: of a task that ends failed, the reason foretold; None: any.
        answer: the text of the last answer; None: not foretold.
        failures: the reasons of the turns that are foretold to fail, in order.
        turns: how many turns end (a rest between two turns, or the end); None: messages may share a turn, or open
            a failed one again, so that turns are not counted.
        calls: how many calls to each tool the log must hold; None: not foretold.
        messages: keys of posts that the task must have taken when it reaches its outcome, if they were stored.
        cancels: keys of posts that end the task, if one of them was accepted.
        bounds: the ``bounds.Bound`` values that the script reaches all by itself.
        excusable: those that faults may push it into.
    """

    task: str
    outcome: Outcome
    reason: str | None = None
    answer: str | None = None
    failures: tuple[str, ...] = ()
    turns: int | None = None
    calls: Mapping[str, int] | None = None
    messages: tuple[str, ...] = ()
    bounds: frozenset[str] = frozenset()
    excusable: frozenset[str] = frozenset({"model_attempts", "unknown_call", "takeovers"})
    cancels: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskEvidence:
    """All that is known of one task."""

    task: str
    log: Sequence[LogEntry] = ()
    attempts: Sequence[Attempt] = ()
    samples: Sequence[Sample] = ()
    final: FinalRow | None = None
    journal: Sequence[JournalLine] = ()
    sent: Sequence[Sent] = ()
    foretold: Foretold | None = None
    job_lines: Sequence[JobLine] = ()

    @cached_property
    def rows(self) -> Sequence[Sample]:
        """The samples, and the final row as the last of them."""
        return self.samples if self.final is None else (*self.samples, self.final.as_sample())

    @cached_property
    def holders(self) -> Mapping[int, str]:
        """Who held each epoch, as far as anybody saw: for explanations."""
        names: dict[int, str] = {}
        for attempt in self.attempts:
            if attempt.epoch is not None:
                names.setdefault(attempt.epoch, attempt.worker)
        for row in self.rows:
            if row.worker is not None:
                names.setdefault(row.epoch, row.worker)
        return names

    def holder(self, epoch: int) -> str:
        """The worker that held this epoch, or words that say nobody knows."""
        return self.holders.get(epoch, "somebody" if epoch else "the creator")


class Evidence(Protocol):
    """A run's evidence. ``tasks`` may be called more than once and streams."""

    @property
    def run(self) -> RunFacts: ...

    def tasks(self) -> Iterable[TaskEvidence]: ...
