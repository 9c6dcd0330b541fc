"""What is compared: the store's append, the same call sent bare, a bare insert, and a whole task."""

from __future__ import annotations

from typing import Any, Final

import psycopg

from bench.agents import Silent
from bench.site import Session
from noeta.backends.stores.sql_loader import load_statements
from noeta.core import codec
from noeta.core.events import ModelCalled
from noeta.core.lower import Target, lower_commit
from noeta.core.runner import Engine
from noeta.core.store import Claim, Commit, NewTask, Store
from noeta.core.task import Shape, Status
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle

EVENT: Final = ModelCalled("0" * 64, 1, "1" * 64)
LANDED: Final = "landed"


class StoreAppends:
    """``Store.append`` of one entry."""

    def __init__(self, store: Store, claim: Claim, operations: int) -> None:
        self._store = store
        self._claim = claim
        self._operations = operations
        self._seq = claim.last_seq

    def __call__(self) -> int:
        for _ in range(self._operations):
            self._seq = self._store.append(self._claim, self._seq, Commit((EVENT,))).last_seq
        return self._operations


class BareInserts:
    """A bare autocommit INSERT of the same bytes into a table with the same primary key."""

    def __init__(self, session: Session, operations: int) -> None:
        session.execute(
            """
            CREATE TABLE bare (task_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL,
                at bigint NOT NULL, body json NOT NULL, PRIMARY KEY (task_id, seq))
            """
        )
        self._session = session
        self._operations = operations
        self._seq = 0
        self._body = codec.encode("bench", EVENT)

    def __call__(self) -> int:
        for _ in range(self._operations):
            self._seq += 1
            self._session.execute(
                "INSERT INTO bare (task_id, seq, epoch, at, body) VALUES (%s, %s, %s, %s, %s::json)",
                ["load-00000001", self._seq, 1, self._seq, self._body],
                prepare=True,
            )
        return self._operations


class BareCalls:
    """The append's own statement, prepared, with parameters of the same shape, sent by psycopg.

    Only the expected seq changes from call to call: nothing is lowered, encoded or mapped.
    """

    def __init__(self, session: Session, schema: str, claim: Claim, operations: int) -> None:
        self._cursor = psycopg.RawCursor(session)
        self._statement = load_statements("postgres", schema)["append"].encode()
        self._values = bare_values(claim)
        self._operations = operations
        self._seq = claim.last_seq

    def __call__(self) -> int:
        for _ in range(self._operations):
            self._values[3] = self._seq
            row = self._cursor.execute(self._statement, self._values, prepare=True).fetchone()
            assert row is not None and row[0] == LANDED, row
            self._seq += 1
        return self._operations


class Drain:
    """No-op tasks through a whole worker loop, one after the other: claim, read, ask, answer, end."""

    def __init__(self, store: Store, tasks: int) -> None:
        self._store = store
        self._tasks = tasks
        self._made = 0
        runtime = bundle(store, Engine(Silent()), queues=["drain"])
        self._loop = WorkerLoop(runtime, worker_id="bench", stale_sweep_interval=0, timer_poll_interval=0)

    def stock(self, tasks: int) -> None:
        """Create tasks to drain."""
        for _ in range(tasks):
            self._made += 1
            self._store.create(NewTask(f"drain-{self._made:06}", "main", "bench", queue="drain"))

    def __call__(self) -> int:
        for _ in range(self._tasks):
            assert self._loop.tick(), "the stock is used up"
        return self._tasks

    def stop(self) -> None:
        """End the loop and its lease keeper; every task it was given must have ended."""
        self._loop.stop()
        self._loop.run_forever()
        ended = len(self._store.tasks(queue="drain", status=Status.TERMINAL, limit=10_000))
        assert ended == self._made, f"{self._made} tasks were drained, {ended} ended"


def bare_values(claim: Claim) -> list[Any]:
    """The parameters of the statement ``append`` as plain Python values."""
    write = lower_commit(claim, claim.last_seq, Commit((EVENT,)))
    return [
        *(write.task_id, write.epoch, write.token, write.expected_seq, list(write.bodies), write.ending, [], []),
        write.inbox_seen,
        *_target(write.target),
        *_target(write.target_moved),
        write.resets_failures,
        *([] for _ in range(15)),
    ]


def _target(target: Target) -> tuple[Any, ...]:
    status = Status.SUSPENDED.value if target.shape is Shape.KEPT else target.shape.value
    return (
        *(status, target.shape is Shape.KEPT, target.clears_owner, target.ready_at, target.ready_in),
        *(target.wake_on_body, target.wake_key, target.wake_missing),
    )
