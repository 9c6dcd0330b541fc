"""The task row and the one table of its transitions.

Four statuses; a suspended task may be kept by its worker. ``TRANSITIONS`` says for each cause from where, to
where, and what the row gains and loses; ``step`` applies it. The memory store runs on ``step``; the SQL of the
other stores is handed target rows computed from the same table, and the contract suite drives every transition
on every store and compares the row with ``step``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from noeta.core.errors import IllegalTransition
from noeta.core.ids import Micros, micros
from noeta.core.wake import WakeCondition

LOAD_ATTEMPTS: Final = 3
"""Claims in a row on one worker that could not load the task before it ends failed."""

TAKEOVERS_MAX: Final = 10
"""Takeovers in a row without a new entry before the task ends failed: it kills its workers while loading."""

FAIL_ATTEMPTS_MAX: Final = 3
"""Errors that escaped a step before the task ends failed; a turn that ends well resets the count."""

TAKEOVER_BACKOFF: Final[tuple[Micros, ...]] = tuple(micros(s) for s in (0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30))
"""How long a task rests after its n-th takeover in a row, so that poison does not starve its neighbours."""

FAIL_BACKOFF: Final[tuple[Micros, ...]] = tuple(micros(s) for s in (0, 1, 2, 4, 8, 16, 30))
"""How long a task rests after its n-th failure."""


class Status(Enum):
    """The four statuses."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    TERMINAL = "terminal"


class Shape(Enum):
    """A status, and whether a suspended task is kept: the states of the table."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    KEPT = "kept"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What the store knows of a task without reading its log. Instants in microseconds.

    ``ready_at``: pending, when it may be claimed; suspended, when its timer is due. ``wake_on`` is set exactly
    while suspended. ``worker``, ``token`` and ``lease_until`` are set exactly while running or kept.
    """

    id: str
    queue: str
    status: Status
    kept: bool
    epoch: int
    worker: str | None
    token: str | None
    lease_until: int | None
    ready_at: int | None
    wake_on: WakeCondition | None
    wake_key: str | None
    wake_missing: int
    inbox_seq: int
    last_seq: int
    takeovers: int
    fail_attempts: int
    parent: str | None
    group: str | None
    created_at: int

    @property
    def shape(self) -> Shape:
        """Where the row stands in the table."""
        return Shape.KEPT if self.kept else Shape(self.status.value)


class Cause(Enum):
    """Why a row changes."""

    CLAIM = "claim"
    """A worker takes it: it is due, its timer is due, or its lease has lapsed."""
    SWEEP = "sweep"
    """Its lease has lapsed; it rests before it may be claimed again."""
    FIRE = "fire"
    """Its timer is due."""
    POST = "post"
    """An item came that satisfies its wait."""
    ORDER = "order"
    """Its parent has ended: it need not rest before it ends, too."""
    CANCEL = "cancel"
    """It was cancelled while nobody ran it."""
    RENEW = "renew"
    """Its owner is alive."""
    CONTINUE = "continue"
    """Its owner wrote and goes on."""
    RESUME = "resume"
    """Its owner, which kept the claim, goes on."""
    SUSPEND = "suspend"
    """Its owner wrote and waits for something."""
    KEEP = "keep"
    """Its owner waits, and keeps the claim."""
    PUT_BACK = "put_back"
    """Its owner gives it back, to be claimed again at a time."""
    END = "end"
    """Its owner wrote the terminal entry."""
    RELEASE = "release"
    """Its owner gives it back at once."""
    FAIL = "fail"
    """An error escaped the step; it rests before it may be claimed again."""


class Keeps(Enum):
    """What happens to a group of columns."""

    CLEARED = "cleared"
    UNCHANGED = "unchanged"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Transition:
    """One line of the table.

    ``owner``: worker, token, lease. ``ready``: ``ready_at``. ``wake``: wake_on, wake_key, wake_missing.
    ``by``: who may cause it.
    """

    sources: frozenset[Shape]
    to: Shape
    by: str
    owner: Keeps
    ready: Keeps
    wake: Keeps
    raises_epoch: bool = False
    counts_takeover_from: frozenset[Shape] = frozenset()
    fires_timer_from: frozenset[Shape] = frozenset()
    counts_failure: bool = False


_OWNED: Final = frozenset({Shape.RUNNING, Shape.KEPT})

