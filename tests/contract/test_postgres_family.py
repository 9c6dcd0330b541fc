"""Families on Postgres: one round trip, one order of locks, and no child that is born beside an end is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest

from noeta.backends.stores.pg_connection import Connection, Settings, Value
from noeta.backends.stores.postgres import FAMILY_TRIES, PostgresStore
from noeta.core import texts
from noeta.core.errors import InvalidLease, NoetaError, StoreUnavailable
from noeta.core.events import ModelCalled, TaskCompleted, TaskFailed
from noeta.core.store import Appended, Child, Claim, Commit, End, Failed, Post, Posted, Suspend
from noeta.core.task import Status
from noeta.core.wake import BACKGROUND, ControlReceived, HumanResponseReceived
from noeta.testing.contract.stage import at_once
from tests.contract.postgres_stores import claimed, open_store
from tests.contract.test_postgres_failures import caught_by, wait_until_one_waits
from tests.contract.test_postgres_sessions import round_trips, traced

CALLED = Commit((ModelCalled("hash", 1),))
DONE = Commit(next=End(TaskCompleted("done")), inbox_seen=1_000)
FAILED = Commit(next=End(TaskFailed("code")))
CANCEL = ControlReceived("cancel", "enough")
ORDER = ControlReceived("cancel", texts.PARENT_ENDED)
PATIENT = Settings(statement_timeout_seconds=20, lock_timeout_seconds=20)
RACES = 300


def test_what_concerns_a_family_is_one_round_trip_once_it_is_prepared(pg_schema: tuple[str, str]) -> None:
    """Its children's locks and orders included. A cancelled child costs one more: its parent is asked for first."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:

        def waits(id: str) -> Claim:
            claim = with_children(store, id, 3)[0]
            store.append(claim, 2, Commit(next=Suspend(HumanResponseReceived())))
            return claim

        calls: dict[str, tuple[Callable[[str], Claim], Callable[[Claim], object], int]] = {
            "cancel": (waits, lambda claim: store.post(claim.task_id, CANCEL), 1),
            "cancel what runs": (lambda id: claimed(store, id), lambda claim: store.post(claim.task_id, CANCEL), 1),
            "end": (lambda id: with_children(store, id, 3)[0], lambda claim: store.append(claim, 2, FAILED), 1),
            "end of a child": (
                lambda id: with_children(store, id, 1)[1],
                lambda claim: store.append(claim, 1, DONE),
                1,
            ),
            "fail for good": (
                lambda id: with_children(store, id, 3)[0],
                lambda claim: store.fail(claim, "boom", retryable=False),
                1,
            ),
            "birth in the background": (
                lambda id: with_children(store, id, 1)[1],
                lambda claim: store.append(claim, 1, Commit(CALLED.entries, children=(below(claim),))),
                1,
            ),
            "renew": (lambda id: with_children(store, id, 1)[0], lambda claim: store.renew(claim, 60.0), 1),
        }

        def born(id: str) -> Claim:
            claim = claimed(store, id)
            store.append(claim, 1, Commit(CALLED.entries, children=(Child(f"{id}.1-0.1", "agent", "goal"),)))
            return claim

        calls["cancel of a child"] = (born, lambda claim: store.post(f"{claim.task_id}.1-0.1", CANCEL), 2)
        for name, (prepare, call, trips) in calls.items():
            claims = [prepare(f"{name.replace(' ', '-')}{n}") for n in range(3)]
            call(claims[0]), call(claims[1])  # the first prepares
            with traced(store) as path:
                call(claims[2])
            assert round_trips(path) == trips, name


