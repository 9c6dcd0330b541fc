"""The states of the race matrix: what a task, and what a family of tasks can be.

A scene is a script of store calls that leads any store to the same state. What is raced in it is in `race_moves.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from noeta.core.events import ModelCalled, TaskSuspended
from noeta.core.store import Child, Claim, Commit, Continue, NewTask, Next, PutBack, Store, Suspend
from noeta.core.wake import (
    BACKGROUND,
    CLOSE,
    ControlReceived,
    ExternalEvent,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)

START_SECONDS: Final = 1_700_000_000
LEASE_SECONDS: Final = 60.0
LONG_SECONDS: Final = 600.0
"""A lease that outlives the other one, in scenes that take place later."""

GO: Final = ExternalEvent("go", {"n": 1})
BODY: Final = b"a body"
"""The one content that moves put."""
VERSION: Final = "1"
"""The version of every snapshot that moves put."""

CALLED: Final = ModelCalled("hash", 1)
"""An entry that changes nothing but the log."""

GROUP: Final = "group"
BOTH: Final = SubtaskGroupCompleted(GROUP, members=2)

ROOT: Final = "t"
CHILD: Final = "t.1-0.0"
SECOND: Final = "t.1-0.1"
GRANDCHILD: Final = f"{CHILD}.1-0.0"
ADOPTED: Final = f"{CHILD}.2-0.0"
"""Born by the child, in the background: its parent is the root."""

SKIPPING: Final = frozenset({"claim", "renew", "fire_due_timers", "requeue_stale"})
"""Verbs that never wait for a row: they may treat one that another transaction holds as absent (renew: busy)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scene left behind: the claims its moves use, by task (current or stale), and its last seq."""

    claims: dict[str, Claim]
    seqs: dict[str, int]


Act = Callable[[Store, Stage, str], object]
"""What a move does, given the store, the stage, and a word that marks this attempt (its token, its key)."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A state to race in. ``parents``: each child and whose it is, in birth order. ``later_seconds``: how long after
    its building the race takes place. ``whole``: every move is raced, and not only those
    that a family hears of."""

    name: str
    build: Callable[[Store], dict[str, Claim]]
    later_seconds: int = 0
    parents: tuple[tuple[str, str], ...] = ()
    whole: bool = True

    @property
    def tasks(self) -> tuple[str, ...]:
        """Every task, the root first."""
        return (ROOT, *(child for child, _ in self.parents))

    def parent_of(self, task: str) -> str | None:
        return dict(self.parents).get(task)

    def children_of(self, task: str) -> tuple[str, ...]:
        return tuple(child for child, parent in self.parents if parent == task)


@dataclass(frozen=True, slots=True)
class Move:
    """One write verb. ``tasks``: the existing tasks whose rows it may hold. ``stores_bodies``: its effect is seen only
    by reading contents and snapshots, too. ``alone``: no other task hears of it, or as it does of another move, so that
    it is raced in whole scenes only."""

    name: str
    verb: str
    tasks: tuple[str, ...]
    act: Act
    stores_bodies: bool = False
    alone: bool = False


ONE_CHILD: Final = ((CHILD, ROOT),)
TWO_CHILDREN: Final = ((CHILD, ROOT), (SECOND, ROOT))
THREE_GENERATIONS: Final = ((CHILD, ROOT), (GRANDCHILD, CHILD), (ADOPTED, ROOT))


def scenes() -> tuple[Scene, ...]:
    """One task in every state; a parent and its children; a root, its child, and what that child bore."""
    limited = ExternalEvent("go", timeout_at=START_SECONDS + 1)
    far = ExternalEvent("go", timeout_at=START_SECONDS + 1_000)
    return (
        Scene("nothing", lambda store: {}),
        Scene("pending", _pending),
        Scene("running", _running),
        Scene("suspended", lambda store: _suspended(store, Suspend(ExternalEvent("go")))),
        Scene("kept", lambda store: _suspended(store, Suspend(far, keep=True))),
        Scene(
            "kept, timer due", lambda store: _suspended(store, Suspend(TimerFired(START_SECONDS + 1), keep=True)), 10
        ),
        Scene("kept, time limit over", lambda store: _suspended(store, Suspend(limited, keep=True)), 10),
        Scene("timer due", lambda store: _suspended(store, Suspend(TimerFired(START_SECONDS + 1))), 10),
        Scene("time limit over", lambda store: _suspended(store, Suspend(limited)), 10),
        Scene("lapsed", _running, 100),
        Scene("parent waits", lambda store: _parent_waits(store), 0, ONE_CHILD),
        Scene("parent runs", lambda store: _family(store, ONE_CHILD), 0, ONE_CHILD),
        Scene("parent waits for a group", _parent_waits_for_group, 0, TWO_CHILDREN, whole=False),
        Scene("parent runs, children rest", _children_rest, 10, TWO_CHILDREN, whole=False),
        Scene("parent lapsed", _parent_lapsed, 100, TWO_CHILDREN, whole=False),
        Scene("parent waits for a lapsed child", lambda store: _parent_waits(store), 100, ONE_CHILD, whole=False),
        Scene("root runs", lambda store: _generations(store, Continue()), 0, THREE_GENERATIONS, whole=False),
        Scene("root waits", _root_waits, 0, THREE_GENERATIONS, whole=False),
    )


def _pending(store: Store) -> dict[str, Claim]:
    claims = _running(store)
    store.release(claims[ROOT])
    return claims


def _running(store: Store) -> dict[str, Claim]:
    """With an item to take, and an order that nobody has taken."""
    store.create(NewTask(ROOT, "agent", "goal"))
    store.post(ROOT, GO, "first")
    store.post(ROOT, ControlReceived(CLOSE), "second")
    return {ROOT: _claimed(store)}


def _suspended(store: Store, next: Suspend) -> dict[str, Claim]:
    store.create(NewTask(ROOT, "agent", "goal"))
    claim = _claimed(store)
    store.append(claim, 1, Commit((TaskSuspended(next.wake_on),), next))
    return {ROOT: claim}


def _claimed(store: Store, lease_seconds: float = LEASE_SECONDS) -> Claim:
    """The only task that may be claimed; its token says when it was."""
    (claim,) = store.claim("w", ["default"], lease_seconds, token=f"scene {len(store.tasks())}").claims
    return claim


def _family(
    store: Store,
    parents: tuple[tuple[str, str], ...],
    wait: WakeCondition | None = None,
    *,
    lease_seconds: float = LEASE_SECONDS,
) -> dict[str, Claim]:
    """A claimed root that waits (None: runs) and its claimed children."""
    group = GROUP if wait == BOTH else None
    store.create(NewTask(ROOT, "agent", "goal"))
    claims = {ROOT: _claimed(store)}
    entries = (CALLED,) if wait is None else (TaskSuspended(wait),)
    born = tuple(Child(child, "agent", "goal", group=group) for child, _ in parents)
    store.append(claims[ROOT], 1, Commit(entries, Continue() if wait is None else Suspend(wait), children=born))
    for child in born:
        (claims[child.id],) = store.claim("w", ["default"], lease_seconds, token=f"scene {child.id}").claims
    return claims


def _parent_waits(store: Store) -> dict[str, Claim]:
    return _family(store, ONE_CHILD, SubtaskCompleted(CHILD))


def _parent_waits_for_group(store: Store) -> dict[str, Claim]:
    return _family(store, TWO_CHILDREN, BOTH)


def _children_rest(store: Store) -> dict[str, Claim]:
    """One was put back for a while, one is kept by somebody whose lease is over: an order to end makes the first
    claimable at once, and a cancel ends either."""
    claims = _family(store, TWO_CHILDREN, lease_seconds=1.0)
    store.append(claims[CHILD], 1, Commit((CALLED,), PutBack(50.0)))
    store.append(claims[SECOND], 1, Commit((TaskSuspended(GO),), Suspend(GO, keep=True)))
    return claims


def _parent_lapsed(store: Store) -> dict[str, Claim]:
    """Nobody runs the parent any more, somebody runs the first child, and the second waits."""
    claims = _family(store, TWO_CHILDREN, lease_seconds=LONG_SECONDS)
    store.append(claims[SECOND], 1, Commit((TaskSuspended(GO),), Suspend(GO)))
    return claims


def _generations(store: Store, next: Next) -> dict[str, Claim]:
    """A root, its child, the child of that, and one that the child bore in the background: all claimed."""
    store.create(NewTask(ROOT, "agent", "goal"))
    claims = {ROOT: _claimed(store)}
    store.append(claims[ROOT], 1, Commit((CALLED,), next, children=(Child(CHILD, "agent", "goal"),)))
    claims[CHILD] = _claimed(store)
    own = Child(GRANDCHILD, "agent", "goal", root=ROOT, depth=2)
    adopted = Child(ADOPTED, "agent", "goal", group=BACKGROUND, parent=ROOT, root=ROOT, depth=2)
    for child in (own, adopted):
        last_seq = store.task(CHILD).last_seq
        store.append(claims[CHILD], last_seq, Commit((CALLED,), children=(child,)))
        claims[child.id] = _claimed(store)
    return claims


def _root_waits(store: Store) -> dict[str, Claim]:
    """For its child, which waits for its own: what a cancel of the root ends goes down one generation."""
    claims = _generations(store, Suspend(SubtaskCompleted(CHILD)))
    last_seq = store.task(CHILD).last_seq
    wait = SubtaskCompleted(GRANDCHILD)
    store.append(claims[CHILD], last_seq, Commit((TaskSuspended(wait),), Suspend(wait)))
    return claims
