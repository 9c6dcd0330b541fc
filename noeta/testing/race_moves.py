"""The moves of the race matrix: every verb that writes, and the ways in which it may meet another one.

A move is one verb on a scene's state, with everything it needs decided beforehand, so that it can be sent at any
moment. Claims are those of the scene, also where they are stale by now: then the move must be refused.
"""

from __future__ import annotations

from collections.abc import Callable

from noeta.core.events import Ending, Event, TaskCancelled, TaskCompleted, TaskSuspended, TaskWoken
from noeta.core.store import (
    Append,
    Child,
    Commit,
    Content,
    End,
    NewTask,
    Post,
    PutBack,
    Snapshot,
    Store,
    Suspend,
)
from noeta.core.wake import (
    BACKGROUND,
    CLOSE,
    ControlReceived,
    ExternalEvent,
    Item,
    SubtaskCompleted,
    WakeCondition,
)
from noeta.testing.race_scenes import (
    BODY,
    BOTH,
    CALLED,
    GO,
    GROUP,
    LEASE_SECONDS,
    ROOT,
    START_SECONDS,
    TWO_CHILDREN,
    VERSION,
    Act,
    Move,
    Scene,
    Stage,
)

LIMITED = ExternalEvent("go", timeout_at=START_SECONDS + 5)


def moves(scene: Scene) -> tuple[Move, ...]:
    """Every write verb that makes sense here, on each task of the scene."""
    found = [
        *_task_free_moves(scene.tasks),
        *(move for task in scene.tasks for move in _inbox_moves(scene, task)),
        *(_wake_with_result(scene, child) for child in scene.children_of(ROOT)),
    ]
    if scene.name != "nothing":
        for task in scene.tasks:
            found += [*_commits(scene, task), *_commits_of_family(scene, task), *_owner_moves(scene, task)]
        if len(scene.tasks) > 1:
            found += [_append_many(scene.tasks), _renew_all(scene.tasks)]
    return tuple(move for move in found if scene.whole or not move.alone)


def spans(a: Move, b: Move) -> bool:
    """Whether a pair has to do with parent and child: both on one task are raced in the scenes of one task."""
    return len({*a.tasks, *b.tasks}) > 1


def first_of_its_verbs(scene: Scene) -> Callable[[Move, Move], bool]:
    """Chooses one pair of moves for each ordered pair of verbs."""
    names = _firsts(scene)
    return lambda a, b: a.name in names and b.name in names


def spans_and_is_first(scene: Scene) -> Callable[[Move, Move], bool]:
    """Chooses the pairs that span a family whose first move is the first of its verb: of a transaction that never was,
    it matters which rows it held, and not what it would have written to them."""
    names = _firsts(scene)
    return lambda a, b: a.name in names and spans(a, b)


def _firsts(scene: Scene) -> frozenset[str]:
    chosen: dict[str, str] = {}
    for move in moves(scene):
        chosen.setdefault(move.verb, move.name)
    return frozenset(chosen.values())


# -- from outside ------------------------------------------------------------------------------------------


def _task_free_moves(tasks: tuple[str, ...]) -> list[Move]:
    def create(goal: str) -> Act:
        return lambda store, stage, word: store.create(NewTask(ROOT, "agent", goal))

    def put_content(store: Store, stage: Stage, word: str) -> object:
        return store.put_content(BODY)

    def claim(store: Store, stage: Stage, word: str) -> object:
        return store.claim(word, ["default"], LEASE_SECONDS, token=word)

    def fire(store: Store, stage: Stage, word: str) -> object:
        return store.fire_due_timers()

    return [
        Move("create", "create", (ROOT,), create("goal"), alone=True),
        Move("create other", "create", (ROOT,), create("other goal"), alone=True),
        Move("claim", "claim", tasks, claim, alone=True),
        Move("claim many", "claim", tasks, lambda s, stage, word: s.claim(word, None, 1.0, token=word, limit=4)),
        Move("fire_due_timers", "fire_due_timers", tasks, fire, alone=True),
        Move("requeue_stale", "requeue_stale", tasks, lambda s, stage, word: s.requeue_stale()),
        Move("put_content", "put_content", (), put_content, stores_bodies=True, alone=True),
        *(_put_snapshot(tasks[-1], seq) for seq in (1, 2)),
    ]


def _put_snapshot(task: str, seq: int) -> Move:
    """An older and a newer one: the newer must win in either order."""
    snapshot = Snapshot(seq, VERSION, b"snapshot %d" % seq)

    def act(store: Store, stage: Stage, word: str) -> object:
        store.put_snapshot(task, snapshot)
        return None

    return Move(f"put_snapshot {seq} {task}", "put_snapshot", (task,), act, stores_bodies=True, alone=True)


def _wake_with_result(scene: Scene, child: str) -> Move:
    """What a parent waits for, from another hand than the child's own ending: both carry the same key."""
    result = SubtaskCompleted(child, output="early", group_id=GROUP if scene.parents == TWO_CHILDREN else None)
    return Move(f"wake {ROOT} with {child}", "wake", (ROOT,), lambda s, stage, word: s.wake(ROOT, result))


