"""The contract of a store: claims, the fence, one commit, one inbox.

A store locks, compares and writes; what it writes was decided in ``core`` and is handed over as data
(`lower.py`). Every verb is one atomic change and one round trip. Answers:

* a normal return: it is durable;
* ``Conflict`` / ``InvalidLease``: the fence refused, nothing was written;
* ``StoreUnavailable``: nothing was written;
* ``CommitUnknown`` (writes only): it may have landed or may still land;
* ``BadInput``, ``UnknownTask``, ``IllegalTransition``: nothing was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from noeta.core import ids
from noeta.core.errors import NoetaError
from noeta.core.events import Ending, Entry, Event
from noeta.core.task import FAIL_ATTEMPTS_MAX, Status, TaskRow
from noeta.core.wake import Item, WakeCondition, WakeEvent


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to create. ``delay_seconds``: how long from now until it may be claimed."""

    id: str
    agent: str
    goal: str
    queue: str = "default"
    interactive: bool = False
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Child:
    """A child born with a commit; its id is derived (``ids.child_id``), it inherits the queue.

    Its result is posted to its parent, and carries ``group`` if it was born into one. ``parent`` None: the task whose
    commit it is; a child in the background (``group`` is ``wake.BACKGROUND``) belongs to the root of the tree. A child
    whose parent has ended by then is born with an order to end. ``root`` None: its parent. ``depth`` counts from 1.
    """

    id: str
    agent: str
    goal: str
    interactive: bool = False
    group: str | None = None
    parent: str | None = None
    root: str | None = None
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Post:
    """An item for another task's inbox. The key makes a repeat harmless. Keeps: taken-once."""

    task_id: str
    item: Item
    key: str


@dataclass(frozen=True, slots=True)
class Content:
    """A body for the content store, in the same transaction as the commit that refers to it."""

    body: bytes
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Continue:
    """The task stays running under this claim."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """The task waits. Lands always; if the inbox moved past ``Commit.inbox_seen`` the row becomes pending
    instead (kept, or ``again``: stays running under the same claim), so that no wake is lost. Keeps: wake-once.

    ``known``: items of an awaited group that are already in the inbox up to ``inbox_seen``. ``again``: the worker will
    look again itself.
    """

    wake_on: WakeCondition
    keep: bool = False
    known: tuple[Item, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class PutBack:
    """The task becomes pending and may be claimed after ``delay_seconds``."""

    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """The task ends with this terminal entry, written after ``Commit.entries``.

    ``TaskCompleted`` lands only if the inbox has not moved past ``Commit.inbox_seen``: otherwise the rest of
    the commit lands without it, the row stays running and the answer says ``moved``. Failure and cancel
    always land, and stamp every unread item as unread at this seq. With any of them every unfinished child gets an
    order to end. Keeps: children-once, never-stuck.
    """

    entry: Ending


Next = Continue | Suspend | PutBack | End


@dataclass(frozen=True, slots=True)
class Commit:
    """The one atomic change a worker makes: everything lands, or nothing.

    The items an entry takes are named by the entry itself (``events.numbers_taken``). ``inbox_seen`` is the
    number of the newest item this decision knew of.
    """

    entries: tuple[Event, ...] = ()
    next: Next = Continue()
    inbox_seen: int = 0
    children: tuple[Child, ...] = ()
    posts: tuple[Post, ...] = ()
    contents: tuple[Content, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's right to write one task: the fence is (epoch, token). Instants in microseconds.

    ``cause`` says what was taken: ``pending``, ``suspended`` (its timer fired), ``running`` or ``kept`` (a
    lapsed lease). ``last_seq`` and ``inbox_seq`` are those of the row when it was claimed.
    """

    task_id: str
    queue: str
    worker: str
    epoch: int
    token: str
    lease_until: int
    last_seq: int
    inbox_seq: int
    takeovers: int
    fail_attempts: int
    cause: str
    parent: str | None = None
    group: str | None = None

    @property
    def lease_id(self) -> str:
        """The fence as text."""
        return ids.lease_id(self.epoch, self.token)


@dataclass(frozen=True, slots=True)
class Claims:
    """What a claim call did: tasks taken, timers it fired and lapsed leases it took or put back."""

    claims: tuple[Claim, ...]
    timers_fired: tuple[str, ...]
    stale_requeued: tuple[str, ...]
    now: int