def test_a_child_born_while_the_roots_end_waits_for_its_locks_is_ordered_too(
    pg_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an end that gives everything back and starts again, or it would hold a younger child's lock out of order.
    Keeps: children-once, never-stuck.
    """
    dsn, schema = pg_schema
    with (
        open_store(dsn, schema, PATIENT) as store,
        open_store(dsn, schema, PATIENT) as other,
        in_one_transaction(other, dsn) as commit,
    ):
        root, middle = with_children(store, "t", 1)
        sent = sent_by(store, monkeypatch)
        other.append(middle, 1, Commit(CALLED.entries, children=(below(middle),)))  # holds the root's row
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(answer_of(lambda: store.append(root, 2, FAILED))))
        thread.start()
        wait_until_one_waits(dsn)
        commit()
        thread.join()

        (ended,) = answers
        assert isinstance(ended, Appended) and ended.status is Status.TERMINAL
        assert sent == ["append_family", "append_family"]
        assert [unread.item for unread in store.read(below(middle).id).unread] == [ORDER]
        assert [unread.item for unread in store.read(middle.task_id).unread] == [ORDER]


@pytest.mark.parametrize("verb", ["append", "fail", "cancel"])
def test_children_without_end_are_no_loop_without_end(
    pg_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Nothing was written, and that is what the caller is told. Keeps: bounded."""
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store:
        claim = claimed(store)
        calls: dict[str, Callable[[], object]] = {
            "append": lambda: store.append(claim, 1, FAILED),
            "fail": lambda: store.fail(claim, "boom", retryable=False),
            "cancel": lambda: store.post("t", CANCEL),
        }
        tries: list[str] = []

        def again(name: str, *values: Value) -> tuple[bytes, ...]:
            tries.append(name)
            return (b"again",)

        with monkeypatch.context() as patch:
            patch.setattr(store, "_write", again)
            error = caught_by(calls[verb])

        assert type(error) is StoreUnavailable
        assert len(tries) == FAMILY_TRIES
        assert store.task("t").last_seq == 1


@pytest.mark.slow
@pytest.mark.parametrize("parents_end", ["append", "fail", "cancel"])
def test_families_that_end_at_once_never_deadlock(pg_schema: tuple[str, str], parents_end: str) -> None:
    """Every row lock is taken in the order of ids, whoever begins. Keeps: children-once.

    https://github.com/apache/airflow/issues/27473 , https://github.com/apache/airflow/issues/66794
    """
    dsn, schema = pg_schema
    rounds, children = 40, 6
    with open_store(dsn, schema, PATIENT, max_connections=8) as store:
        for n in range(rounds):
            parent, *born = with_children(store, f"t{n}", children)
            if parents_end == "cancel":
                store.append(parent, 2, Commit(next=Suspend(HumanResponseReceived())))
            calls: dict[str, Callable[[Claim], object]] = {
                "append": lambda claim: store.append(claim, store.task(claim.task_id).last_seq, DONE),
                "fail": lambda claim: store.fail(claim, "boom", retryable=False),
                "cancel": lambda claim: store.post(claim.task_id, CANCEL),
                "report": lambda claim: report(store, claim),
            }
            ends = zip(
                [parents_end, "report", "report", "append", "append", "fail", "cancel"], [parent, *born], strict=True
            )

            answers = at_once(*(partial(calls[verb], claim) for verb, claim in ends))

            assert [answer for answer in answers if isinstance(answer, Exception)] == []
            ended = [store.task(claim.task_id).status is Status.TERMINAL for claim in born]
            assert ended == [False, False, True, True, True, False]  # the others run, and were told
            assert [unread.item for unread in store.read(born[-1].task_id).unread].count(CANCEL) == 1
            assert store.task(f"t{n}").status is Status.TERMINAL
        assert store.retries == 0, "the lock order let a deadlock happen"


@pytest.mark.slow
def test_births_in_the_background_and_the_roots_end_never_deadlock(pg_schema: tuple[str, str]) -> None:
    """Descendants lock the root before themselves. Keeps: never-stuck, children-once."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, PATIENT, max_connections=8) as store:
        for n in range(40):
            root, *middles = with_children(store, f"t{n}", 3)

            def bear(claim: Claim) -> list[int]:
                return [
                    store.append(claim, seq, Commit(CALLED.entries, children=(below(claim, seq),))).last_seq
                    for seq in range(1, 4)
                ]

            ends: Callable[[], object] = partial(store.append, root, 2, DONE)
            answers = at_once(ends, *(partial(bear, claim) for claim in middles))

            assert [answer for answer in answers if isinstance(answer, Exception)] == []
            for claim in middles:
                for seq in range(1, 4):
                    found = [unread.item for unread in store.read(below(claim, seq).id).unread]
                    assert found == [ORDER], (claim.task_id, seq)
        assert store.retries == 0, "the lock order let a deadlock happen"


@pytest.mark.slow
def test_hundreds_of_finishes_and_reapers_leave_one_ending_each(pg_schema: tuple[str, str]) -> None:
    """With heartbeats on their way, a cancel among them, and renewals after the end.
    Keeps: terminal-is-final, one-writer.

    https://github.com/rails/solid_queue/issues/589 , https://github.com/PrefectHQ/prefect/issues/18653 ,
    https://github.com/PrefectHQ/prefect/issues/16459 , https://github.com/SamSaffron/term-llm/pull/918
    """
    dsn, schema = pg_schema
    with open_store(dsn, schema, PATIENT, max_connections=4) as store:
        claims = [claimed(store, f"t{n}", 3_600.0) for n in range(RACES)]
        together = threading.Barrier(4, timeout=60)

        def through(call: Callable[[Claim], object]) -> list[object]:
            answers: list[object] = []
            for claim in claims:
                together.wait()
                answers.append(answer_of(partial(call, claim)))
            return answers

        answers = at_once(
            lambda: through(lambda claim: store.append(claim, 1, DONE)),
            lambda: through(lambda claim: store.fail(claim, "reaped", retryable=False)),
            lambda: through(lambda claim: store.renew(claim, 3_600.0)[0].outcome),
            lambda: through(lambda claim: store.post(claim.task_id, CANCEL, "cancel:1")),
        )

        assert all(isinstance(answer, list) for answer in answers), answers
        finished, reaped, beats, cancelled = (answer for answer in answers if isinstance(answer, list))
        winners = {"finish": 0, "reaper": 0}
        for n, claim in enumerate(claims):
            finish, reaper, order = finished[n], reaped[n], cancelled[n]
            won = isinstance(finish, Appended)
            winners["finish" if won else "reaper"] += 1
            assert isinstance(finish, Appended | InvalidLease) and isinstance(reaper, Failed | InvalidLease)
            assert won != isinstance(reaper, Failed), (finish, reaper)
            assert isinstance(order, Posted) and order.outcome in ("stored", "ended")
            assert beats[n] in ("held", "lost", "busy")
            page = store.read(claim.task_id)
            expected = TaskCompleted if won else TaskFailed
            assert [type(entry.event) for entry in page.entries[1:]] == [expected]
            assert (page.row.status, page.unread) == (Status.TERMINAL, ())
        assert {renewal.outcome for renewal in store.renew(claims, 60.0)} == {"lost"}
        assert all(winners.values()), f"one side was always first: {winners}"


def below(claim: Claim, seq: int = 1) -> Child:
    """A child in the background that this task bears; the root is its owner."""
    root = claim.task_id.partition(".")[0]
    return Child(f"{claim.task_id}.{seq}-0.1", "agent", "goal", group=BACKGROUND, parent=root, root=root, depth=2)


def report(store: PostgresStore, claim: Claim) -> int:
    """What a child does that speaks to its parent: ordinary commits with a post."""
    parent = claim.task_id.partition(".")[0]
    for seq in range(1, 9):
        posts = (Post(parent, HumanResponseReceived(text="so far so good"), f"{claim.task_id} {seq}"),)
        store.append(claim, seq, Commit(CALLED.entries, posts=posts))
    return seq


def with_children(store: PostgresStore, id: str, count: int) -> list[Claim]:
    """A task and its children, all running; the task's log ends at 2."""
    parent = claimed(store, id, 3_600.0)
    born = tuple(Child(f"{id}.1-0.{n}", "agent", "goal") for n in range(1, count + 1))
    store.append(parent, 1, Commit(CALLED.entries, children=born))
    claims = store.claim("w", [parent.queue], 3_600.0, limit=count).claims
    assert len(claims) == count
    return [parent, *claims]


def sent_by(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that this store sends from now on."""
    names: list[str] = []
    write = store._write

    def noted(name: str, *values: Value) -> object:
        names.append(name)
        return write(name, *values)

    monkeypatch.setattr(store, "_write", noted)
    return names


class _Lender:
    """Stands in for a pool: lends one connection, with a transaction open around what it is asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        yield self._connection

    def distrust_idle(self) -> None:
        raise AssertionError("the connection of the open transaction broke")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def in_one_transaction(store: PostgresStore, dsn: str) -> Iterator[Callable[[], object]]:
    """The verbs of this store land only when the function given here is called."""
    connection = Connection(dsn, PATIENT)
    connection.run("begin", "BEGIN", ())
    pools = store._work, store._renewals
    lender = _Lender(connection)
    store._work = store._renewals = lender  # type: ignore[assignment]
    try:
        yield lambda: connection.run("commit", "COMMIT", ())
    finally:
        store._work, store._renewals = pools
        connection.close()


def answer_of(call: Callable[[], object]) -> object:
    """What the call answered or raised."""
    try:
        return call()
    except (NoetaError, psycopg.Error) as error:
        return error
