"""What the caller may conclude when the server, the wire or a right is missing: the table of `pg_errors.py`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from noeta.backends.stores.pg_connection import Settings
from noeta.backends.stores.pg_errors import Failure, SchemaMismatch, Sent, UnsafeServer, sort_failure
from noeta.backends.stores.pg_startup import StartupCheck
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.errors import BadInput, CommitUnknown, Conflict, InvalidLease, NoetaError, StoreUnavailable
from noeta.core.events import ModelCalled
from noeta.core.store import Appended, Claim, Commit, NewTask, Post
from noeta.core.wake import ExternalEvent
from tests.contract.postgres_stores import QUICK, claimed, open_store, open_wire

CALLED = Commit((ModelCalled("hash", 1),))
GO = ExternalEvent("go")


@pytest.mark.parametrize(
    ("failure", "write_gives", "read_gives"),
    [
        (Failure(Sent.NOTHING, "refused"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.NOTHING, "login", "28P01"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.CUT, "EOF"), CommitUnknown, StoreUnavailable),
        (Failure(Sent.CUT, "terminated", "57P01"), CommitUnknown, StoreUnavailable),
        (Failure(Sent.ANSWERED, "read only", "25006"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "shutting down", "57P01"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "disk full", "53100"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "lock", "55P03"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "canceled", "57014"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "serialization", "40001"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "completion unknown", "40003"), CommitUnknown, StoreUnavailable),
        (Failure(Sent.ANSWERED, "connection", "08006"), CommitUnknown, StoreUnavailable),
        (Failure(Sent.ANSWERED, "no table", "42P01"), SchemaMismatch, SchemaMismatch),
        (Failure(Sent.ANSWERED, "no schema", "3F000"), SchemaMismatch, SchemaMismatch),
        (Failure(Sent.ANSWERED, "no function", "42883"), SchemaMismatch, SchemaMismatch),
        (Failure(Sent.ANSWERED, "no right", "42501"), StoreUnavailable, StoreUnavailable),
        (Failure(Sent.ANSWERED, "unique", "23505", "entry_key"), Conflict, Conflict),
        (Failure(Sent.ANSWERED, "check", "23514", "task_owner_when_held"), BadInput, BadInput),
        (Failure(Sent.ANSWERED, "out of range", "22003"), BadInput, BadInput),
        (Failure(Sent.ANSWERED, "index row too big", "54000", "item_dedupe_key"), BadInput, BadInput),
        (Failure(Sent.ANSWERED, "busy", "55006", "item_dedupe_key"), StoreUnavailable, StoreUnavailable),
    ],
    ids=str,
)
def test_failures_are_sorted_by_what_the_caller_may_conclude(
    failure: Failure, write_gives: type[NoetaError], read_gives: type[NoetaError]
) -> None:
    """Keeps: acked-stays."""
    assert type(sort_failure(failure, writes=True, role="r", schema="s")) is write_gives
    assert type(sort_failure(failure, writes=False, role="r", schema="s")) is read_gives


def test_a_black_hole_ends_every_call_by_the_deadline(pg_schema: tuple[str, str]) -> None:
    """Requests vanish: the answer to a write is unknown, and nothing landed."""
    dsn, schema = pg_schema
    with open_wire(dsn) as wire, open_store(wire.dsn, schema) as store, open_store(dsn, schema) as outside:
        claim = claimed(store)
        claim = warm(store, claim)
        store.renew(claim, 60.0)
        wire.swallow()
        calls: dict[str, Callable[[], object]] = {
            "append": lambda: store.append(claim, 2, CALLED),
            "read": lambda: store.read("t"),
            "renew": lambda: store.renew(claim, 60.0),
        }
        found = {}
        for name, call in calls.items():
            started = time.monotonic()
            with pytest.raises(NoetaError) as caught:
                call()
            found[name] = caught.type
            # A call may have to connect first: that has its own bound, of at least two seconds in libpq.
            assert time.monotonic() - started < QUICK.deadline_seconds + QUICK.connect_timeout_seconds + 1.0

        assert found["append"] is CommitUnknown
        assert found["read"] is StoreUnavailable
        assert outside.task("t").last_seq == 2

        wire.heal()
        assert store.append(claim, 2, CALLED).last_seq == 3


def test_a_lost_answer_is_an_unknown_commit_that_landed(pg_schema: tuple[str, str]) -> None:
    """Keeps: acked-stays, taken-once: a repeat with the same key is dropped."""
    dsn, schema = pg_schema
    with open_wire(dsn) as wire, open_store(wire.dsn, schema) as store:
        claim = claimed(store)
        store.append(claim, 1, CALLED)
        wire.swallow(requests=False)
        with pytest.raises(CommitUnknown):
            store.append(claim, 2, CALLED)
        wire.heal()

        with pytest.raises(Conflict):
            store.append(claim, 2, CALLED)
        assert store.task("t").last_seq == 3


def test_a_frozen_backend_ends_the_call_and_its_connection(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    with open_store(dsn, schema, max_connections=1) as store:
        claim = warm(store, claimed(store))
        with store._work.lend() as connection:
            backend = connection.backend_pid
        try:
            os.kill(backend, signal.SIGSTOP)
        except (ProcessLookupError, PermissionError):
            pytest.skip("the server's processes are not ours to stop")
        try:
            started = time.monotonic()
            with pytest.raises(CommitUnknown):
                store.append(claim, 2, CALLED)
            assert time.monotonic() - started < QUICK.deadline_seconds + 1.0
            assert store.task("t").last_seq == 2  # a new connection: the old one was not given back
        finally:
            os.kill(backend, signal.SIGCONT)


def test_a_terminated_session_is_replaced_before_anything_is_sent(pg_schema: tuple[str, str]) -> None:
    """A restart while a connection lay idle is no unknown commit."""
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store:
        claim = claimed(store)
        store.renew(claim, 60.0)
        terminate_sessions(dsn)

        assert store.append(claim, 1, CALLED).last_seq == 2
        assert store.renew(claim, 60.0)[0].outcome == "held"


def test_a_session_terminated_while_it_waits_for_a_lock_is_unknown_for_a_write(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    slow = Settings(statement_timeout_seconds=20, lock_timeout_seconds=20)
    with open_store(dsn, schema, slow) as store, psycopg.connect(dsn) as holder:
        claim = claimed(store)
        hold(holder, schema)
        found: list[BaseException] = []
        thread = threading.Thread(target=lambda: found.append(caught_by(lambda: store.append(claim, 1, CALLED))))
        thread.start()
        wait_until_one_waits(dsn)
        terminate_sessions(dsn)
        thread.join()

        assert type(found[0]) is CommitUnknown


@pytest.mark.holds("writer/pg-others-wait")
def test_a_row_that_stays_locked_is_unavailable_not_unknown(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store, psycopg.connect(dsn) as holder:
        claim = claimed(store)
        hold(holder, schema)
        started = time.monotonic()
        for call in (
            lambda: store.append(claim, 1, CALLED),
            lambda: store.post("t", GO),
            lambda: store.release(claim),
            lambda: store.resume(claim),
            lambda: store.fail(claim, "why"),
        ):
            assert type(caught_by(call)) is StoreUnavailable

        assert time.monotonic() - started < 5 * QUICK.deadline_seconds
        assert store.renew(claim, 60.0)[0].outcome == "busy"  # never waits
        assert store.claim("w", None, 60.0, limit=5).claims == ()
        holder.rollback()
        assert store.append(claim, 1, CALLED).last_seq == 2


def test_no_free_connection_is_unavailable_within_a_bound(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    with open_store(dsn, schema, max_connections=1) as store:
        claim = claimed(store)
        with store._work.lend():
            started = time.monotonic()
            assert type(caught_by(lambda: store.append(claim, 1, CALLED))) is StoreUnavailable
            assert time.monotonic() - started < 3.0
            assert store.renew(claim, 60.0)[0].outcome == "held"  # renewals never wait for the work


def test_deadlocks_are_run_again_with_the_same_checks(pg_schema: tuple[str, str]) -> None:
    """Two tasks that post to each other: id order leaves nothing to detect. Keeps: one-writer."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:
        claims = {task: claimed(store, task) for task in ("a", "b")}
        errors: list[BaseException] = []

        def post_back(task: str, other: str) -> None:
            for seq in range(1, 101):
                posts = (Post(other, GO, f"{task} {seq}"),)
                try:
                    store.append(claims[task], seq, Commit(CALLED.entries, posts=posts))
                except NoetaError as error:
                    errors.append(error)

        threads = [threading.Thread(target=post_back, args=pair) for pair in (("a", "b"), ("b", "a"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        assert [store.task(task).last_seq for task in ("a", "b")] == [101, 101]
        assert store.retries == 0, "the lock order let a deadlock happen"


@pytest.mark.holds("writer/pg-deadlock")
@pytest.mark.parametrize("taken_over", [False, True])
def test_an_append_that_a_deadlock_aborted_is_run_again_with_its_checks(
    pg_schema: tuple[str, str], taken_over: bool
) -> None:
    """Somebody who keeps to no order holds the other row, and asks for this one. Keeps: one-writer, acked-stays."""
    dsn, schema = pg_schema
    table = sql.Identifier(schema, "task")
    with open_store(dsn, schema, Settings()) as store, psycopg.connect(dsn) as holder:
        claim = claimed(store, "a")
        store.create(NewTask("b", "agent", "goal"))
        holder.execute("SET deadlock_timeout = '60s'")  # the store's transaction is the one that finds it
        holder.execute(sql.SQL("SELECT id FROM {} WHERE id = 'b' FOR UPDATE").format(table))
        answers: list[object] = []

        def post() -> None:
            try:
                answers.append(store.append(claim, 1, Commit(CALLED.entries, posts=(Post("b", GO, "k"),))))
            except NoetaError as error:
                answers.append(error)

        thread = threading.Thread(target=post)
        thread.start()
        wait_until_one_waits(dsn)
        holder.execute(sql.SQL("SELECT id FROM {} WHERE id = 'a' FOR UPDATE").format(table))
        if taken_over:
            holder.execute(sql.SQL("UPDATE {} SET epoch = epoch + 1 WHERE id = 'a'").format(table))
        holder.commit()
        thread.join()

        assert store.retries >= 1
        assert [type(answer) for answer in answers] == [InvalidLease if taken_over else Appended]
        assert (store.task("a").last_seq, store.task("b").inbox_seq) == ((1, 0) if taken_over else (2, 1))


@pytest.mark.holds("writer/pg-skip-locked")
def test_a_claim_passes_by_a_row_that_somebody_holds(pg_schema: tuple[str, str]) -> None:
    """It waits for nobody, and takes the next one. Keeps: one-writer."""
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store, psycopg.connect(dsn) as holder:
        for task in ("first", "second"):
            store.create(NewTask(task, "agent", "goal"))
        table = sql.Identifier(schema, "task")
        holder.execute(sql.SQL("SELECT id FROM {} WHERE id = 'first' FOR UPDATE").format(table))

        assert [claim.task_id for claim in store.claim("w1", None, 60.0).claims] == ["second"]

        holder.rollback()
        assert [claim.task_id for claim in store.claim("w2", None, 60.0).claims] == ["first"]


def test_a_missing_right_names_role_and_object(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    role = f"role_{schema}"[:60]
    with open_store(dsn, schema) as store, psycopg.connect(dsn, autocommit=True) as admin:
        claim = claimed(store)
        name, who = sql.Identifier(schema), sql.Identifier(role)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'word'").format(who))
        try:
            for grant in (
                "GRANT USAGE ON SCHEMA {0} TO {1}",
                "GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO {1}",
                "GRANT UPDATE ON {0}.task TO {1}",
            ):
                admin.execute(sql.SQL(grant).format(name, who))
            limited = psycopg.conninfo.make_conninfo(dsn, user=role, password="word")
            with_few_rights = PostgresStore(limited, schema=schema, allow_unsafe=True)
            with pytest.raises(StoreUnavailable) as caught:
                with_few_rights.append(claim, 1, CALLED)
            with_few_rights.close()
        finally:
            admin.execute(sql.SQL("DROP OWNED BY {}").format(who))
            admin.execute(sql.SQL("DROP ROLE {}").format(who))

    assert role in str(caught.value)
    assert "entry" in str(caught.value)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_a_server_that_may_lose_acknowledged_writes_is_refused(pg_schema: tuple[str, str], setting: str) -> None:
    """The server of the tests is safe, so its answer is replaced. Keeps: acked-stays."""
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store:
        safe = store._statements["check_server"]
        statements = {**store._statements, "check_server": safe.replace(f"current_setting('{setting}')", "'off'")}
        check = StartupCheck(schema, QUICK, statements, allow_unsafe=False)
        with store._work.lend() as connection, pytest.raises(UnsafeServer, match=f"{setting} must be on"):
            check.check(connection)


def test_a_store_may_be_made_before_the_server_is_there() -> None:
    store = PostgresStore("host=127.0.0.1 port=1 dbname=none", allow_unsafe=True)

    assert type(caught_by(lambda: store.create(NewTask("t", "agent", "goal")))) is StoreUnavailable
    assert type(caught_by(lambda: store.tasks())) is StoreUnavailable
    store.close()
    assert type(caught_by(lambda: store.tasks())) is StoreUnavailable


@pytest.mark.holds("scale/check-inside-the-insert", "writer/pg-locks-first")
def test_a_lease_that_ends_while_the_append_waits_is_over(pg_schema: tuple[str, str]) -> None:
    """The clock is read after the lock. Keeps: one-writer."""
    dsn, schema = pg_schema
    slow = Settings(statement_timeout_seconds=20, lock_timeout_seconds=20)
    with open_store(dsn, schema, slow) as store, psycopg.connect(dsn) as holder:
        claim = claimed(store, lease_seconds=0.5)
        hold(holder, schema)
        found: list[BaseException] = []
        thread = threading.Thread(target=lambda: found.append(caught_by(lambda: store.append(claim, 1, CALLED))))
        thread.start()
        wait_until_one_waits(dsn)
        holder.execute("SELECT pg_sleep(0.6)")
        holder.rollback()
        thread.join()

        assert type(found[0]) is InvalidLease


def warm(store: PostgresStore, claim: Claim) -> Claim:
    """Prepare the append first: what is cut while it is prepared was never sent."""
    store.append(claim, 1, CALLED)
    return claim


def hold(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
    connection.execute(sql.SQL("SELECT id FROM {}.task FOR UPDATE").format(sql.Identifier(schema)))


def wait_until_one_waits(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'noeta' AND wait_event_type = 'Lock'"
        while connection.execute(waiting).fetchone() == (0,):
            pass


def terminate_sessions(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'noeta'"
        )


def caught_by(call: Callable[[], object]) -> BaseException:
    with pytest.raises(NoetaError) as caught:
        call()
    return caught.value
