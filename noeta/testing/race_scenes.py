"""The states and moves of the race matrix: what a task can be, and every verb that writes.

A scene is a script of store calls that leads any store to the same state. A move is one verb on that state,
with everything it needs decided beforehand, so that it can be sent at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from noeta.core.events import ModelCalled, TaskCancelled, TaskCompleted, TaskSuspended, TaskWoken
from noeta.core.store import (
    Append,
    Child,
    Claim,
    Commit,
    Content,
    Continue,
    End,
    NewTask,
    Next,
    Post,
    PutBack,
    Snapshot,
    Store,
    Suspend,
)
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)

START_SECONDS: Final = 1_700_000_000
LEASE_SECONDS: Final = 60.0
GO: Final = ExternalEvent("go", {"n": 1})
BODY: Final = b"a body"
"""The one content that moves put."""
VERSION: Final = "1"
"""The version of every snapshot that moves put."""

GROUP: Final = "group"
BOTH: Final = SubtaskGroupCompleted(GROUP, members=2)
ONE_CHILD: Final = ("t", "t.1-0.0")
TWO_CHILDREN: Final = ("t", "t.1-0.0", "t.1-0.1")

SKIPPING: Final = frozenset({"claim", "renew", "fire_due_timers", "requeue_stale"})
"""Verbs that never wait for a row: they may treat one that another transaction holds as absent (renew: busy)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scene left behind: the claims its moves use, by task (current or stale), and its last seq."""

    claims: dict[str, Claim]
    seqs: dict[str, int]


@dataclass(frozen=True, slots=True)
class Scene:
    """A state to race in. ``later_seconds``: how long after its building the race takes place."""

    name: str
    tasks: tuple[str, ...]
    build: Callable[[Store], dict[str, Claim]]
    later_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """One write verb. ``tasks``: the existing tasks whose rows it may hold. ``stores_bodies``: its effect is seen only
    by reading contents and snapshots, too."""

    name: str
    verb: str
    tasks: tuple[str, ...]
    act: Callable[[Store, Stage, str], object]
    """store, stage, and a word that marks this attempt (its token, its key)."""
    stores_bodies: bool = False


def scenes() -> tuple[Scene, ...]:
    return (
        Scene("nothing", ("t",), lambda store: {}),
        Scene("pending", ("t",), _pending),
        Scene("running", ("t",), _running),
        Scene("suspended", ("t",), lambda store: _suspended(store, Suspend(ExternalEvent("go")))),
        Scene("kept", ("t",), lambda store: _suspended(store, Suspend(ExternalEvent("go"), keep=True))),
        Scene("timer due", ("t",), lambda store: _suspended(store, Suspend(TimerFired(START_SECONDS + 1))), 10),
        Scene("lapsed", ("t",), _running, 100),
        Scene("parent waits", ONE_CHILD, lambda store: _family(store, ONE_CHILD, SubtaskCompleted(ONE_CHILD[1]))),
        Scene("parent runs", ONE_CHILD, lambda store: _family(store, ONE_CHILD, None)),
        Scene("parent waits for a group", TWO_CHILDREN, lambda store: _family(store, TWO_CHILDREN, BOTH)),
    )


def moves(scene: Scene) -> tuple[Move, ...]:
    """Every write verb that makes sense here, on each task of the scene."""
    found = [
        *_task_free_moves(scene.tasks),
        *(move for task in scene.tasks for move in _inbox_moves(task)),
        *(_wake_with_result(scene.tasks[0], child, scene.tasks) for child in scene.tasks[1:]),
    ]
    if scene.name != "nothing":
        for task in scene.tasks:
            found += _owner_moves(task, scene.tasks)
    return tuple(found)


def _task_free_moves(tasks: tuple[str, ...]) -> list[Move]:
    def create(goal: str) -> Callable[[Store, Stage, str], object]:
        return lambda store, stage, word: store.create(NewTask("t", "agent", goal))

    return [
        Move("create", "create", ("t",), create("goal")),
        Move("create other", "create", ("t",), create("other goal")),
        Move("claim", "claim", tasks, lambda s, stage, word: s.claim(word, ["default"], LEASE_SECONDS, token=word)),
        Move("claim many", "claim", tasks, lambda s, stage, word: s.claim(word, None, 1.0, token=word, limit=4)),
        Move("fire_due_timers", "fire_due_timers", tasks, lambda s, stage, word: s.fire_due_timers()),
        Move("requeue_stale", "requeue_stale", tasks, lambda s, stage, word: s.requeue_stale()),
        Move("put_content", "put_content", (), lambda s, stage, word: s.put_content(BODY), stores_bodies=True),
        *(_put_snapshot(tasks[-1], seq) for seq in (1, 2)),
    ]


def _put_snapshot(task: str, seq: int) -> Move:
    """An older and a newer one: the newer must win in either order."""
    snapshot = Snapshot(seq, VERSION, b"snapshot %d" % seq)
    return Move(
        f"put_snapshot {seq} {task}",
        "put_snapshot",
        (task,),
        lambda s, stage, word: s.put_snapshot(task, snapshot),
        stores_bodies=True,
    )


def _wake_with_result(parent: str, child: str, tasks: tuple[str, ...]) -> Move:
    """What a parent waits for, from another hand than the child's own ending: both carry the same key."""
    result = SubtaskCompleted(child, output="early", group_id=GROUP if tasks == TWO_CHILDREN else None)
    return Move(f"wake {parent} with {child}", "wake", (parent,), lambda s, stage, word: s.wake(parent, result))


