"""One process of the family load: it bears children, ends them, cancels them and their parents, posts and renews.

All processes work on the same few families, so that ends, cancels and posts of one family meet. A family whose root
has ended is replaced by its next generation; which one that is, is shared. Seeded: the draws repeat, the timing does
not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Final, TypeVar

from noeta.backends.stores.postgres import PostgresStore
from noeta.core.errors import CommitUnknown, Conflict, StoreUnavailable, UnknownTask
from noeta.core.events import ModelCalled, TaskFailed
from noeta.core.ids import child_id
from noeta.core.store import Child, Claim, Commit, End, NewTask, Store, Suspend
from noeta.core.wake import BACKGROUND, ControlReceived, ExternalEvent, SubtaskGroupCompleted

QUEUE: Final = "family"
MEMBERS: Final = 8
HELD_MAX: Final = 4
LEASE_SECONDS: Final = 30.0
CALL: Final = "2-0"
READY_SECONDS_MAX: Final = 60.0
ENTRY: Final = ModelCalled("0" * 64, 1)
WEIGHTS: Final = {"turn": 60, "post": 14, "renew": 12, "cancel_child": 10, "cancel_root": 4}

T = TypeVar("T")


@dataclass(slots=True)
class Tally:
    """What one process did. ``calls`` and ``worst`` (seconds) by verb; ``refused``: the fence said no, which is right;
    ``unavailable``: the store gave up, which is not. ``retries``: the store's own count of 40001 and 40P01."""

    calls: dict[str, int] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    unavailable: int = 0
    retries: int = 0

    def add(self, verb: str, seconds: float) -> None:
        self.calls[verb] = self.calls.get(verb, 0) + 1
        self.worst[verb] = max(self.worst.get(verb, 0.0), seconds)

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        verbs = sorted(self.calls.keys() | other.calls.keys())
        return Tally(
            {verb: self.calls.get(verb, 0) + other.calls.get(verb, 0) for verb in verbs},
            {verb: max(self.worst.get(verb, 0.0), other.worst.get(verb, 0.0)) for verb in verbs},
            self.refused + other.refused,
            self.unavailable + other.unavailable,
            self.retries + other.retries,
        )