TRANSITIONS: Final[dict[Cause, Transition]] = {
    Cause.CLAIM: Transition(
        frozenset({Shape.PENDING, Shape.SUSPENDED, Shape.RUNNING, Shape.KEPT}),
        Shape.RUNNING,
        "any worker, once it is due or lapsed",
        owner=Keeps.GIVEN,
        ready=Keeps.CLEARED,
        wake=Keeps.CLEARED,
        raises_epoch=True,
        counts_takeover_from=_OWNED,
        fires_timer_from=frozenset({Shape.SUSPENDED}),
    ),
    Cause.SWEEP: Transition(
        _OWNED,
        Shape.PENDING,
        "any worker, once the lease lapsed",
        owner=Keeps.CLEARED,
        ready=Keeps.GIVEN,
        wake=Keeps.CLEARED,
        counts_takeover_from=_OWNED,
    ),
    Cause.FIRE: Transition(
        frozenset({Shape.SUSPENDED}),
        Shape.PENDING,
        "any worker, once the timer is due",
        owner=Keeps.CLEARED,
        ready=Keeps.GIVEN,
        wake=Keeps.CLEARED,
        fires_timer_from=frozenset({Shape.SUSPENDED}),
    ),
    Cause.POST: Transition(
        frozenset({Shape.SUSPENDED}),
        Shape.PENDING,
        "anybody who posts",
        owner=Keeps.CLEARED,
        ready=Keeps.GIVEN,
        wake=Keeps.CLEARED,
    ),
    Cause.ORDER: Transition(
        frozenset({Shape.PENDING}),
        Shape.PENDING,
        "whoever ends its parent",
        owner=Keeps.CLEARED,
        ready=Keeps.GIVEN,
        wake=Keeps.CLEARED,
    ),
    Cause.CANCEL: Transition(
        frozenset({Shape.PENDING, Shape.SUSPENDED, Shape.RUNNING, Shape.KEPT}),
        Shape.TERMINAL,
        "anybody who cancels it while nobody runs it: pending, suspended, or its lease lapsed",
        owner=Keeps.CLEARED,
        ready=Keeps.CLEARED,
        wake=Keeps.CLEARED,
        raises_epoch=True,
    ),
    Cause.RENEW: Transition(
        _OWNED, Shape.RUNNING, "its owner", owner=Keeps.GIVEN, ready=Keeps.UNCHANGED, wake=Keeps.UNCHANGED
    ),
    Cause.CONTINUE: Transition(
        _OWNED, Shape.RUNNING, "its owner", owner=Keeps.UNCHANGED, ready=Keeps.CLEARED, wake=Keeps.CLEARED
    ),
    Cause.RESUME: Transition(
        _OWNED,
        Shape.RUNNING,
        "its owner",
        owner=Keeps.UNCHANGED,
        ready=Keeps.CLEARED,
        wake=Keeps.CLEARED,
        fires_timer_from=frozenset({Shape.KEPT}),
    ),
    Cause.SUSPEND: Transition(
        _OWNED, Shape.SUSPENDED, "its owner", owner=Keeps.CLEARED, ready=Keeps.GIVEN, wake=Keeps.GIVEN
    ),
    Cause.KEEP: Transition(_OWNED, Shape.KEPT, "its owner", owner=Keeps.UNCHANGED, ready=Keeps.GIVEN, wake=Keeps.GIVEN),
    Cause.PUT_BACK: Transition(
        _OWNED, Shape.PENDING, "its owner", owner=Keeps.CLEARED, ready=Keeps.GIVEN, wake=Keeps.CLEARED
    ),
    Cause.END: Transition(
        _OWNED, Shape.TERMINAL, "its owner", owner=Keeps.CLEARED, ready=Keeps.CLEARED, wake=Keeps.CLEARED
    ),
    Cause.RELEASE: Transition(
        _OWNED, Shape.PENDING, "its owner", owner=Keeps.CLEARED, ready=Keeps.GIVEN, wake=Keeps.CLEARED
    ),
    Cause.FAIL: Transition(
        _OWNED,
        Shape.PENDING,
        "its owner",
        owner=Keeps.CLEARED,
        ready=Keeps.GIVEN,
        wake=Keeps.CLEARED,
        counts_failure=True,
    ),
}
"""Every change of a row but its birth. Terminal rows stand in no ``sources``. Keeps: terminal-is-final.

``RENEW`` leaves a kept row kept (its ``to`` names the owner's right, see ``step``)."""


@dataclass(frozen=True, slots=True)
class Given:
    """The values a transition sets where the table says ``GIVEN``."""

    worker: str | None = None
    token: str | None = None
    lease_until: int | None = None
    ready_at: int | None = None
    wake_on: WakeCondition | None = None
    wake_key: str | None = None
    wake_missing: int = 0


def step(row: TaskRow, cause: Cause, given: Given) -> TaskRow:
    """The row after this transition.

    Raises:
        IllegalTransition: the table has no such line; names the task, its status and the command.
    """
    line = TRANSITIONS[cause]
    shape = row.shape
    if shape not in line.sources:
        raise IllegalTransition(f"task {row.id!r} is {shape.value}: {cause.value} does not apply")
    to = shape if cause is Cause.RENEW else line.to
    changed = replace(
        row,
        status=Status.SUSPENDED if to is Shape.KEPT else Status(to.value),
        kept=to is Shape.KEPT,
        epoch=row.epoch + line.raises_epoch,
        takeovers=row.takeovers + (shape in line.counts_takeover_from),
        fail_attempts=row.fail_attempts + line.counts_failure,
    )
    if line.owner is not Keeps.UNCHANGED:
        cleared = line.owner is Keeps.CLEARED
        changed = replace(
            changed,
            worker=None if cleared else given.worker,
            token=None if cleared else given.token,
            lease_until=None if cleared else given.lease_until,
        )
    if line.ready is not Keeps.UNCHANGED:
        changed = replace(changed, ready_at=given.ready_at if line.ready is Keeps.GIVEN else None)
    if line.wake is not Keeps.UNCHANGED:
        waits = line.wake is Keeps.GIVEN
        changed = replace(
            changed,
            wake_on=given.wake_on if waits else None,
            wake_key=given.wake_key if waits else None,
            wake_missing=given.wake_missing if waits else 0,
        )
    return changed


def claimable_at(row: TaskRow) -> int | None:
    """The instant from which a claim may take the row; None: no claim ever will, as it stands."""
    match row.shape:
        case Shape.PENDING | Shape.SUSPENDED:
            return row.ready_at
        case Shape.RUNNING | Shape.KEPT:
            return None if row.lease_until is None else row.lease_until + takeover_backoff(row.takeovers + 1)
        case Shape.TERMINAL:
            return None


def takeover_backoff(takeovers: int) -> int:
    """How long the task rests after this many takeovers in a row, in microseconds."""
    return TAKEOVER_BACKOFF[min(takeovers, len(TAKEOVER_BACKOFF) - 1)]


def fail_backoff(fail_attempts: int) -> int:
    """How long the task rests after this many failures, in microseconds."""
    return FAIL_BACKOFF[min(fail_attempts, len(FAIL_BACKOFF) - 1)]