def _inbox_moves(task: str) -> list[Move]:
    return [
        Move(f"post {task}", "post", (task,), lambda s, stage, word: s.post(task, GO)),
        Move(f"post same key {task}", "post", (task,), lambda s, stage, word: s.post(task, GO, "key")),
        Move(f"cancel {task}", "post", (task,), lambda s, stage, word: s.post(task, ControlReceived(), word)),
        Move(f"wake {task}", "wake", (task,), lambda s, stage, word: s.wake(task, GO)),
    ]


def _owner_moves(task: str, tasks: tuple[str, ...]) -> list[Move]:
    other = next((name for name in tasks if name != task), task)

    def append(next: Next, *, entries: tuple[object, ...] = (), more: Mapping[str, object] | None = None) -> _Act:
        def act(store: Store, stage: Stage, word: str) -> object:
            claim = stage.claims[task]
            commit = Commit(entries, next, claim.inbox_seq, **(more or {}))  # type: ignore[arg-type]
            return store.append(claim, stage.seqs[task], commit)

        return act

    def child(goal: str) -> dict[str, object]:
        return {"children": (Child(f"{task}.9-0.0", "agent", goal),)}

    go = ExternalEvent("go")
    called = ModelCalled("hash", 1)
    post = {"posts": (Post(other, GO, "from " + task),)}
    content = {"contents": (Content(BODY),)}
    waits = (TaskSuspended(go),)
    family = tasks[:1]  # an ending holds the parent's row, too
    commits: list[tuple[str, _Act, tuple[str, ...]]] = [
        ("continue", append(Continue(), entries=(called,)), ()),
        ("take", append(Continue(), entries=(TaskWoken((1,), GO),)), ()),
        ("suspend", append(Suspend(go), entries=waits), ()),
        ("keep", append(Suspend(go, keep=True), entries=waits), ()),
        ("put back", append(PutBack()), ()),
        ("complete", append(End(TaskCompleted("done")), entries=(called,)), family),
        ("cancelled", append(End(TaskCancelled("why"))), family),
        ("with post", append(Continue(), entries=(called,), more=post), (other,)),
        ("with child", append(Continue(), entries=(called,), more=child("goal")), ()),
        ("with other child", append(Continue(), entries=(called,), more=child("other")), ()),
        ("with content", append(Continue(), entries=(called,), more=content), ()),
    ]
    found = [
        Move(f"append {name} {task}", "append", _held(task, *also), act, stores_bodies=name == "with content")
        for name, act, also in commits
    ]
    found += [
        Move(f"renew {task}", "renew", (task,), lambda s, stage, word: s.renew(stage.claims[task], LEASE_SECONDS)),
        Move(f"release {task}", "release", (task,), lambda s, stage, word: s.release(stage.claims[task])),
        Move(f"fail {task}", "fail", _held(task, *family), lambda s, stage, word: s.fail(stage.claims[task], "why")),
        Move(
            f"fail for good {task}",
            "fail",
            _held(task, *family),
            lambda s, stage, word: s.fail(stage.claims[task], "why", retryable=False),
        ),
    ]
    if task == tasks[-1] and len(tasks) > 1:
        found.append(Move("append_many", "append_many", tuple(tasks), _append_both(tasks)))
    return found


_Act = Callable[[Store, Stage, str], object]


def _held(*tasks: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tasks))


def _append_both(tasks: tuple[str, ...]) -> _Act:
    def act(store: Store, stage: Stage, word: str) -> object:
        commit = Commit((ModelCalled("hash", 1),))
        # Children first: the store has to find the lock order itself.
        return store.append_many([Append(stage.claims[t], stage.seqs[t], commit) for t in reversed(tasks)])

    return act


def _pending(store: Store) -> dict[str, Claim]:
    claims = _running(store)
    store.release(claims["t"])
    return claims


def _running(store: Store) -> dict[str, Claim]:
    store.create(NewTask("t", "agent", "goal"))
    store.post("t", GO, "first")
    return {"t": store.claim("w", ["default"], LEASE_SECONDS, token="scene").claims[0]}


def _suspended(store: Store, next: Suspend) -> dict[str, Claim]:
    store.create(NewTask("t", "agent", "goal"))
    claim = store.claim("w", ["default"], LEASE_SECONDS, token="scene").claims[0]
    store.append(claim, 1, Commit((TaskSuspended(next.wake_on),), next))
    return {"t": claim}


def _family(store: Store, tasks: tuple[str, ...], wait: WakeCondition | None) -> dict[str, Claim]:
    """A claimed parent that waits (None: runs) and its claimed children."""
    parent, *children = tasks
    group = GROUP if wait == BOTH else None
    store.create(NewTask(parent, "agent", "goal"))
    claims = {parent: store.claim("w", ["default"], LEASE_SECONDS, token="scene").claims[0]}
    entries = (ModelCalled("hash", 1),) if wait is None else (TaskSuspended(wait),)
    born = tuple(Child(child, "agent", "goal", group=group) for child in children)
    store.append(claims[parent], 1, Commit(entries, Continue() if wait is None else Suspend(wait), children=born))
    for child in children:
        claims[child] = store.claim("w", ["default"], LEASE_SECONDS, token=f"scene of {child}").claims[0]
    return claims