class Load:
    """Draws verbs and calls them. ``generations``: of each family, the one that lives; shared by the processes."""

    def __init__(self, store: Store, name: str, generations: MutableSequence[int]) -> None:
        self.tally = Tally()
        self._store = store
        self._name = name
        self._random = random.Random(name)
        self._generations = generations
        self._held: list[Claim] = []
        self._number = 0

    def step(self) -> None:
        """One drawn verb."""
        match self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]:
            case "turn":
                self._turn()
            case "post":
                self._post()
            case "renew" if self._held:
                answers = self._call("renew", lambda: self._store.renew(self._held, LEASE_SECONDS))
                lost = {answer.task_id for answer in answers or () if answer.outcome == "lost"}
                self._held = [claim for claim in self._held if claim.task_id not in lost]
            case "cancel_child":
                self._cancel("cancel of a child", self._child(self._root(self._draw())))
            case "cancel_root":
                family = self._draw()
                self._cancel("cancel of a root", self._root(family))
                self._replace(family, self._generations[family])

    def create_all(self) -> None:
        """The first generation."""
        for family in range(len(self._generations)):
            self._create(self._root(family))

    # -- what a worker does --------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Claim one task and write to it; a few are held meanwhile, so that there is something to renew."""
        claimed = self._call("claim", lambda: self._store.claim(self._name, [QUEUE], LEASE_SECONDS))
        for claim in claimed.claims if claimed else ():
            root, dot, _ = claim.task_id.partition(".")
            if not dot and claim.last_seq == 1:
                self._fan_out(claim)
            elif not dot:
                self._end("end of a root", claim, claim.last_seq)
                family, generation = map(int, root.split("-")[1:])
                self._replace(family, generation)
            else:
                self._held.append(claim)
        while len(self._held) > HELD_MAX or (self._held and not (claimed and claimed.claims)):
            self._end_child(self._held.pop(self._random.randrange(len(self._held))))

    def _fan_out(self, claim: Claim) -> None:
        group = f"{claim.task_id}.{CALL}"
        wake_on = SubtaskGroupCompleted(group, MEMBERS)
        ids = [child_id(claim.task_id, CALL, n) for n in range(1, MEMBERS + 1)]
        children = tuple(Child(id, "bench", "bench", group=group) for id in ids)
        commit = Commit((ENTRY,), Suspend(wake_on), claim.inbox_seq, children)
        self._call("birth of a group", lambda: self._store.append(claim, claim.last_seq, commit))

    def _end_child(self, claim: Claim) -> None:
        seq = claim.last_seq
        root, _, _ = claim.task_id.partition(".")
        draw = self._random.random()
        if draw < 0.2 and claim.group != BACKGROUND:
            child = Child(child_id(claim.task_id, CALL, 1), "bench", "bench", False, BACKGROUND, root, root, 2)
            commit = Commit((ENTRY,), children=(child,))
            if self._call("birth in the background", lambda: self._store.append(claim, seq, commit)) is None:
                return
            seq += 1
        if draw > 0.9:
            self._call("fail at the bound", lambda: self._store.fail(claim, "bench", attempts_max=1))
        else:
            self._end("end of a child", claim, seq)

    def _end(self, verb: str, claim: Claim, seq: int) -> None:
        """Failed, because that lands whatever the inbox holds."""
        commit = Commit(next=End(TaskFailed("bench")))
        self._call(verb, lambda: self._store.append(claim, seq, commit))

    # -- what comes from outside ---------------------------------------------------------------------------

    def _post(self) -> None:
        root = self._root(self._draw())
        task = root if self._random.random() < 0.5 else self._child(root)
        self._call("post", lambda: self._store.post(task, ExternalEvent("go", self._number), self._key()))

    def _cancel(self, verb: str, task: str) -> None:
        self._call(verb, lambda: self._store.post(task, ControlReceived(), self._key()))

    def _replace(self, family: int, generation: int) -> None:
        """The next generation of a family whose root has ended; whoever comes second changes nothing."""
        if self._generations[family] == generation:
            self._generations[family] = generation + 1
            self._create(self._root(family))

    def _create(self, root: str) -> None:
        self._call("create", lambda: self._store.create(NewTask(root, "bench", "bench", queue=QUEUE)))

    def _call(self, verb: str, call: Callable[[], T]) -> T | None:
        started = time.monotonic()
        try:
            answer = call()
        except (Conflict, UnknownTask):  # a lost claim, or a child of a family that has not been born
            self.tally.refused += 1
            answer = None
        except (StoreUnavailable, CommitUnknown):
            self.tally.unavailable += 1
            answer = None
        self.tally.add(verb, time.monotonic() - started)
        return answer

    def _draw(self) -> int:
        return self._random.randrange(len(self._generations))

    def _root(self, family: int) -> str:
        return f"fam-{family}-{self._generations[family]}"

    def _child(self, root: str) -> str:
        return child_id(root, CALL, self._random.randint(1, MEMBERS))

    def _key(self) -> str:
        self._number += 1
        return f"{self._name}:{self._number}"


def run(
    dsn: str,
    schema: str,
    name: str,
    seconds: float,
    generations: MutableSequence[int],
    ready: Barrier,
    answer: Connection,
) -> None:
    """A whole process: waits for the others, draws for so long, and sends its tally."""
    store = PostgresStore(dsn, schema=schema, max_connections=2)
    try:
        load = Load(store, name, generations)
        load.create_all()  # opens the connection, too
        ready.wait(READY_SECONDS_MAX)
        load.tally = Tally()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            load.step()
        load.tally.retries = store.retries
        answer.send(load.tally)
    finally:
        store.close()