@dataclass(frozen=True, slots=True)
class Created:
    """``created`` is False for a repeat with the same content."""

    task_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class Renewal:
    """What became of one claim: ``held`` (with the new lease and the newest inbox number), ``lost``, or
    ``busy`` (its row is locked by somebody; try again at once, judge by your own clock). ``ordered``: an order to end
    or to stop is in the inbox, unread."""

    task_id: str
    outcome: str
    lease_until: int = 0
    inbox_seq: int = 0
    timer_due: bool = False
    now: int = 0
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Resumed:
    """A kept task runs again. ``now``: the store's instant. ``timer_fired``: the item of this wait's timer, or of its
    time limit, was put into the inbox; a repeat is told the same. ``inbox_seq`` and ``last_seq`` are the row's."""

    now: int
    inbox_seq: int
    last_seq: int
    timer_fired: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """A durable commit. ``last_seq`` is the task's last entry now; ``first_seq`` .. ``last_seq`` are new (none if
    ``first_seq > last_seq``). ``moved``: the inbox had moved, so the task did not suspend (it is pending, or
    still running if kept) or did not complete. ``refused``: keys of posts whose task has ended or is unknown."""

    first_seq: int
    last_seq: int
    at: int
    status: Status
    moved: bool
    inbox_seq: int
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Posted:
    """``outcome``: ``stored``; ``repeat`` (this key, or these bytes, are known: dropped); ``ended`` (the task is
    terminal: refused); ``cancelled`` (nobody ran the task, and this post ended it). ``made_ready``: the item satisfied
    a wait and the task may be claimed now. ``epoch`` and ``last_seq``: of a cancelled task, its terminal entry's."""

    outcome: str
    number: int | None
    made_ready: bool
    epoch: int | None = None
    last_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """``status`` is pending (it will be claimed again) or terminal (the bound was hit, the log says so)."""

    status: Status
    fail_attempts: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class UnreadItem:
    """An item not yet taken, with the bytes it was posted with."""

    number: int
    key: str | None
    item: Item
    body: str
    at: int


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries after a seq, and the unread inbox, as of one instant.

    ``more``: there are entries after the last one here. ``inbox_seen``: every unread item after the number asked
    for and up to this one is in ``unread``; there are more if it is below ``row.inbox_seq``.
    """

    entries: tuple[Entry, ...]
    more: bool
    unread: tuple[UnreadItem, ...]
    inbox_seen: int
    row: TaskRow


@dataclass(frozen=True, slots=True)
class ContentRef:
    """Where a body is: hex SHA-256, size in bytes, media type."""

    hash: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folded state up to ``seq``, for workers whose fold has this ``version``. May be missing, never wrong."""

    seq: int
    version: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """One member of ``append_many``."""

    claim: Claim
    expected_seq: int
    commit: Commit