def _inbox_moves(scene: Scene, task: str) -> list[Move]:
    """A cancel may end the task: its parent is told, its children are ordered to end."""

    def post(item: Item, key: str = "") -> Act:
        return lambda store, stage, word: store.post(task, item, key or word)

    def post_without_key(store: Store, stage: Stage, word: str) -> object:
        return store.post(task, GO)

    return [
        Move(f"post {task}", "post", (task,), post_without_key),
        Move(f"post same key {task}", "post", (task,), post(GO, "key"), alone=True),
        Move(f"cancel {task}", "cancel", _family_of(scene, task), post(ControlReceived())),
        Move(f"cancel same key {task}", "cancel", _family_of(scene, task), post(ControlReceived(), "key"), alone=True),
        Move(f"close {task}", "post", (task,), post(ControlReceived(CLOSE))),
        Move(f"wake {task}", "wake", (task,), lambda s, stage, word: s.wake(task, GO), alone=True),
    ]


def _family_of(scene: Scene, task: str) -> tuple[str, ...]:
    """The rows that an end of this task holds."""
    parent = scene.parent_of(task)
    return (*(() if parent is None else (parent,)), task, *scene.children_of(task))


# -- by the owner ------------------------------------------------------------------------------------------


def _append(task: str, commit: Commit) -> Act:
    """This commit on the log and the inbox as the scene left them to the owner."""

    def act(store: Store, stage: Stage, word: str) -> object:
        claim = stage.claims[task]
        seen = Commit(commit.entries, commit.next, claim.inbox_seq, commit.children, commit.posts, commit.contents)
        return store.append(claim, stage.seqs[task], seen)

    return act


def _commits(scene: Scene, task: str) -> list[Move]:
    """Commits that change this task alone, or bear tasks that nobody knows yet, or post."""
    other = next((name for name in scene.tasks if name != task), task)
    posted = Post(other, GO, f"from {task}")
    suspended = TaskSuspended(ExternalEvent("go"))

    def move(name: str, commit: Commit, *also: str, alone: bool = False) -> Move:
        held = tuple(dict.fromkeys((task, *also)))
        bodies = bool(commit.contents)
        return Move(f"append {name} {task}", "append", held, _append(task, commit), stores_bodies=bodies, alone=alone)

    def waits(wake_on: WakeCondition, *, keep: bool = False, again: bool = False) -> Commit:
        return Commit((TaskSuspended(wake_on),), Suspend(wake_on, keep=keep, again=again))

    found = [
        move("continue", Commit((CALLED,))),
        move("take", Commit((TaskWoken((1,), GO),)), alone=True),
        move("suspend", waits(suspended.wake_on), alone=True),
        move("suspend again", waits(suspended.wake_on, again=True), alone=True),
        move("suspend with limit", waits(LIMITED), alone=True),
        move("keep", waits(suspended.wake_on, keep=True), alone=True),
        move("put back", Commit(next=PutBack()), alone=True),
        move("with post", Commit((CALLED,), posts=(posted,)), other),
        move("with child", Commit((CALLED,), children=(_born(task),))),
        move("with other child", Commit((CALLED,), children=(_born(task, "other"),)), alone=True),
        move("with content", Commit((CALLED,), contents=(Content(BODY),)), alone=True),
    ]
    children = scene.children_of(task)
    if children:
        wait = BOTH if scene.parents == TWO_CHILDREN else SubtaskCompleted(children[0])
        found.append(move("suspend on children", waits(wait)))
    return found


def _born(task: str, goal: str = "goal") -> Child:
    return Child(f"{task}.9-0.0", "agent", goal)


def _commits_of_family(scene: Scene, task: str) -> list[Move]:
    """Commits that end the task, or bear a child for the root."""
    family = _family_of(scene, task)

    def end(name: str, entry: Ending, *entries: Event) -> Move:
        return Move(f"append {name} {task}", "append_family", family, _append(task, Commit(entries, End(entry))))

    found = [end("complete", TaskCompleted("done"), CALLED), end("cancelled", TaskCancelled("why"))]
    if task != ROOT:
        child = Child(f"{task}.8-0.0", "agent", "goal", group=BACKGROUND, parent=ROOT, root=ROOT, depth=2)
        act = _append(task, Commit((CALLED,), children=(child,)))
        found.append(Move(f"append with adopted {task}", "append_family", (ROOT, task), act))
    return found


def _owner_moves(scene: Scene, task: str) -> list[Move]:
    family = _family_of(scene, task)

    def fail(attempts_max: int) -> Act:
        return lambda store, stage, word: store.fail(stage.claims[task], "why", attempts_max=attempts_max)

    def renew(store: Store, stage: Stage, word: str) -> object:
        return store.renew(stage.claims[task], LEASE_SECONDS)

    def release(store: Store, stage: Stage, word: str) -> object:
        return store.release(stage.claims[task])

    def resume(store: Store, stage: Stage, word: str) -> object:
        return store.resume(stage.claims[task])

    return [
        Move(f"renew {task}", "renew", (task,), renew, alone=True),
        Move(f"release {task}", "release", (task,), release, alone=True),
        Move(f"resume {task}", "resume", (task,), resume, alone=True),
        Move(f"fail {task}", "fail", family, fail(3), alone=True),
        Move(f"fail at the bound {task}", "fail", family, fail(1)),
    ]


def _append_many(tasks: tuple[str, ...]) -> Move:
    def act(store: Store, stage: Stage, word: str) -> object:
        # Children first: the store has to find the lock order itself.
        return store.append_many([Append(stage.claims[t], stage.seqs[t], Commit((CALLED,))) for t in reversed(tasks)])

    return Move("append_many", "append_many", tasks, act, alone=True)


def _renew_all(tasks: tuple[str, ...]) -> Move:
    """As a worker does that runs a whole family: each claim is answered by itself."""

    def act(store: Store, stage: Stage, word: str) -> object:
        return store.renew([stage.claims[task] for task in tasks], LEASE_SECONDS)

    return Move("renew all", "renew", tasks, act)
