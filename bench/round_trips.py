"""Round trips a verb, counted on the wire after preparation. Target: one each, and two for the cancel of a child.

A child's parent is told of the cancel by a text that is computed here, so that a first round trip asks who it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.report import Figure, Target, figure
from bench.site import Places
from bench.wire import Relay
from noeta.core.events import ModelCalled, TaskCompleted
from noeta.core.ids import child_id
from noeta.core.store import Append, Child, Claim, Commit, End, NewTask, Snapshot, Store, Suspend
from noeta.core.wake import BACKGROUND, ControlReceived, ExternalEvent, TimerFired

NAME: Final = "round_trips"
ONE: Final = Target("at most", 1)
CANCEL_OF_A_CHILD: Final = "cancel, of a child"
TWO: Final = Target("at most", 2)
LEASE_SECONDS: Final = 600.0
WARM_UP: Final = 2
CALLS: Final = 5
MEMBERS: Final = 10


class Verbs:
    """One steady-state call of each verb, as often as asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = 0
        self._seqs: dict[str, int] = {}
        self._held = [self._claimed() for _ in range(MEMBERS)]
        self._content = store.put_content(b"bench")

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """By name. What a call needs is made by ``ready`` before it is counted."""
        store, task = self._store, self._held[0].task_id
        return {
            "create": lambda: store.create(NewTask(self._id(), "main", "bench")),
            "claim": lambda: store.claim("bench", ["ready"], LEASE_SECONDS),
            "claim, nothing there": lambda: store.claim("bench", ["empty"], LEASE_SECONDS),
            "claim, every queue": lambda: store.claim("bench", None, LEASE_SECONDS),
            "renew": lambda: store.renew(self._held, LEASE_SECONDS),
            "release": lambda: store.release(self._spare),
            "resume": lambda: store.resume(self._kept),
            "append": lambda: self._append_many(self._held[:1]),
            "append_many": lambda: self._append_many(self._held),
            "append, a child's end": lambda: self._append(self._child, Commit(next=End(TaskCompleted("done")))),
            "append, a birth": lambda: self._append(self._spare, Commit((), children=(self._born(self._spare),))),
            "append, a birth in the background": lambda: self._append(
                self._child, Commit((), children=(self._born(self._child, BACKGROUND, self._spare.task_id),))
            ),
            "fail": lambda: store.fail(self._spare, "bench"),
            "fail, a child's end": lambda: store.fail(self._child, "bench", attempts_max=1),
            "cancel, of a root": lambda: store.post(self._idle, ControlReceived(), self._id()),
            "cancel, of a running task": lambda: store.post(self._spare.task_id, ControlReceived(), self._id()),
            CANCEL_OF_A_CHILD: lambda: store.post(self._idle_child, ControlReceived(), self._id()),
            "post": lambda: store.post(task, ExternalEvent("go", self._number), self._id()),
            "wake": lambda: store.wake(task, ExternalEvent("go", self._id())),
            "fire_due_timers": store.fire_due_timers,
            "requeue_stale": store.requeue_stale,
            "read": lambda: store.read(task),
            "task": lambda: store.task(task),
            "tasks": store.tasks,
            "put_content": lambda: store.put_content(self._id().encode()),
            "get_content": lambda: store.get_content(self._content.hash),
            "put_snapshot": lambda: store.put_snapshot(task, Snapshot(1, "bench", b"state")),
            "get_snapshot": lambda: store.get_snapshot(task, "bench"),
        }

    def ready(self) -> None:
        """Outside the count: a claim to give back or to fail, a child of it that runs and one that nobody runs, a kept
        task whose timer is due, and tasks to claim or to cancel."""
        queue = self._id()  # of its own, so that nothing else is claimed from it
        self._spare = self._claimed(queue)
        children = tuple(self._born(self._spare, number=n) for n in (2, 3))
        self._append(self._spare, Commit((), children=children))
        (self._child,) = self._store.claim("bench", [queue], LEASE_SECONDS).claims
        (self._idle_child,) = {child.id for child in children} - {self._child.task_id}
        self._kept = self._claimed(self._id())
        self._append(self._kept, Commit(next=Suspend(TimerFired(0.0), keep=True)))
        self._idle = self._id()
        self._store.create(NewTask(self._idle, "main", "bench", queue="idle"))
        for _ in range(2):
            self._store.create(NewTask(self._id(), "main", "bench", queue="ready"))

    def _append(self, claim: Claim, commit: Commit) -> None:
        self._store.append(claim, claim.last_seq, commit)

    @staticmethod
    def _born(claim: Claim, group: str | None = None, parent: str | None = None, *, number: int = 1) -> Child:
        return Child(child_id(claim.task_id, "2-0", number), "main", "bench", group=group, parent=parent)

    def _append_many(self, claims: list[Claim]) -> None:
        commit = Commit((ModelCalled("0" * 64, 1),))
        appends = [Append(claim, self._seqs[claim.task_id], commit) for claim in claims]
        if len(appends) == 1:
            self._store.append(claims[0], appends[0].expected_seq, commit)
        else:
            assert not [answer for answer in self._store.append_many(appends) if isinstance(answer, Exception)]
        for claim in claims:
            self._seqs[claim.task_id] += 1

    def _claimed(self, queue: str = "held") -> Claim:
        self._store.create(NewTask(self._id(), "main", "bench", queue=queue))
        (claim,) = self._store.claim("bench", [queue], LEASE_SECONDS).claims
        self._seqs[claim.task_id] = claim.last_seq
        return claim

    def _id(self) -> str:
        self._number += 1
        return f"task-{self._number:06}"


def count(call: Callable[[], object], ready: Callable[[], None], relay: Relay) -> list[int]:
    """Round trips of each call after the warm-up, by what the relay saw."""
    found = []
    for number in range(WARM_UP + CALLS):
        ready()
        before = relay.round_trips
        call()
        if number >= WARM_UP:
            found.append(relay.round_trips - before)
    return found


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """A figure a verb; these are counts, so a quick run counts the same."""
    with places() as place, Relay(place.dsn) as relay, place.store(relay.dsn, max_connections=1) as store:
        verbs = Verbs(store)
        return [
            figure(
                NAME, verb, "round trips", count(call, verbs.ready, relay), TWO if verb == CANCEL_OF_A_CHILD else ONE
            )
            for verb, call in verbs.calls().items()
        ]
