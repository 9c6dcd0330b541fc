"""Round trips a verb, counted on the wire after preparation. Target: one each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.report import Figure, Target, figure
from bench.site import Places
from bench.wire import Relay
from noeta.core.events import ModelCalled
from noeta.core.store import Append, Claim, Commit, NewTask, Snapshot, Store
from noeta.core.wake import ExternalEvent

NAME: Final = "round_trips"
ONE: Final = Target("at most", 1)
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
            "append": lambda: self._append_many(self._held[:1]),
            "append_many": lambda: self._append_many(self._held),
            "fail": lambda: store.fail(self._spare, "bench"),
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
        """Outside the count: a claim to give back or to fail, and tasks to claim."""
        self._spare = self._claimed()
        for _ in range(2):
            self._store.create(NewTask(self._id(), "main", "bench", queue="ready"))

    def _append_many(self, claims: list[Claim]) -> None:
        commit = Commit((ModelCalled("0" * 64, 1),))
        appends = [Append(claim, self._seqs[claim.task_id], commit) for claim in claims]
        if len(appends) == 1:
            self._store.append(claims[0], appends[0].expected_seq, commit)
        else:
            assert not [answer for answer in self._store.append_many(appends) if isinstance(answer, Exception)]
        for claim in claims:
            self._seqs[claim.task_id] += 1

    def _claimed(self) -> Claim:
        self._store.create(NewTask(self._id(), "main", "bench", queue="held"))
        (claim,) = self._store.claim("bench", ["held"], LEASE_SECONDS).claims
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
            figure(NAME, verb, "round trips", count(call, verbs.ready, relay), ONE)
            for verb, call in verbs.calls().items()
        ]