class Store(Protocol):
    """A durable place for tasks. Every verb may be called from any thread."""

    def create(self, task: NewTask) -> Created:
        """Create a task with its ``TaskCreated`` entry; a repeat with the same content changes nothing.

        Raises:
            BadInput: a field is out of its bounds, or the id holds a ``.``.
            DuplicateTask: the id exists with other content.
        """
        ...

    def claim(
        self,
        worker: str,
        queues: Sequence[str] | None,
        lease_seconds: float,
        *,
        token: str | None = None,
        limit: int = 1,
    ) -> Claims:
        """Take up to ``limit`` claimable tasks of these queues (None: every queue), the longest due first. A store that
        several handles share may learn late, within a second, of a task that another one made ready in the past.

        Sets them running, names the worker, raises the epoch, sets the lease. A suspended task whose timer is
        due gets its ``TimerFired`` item; a lapsed lease counts a takeover, and a task that has rested too
        little after its takeovers is put back instead of taken. ``token`` marks this attempt, so that after
        ``CommitUnknown`` its claims are found with ``tasks(token=…)``; one is made if none is given. May take fewer
        than ``limit`` although more are claimable: the answer stays below ``limits.ANSWER_BYTES_MAX``.
        """
        ...

    def renew(self, claims: Claim | Sequence[Claim], lease_seconds: float) -> tuple[Renewal, ...]:
        """Extend these claims to ``lease_seconds`` from now, in one round trip; one answer a claim, in order.

        A claim whose lease is over is lost even if nobody took the task. Keeps: one-writer.
        """
        ...

    def release(self, claim: Claim) -> Status:
        """Give the claim back without ending the task: it becomes pending at once. The new status.

        Raises:
            InvalidLease: the claim is not the task's current one, or its lease is over.
        """
        ...

    def resume(self, claim: Claim) -> Resumed:
        """Go on with a task that waits and whose claim was kept: it runs again under the same epoch, token and lease,
        which is not extended, and waits for nothing any more.

        If its timer, or its time limit, is due by the store's clock read after the row lock, the stored condition is
        put into the inbox first, once a wait. Of a task that runs already nothing changes: a repeat is harmless.
        Keeps: one-writer, timers-once.

        Raises:
            InvalidLease: the claim is not the task's current one, or its lease is over.
        """
        ...

    def append(self, claim: Claim, expected_seq: int, commit: Commit) -> Appended:
        """Apply a commit if the claim is current, its lease is not over by the store's clock read after the
        row lock, and the log ends at ``expected_seq``. Keeps: one-writer, gapless-log, acked-stays.

        Raises:
            InvalidLease: epoch, token or lease.
            Conflict: ``expected_seq``, or an item to take is not unread.
        """
        ...

    def append_many(self, appends: Sequence[Append]) -> tuple[Appended | NoetaError, ...]:
        """Commits of different tasks in one round trip, each as ``append``; a refused one is in its place in
        the answer and touches no other."""
        ...

    def read(self, task_id: str, after: int = 0, *, limit: int = 1_000, inbox_after: int = 0) -> LogPage:
        """Entries with ``seq > after`` in order, at most ``limit``, with the row and the unread items whose number
        is above ``inbox_after``, at most ``limits.COMMIT_PARTS_MAX``.

        Raises:
            UnknownTask, UnreadableLog.
        """
        ...

    def post(self, task_id: str, item: Item, key: str | None = None) -> Posted:
        """Put an item in the inbox, under the row's lock. With a key, a repeat is dropped, also after the
        first was taken. Keeps: taken-once.

        An order to cancel ends a task that nobody runs (pending, suspended and not kept, or with a lease that is over)
        in the same transaction: it raises the epoch, writes ``TaskCancelled``, tells the parent and orders the children
        to end. A running task gets the item, and hears of it with the next renewal.

        Raises:
            UnknownTask; BadInput: also for ``TimerFired``, which only the store makes.
        """
        ...

    def wake(self, task_id: str, event: WakeEvent) -> Posted:
        """``post`` of a wake event without a key of its own: repeats of an event that is still unread, or that
        ended the present wait, are dropped. Keeps: wake-once."""
        ...

    def fire_due_timers(self, *, limit: int = 100, now: float | None = None) -> tuple[str, ...]:
        """Make suspended tasks whose timer is due pending, each with its ``TimerFired`` item. Their ids.

        ``now`` (seconds since the epoch) replaces the store's clock for this one look, where the store has none of its
        own; Postgres ignores it and asks the database. A task that fires is claimable at once. Keeps: timers-once.
        """
        ...

    def requeue_stale(self, *, limit: int = 100) -> tuple[str, ...]:
        """Make tasks whose lease has lapsed pending, counting the takeover. Their ids."""
        ...

    def fail(
        self, claim: Claim, reason: str, *, retryable: bool = True, attempts_max: int = FAIL_ATTEMPTS_MAX
    ) -> Failed:
        """An error escaped the step: rest and try again, or, at the bound, write ``TaskFailed`` with the reason
        (and the child's result to its parent) in the same transaction. Keeps: bounded.

        Raises:
            InvalidLease.
        """
        ...

    def task(self, task_id: str) -> TaskRow:
        """Raises: UnknownTask."""
        ...

    def tasks(
        self,
        *,
        after: str = "",
        limit: int = 200,
        status: Status | None = None,
        queue: str | None = None,
        token: str | None = None,
    ) -> tuple[TaskRow, ...]:
        """Rows with ``id > after`` in id order (by code point), at most ``limit``, filtered."""
        ...

    def put_content(self, body: bytes, media_type: str = "application/octet-stream") -> ContentRef: ...

    def get_content(self, hash: str) -> bytes:
        """Raises: ContentNotFound."""
        ...

    def put_snapshot(self, task_id: str, snapshot: Snapshot) -> None:
        """Keep this snapshot; the newest per version is kept. Raises: UnknownTask."""
        ...

    def get_snapshot(self, task_id: str, version: str) -> Snapshot | None: ...

    def close(self) -> None:
        """Give back connections and files. Using the store afterwards raises ``StoreUnavailable``."""
        ...


def claim_from_row(row: TaskRow, cause: str = "running") -> Claim:
    """The claim a running or kept row stands for: how a worker adopts what an unknown claim call took."""
    assert row.worker is not None and row.token is not None and row.lease_until is not None, row
    return Claim(
        task_id=row.id,
        queue=row.queue,
        worker=row.worker,
        epoch=row.epoch,
        token=row.token,
        lease_until=row.lease_until,
        last_seq=row.last_seq,
        inbox_seq=row.inbox_seq,
        takeovers=row.takeovers,
        fail_attempts=row.fail_attempts,
        cause=cause,
        parent=row.parent,
        group=row.group,
    )
