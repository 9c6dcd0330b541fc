"""What a session brings along: its isolation, its names, its clock, its round trips, and no locks when it freezes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import pq, sql

from noeta.backends.stores import pg_commits
from noeta.backends.stores.pg_connection import Connection, Settings, Value
from noeta.backends.stores.pg_errors import UnsafeServer
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.pg_wire import bigint_array, text_array
from noeta.backends.stores.postgres import PostgresStore
from noeta.core import lower
from noeta.core.events import ModelCalled, TaskFailed, TaskSuspended
from noeta.core.limits import ANSWER_BYTES_MAX
from noeta.core.store import Append, Child, Claim, Commit, Continue, End, NewTask, Post, Snapshot, Suspend
from noeta.core.task import FAIL_BACKOFF, TAKEOVER_BACKOFF
from noeta.core.wake import ExternalEvent, TimerFired
from tests.contract.postgres_stores import QUICK, claimed, open_store

CALLED = Commit((ModelCalled("hash", 1),))
GO = ExternalEvent("go")


def test_sessions_pin_what_the_promises_need(pg_schema: tuple[str, str]) -> None:
    """Whatever the database's defaults are. Keeps: acked-stays, frozen-holds-nothing."""
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as admin:
        database = sql.Identifier(admin.info.dbname)
        worse = {
            "default_transaction_isolation": "serializable",
            "synchronous_commit": "off",
            "statement_timeout": "0",
            "TimeZone": "Asia/Kathmandu",
            "search_path": "nowhere",
        }
        for name, value in worse.items():
            admin.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(database, sql.Identifier(name), value))
        try:
            connection = Connection(dsn, QUICK)
            found = {name: shown(connection, name) for name in worse}
            connection.close()
            with open_store(dsn, schema) as store:
                store.append(claimed(store), 1, CALLED)
        finally:
            for name in worse:
                admin.execute(sql.SQL("ALTER DATABASE {} RESET {}").format(database, sql.Identifier(name)))

    del found["search_path"]  # not pinned, because nothing is resolved by it
    assert found == {
        "default_transaction_isolation": "read committed",
        "synchronous_commit": "on",
        "statement_timeout": "1s",
        "TimeZone": "UTC",
    }


def test_nothing_is_resolved_by_search_path(pg_schema: tuple[str, str]) -> None:
    """Not even when tables and functions of the same names stand in front."""
    dsn, schema = pg_schema
    trap = f"{schema[:50]}_trap"
    with psycopg.connect(dsn, autocommit=True) as admin:
        name = sql.Identifier(trap)
        admin.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        try:
            for table in ("task", "entry", "item", "content", "snapshot", "migration"):
                admin.execute(sql.SQL("CREATE TABLE {}.{} (nothing int)").format(name, sql.Identifier(table)))
            admin.execute(
                sql.SQL(
                    "CREATE FUNCTION {}.clock_timestamp() RETURNS timestamptz LANGUAGE sql RETURN to_timestamp(0)"
                ).format(name)
            )
            path = f'-c search_path="{trap}"'
            with open_store(psycopg.conninfo.make_conninfo(dsn, options=path), schema) as store:
                claim = claimed(store)
                store.append(claim, 1, Commit(CALLED.entries, children=(Child("t.1-0.0", "agent", "goal"),)))
                store.post("t", GO, "key")

                assert store.read("t").entries[0].at > 1_600_000_000_000_000
                assert len(store.tasks()) == 2
        finally:
            admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))


def test_every_verb_is_one_round_trip_once_it_is_prepared(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:
        for label, verb in verbs(store).items():
            verb(), verb()  # the first prepares
            with traced(store) as path:
                verb()
            assert round_trips(path) == 1, label


@pytest.mark.parametrize("members", [1, 3])
def test_what_a_batch_makes_ready_is_not_hidden_from_the_next_claim(pg_schema: tuple[str, str], members: int) -> None:
    """A timer may lie in the past, below the bound where this process starts to look."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:
        claims = [claimed(store, f"t{number}") for number in range(members)]
        due = TimerFired(1_600_000_000.0)
        store._bounds._floors["a queue"] = 2**62

        answers = store.append_many([Append(claim, 1, Commit((TaskSuspended(due),), Suspend(due))) for claim in claims])

        assert [getattr(answer, "last_seq", answer) for answer in answers] == [2] * members
        assert not store._bounds._floors


def test_behind_a_pooler_every_verb_is_one_round_trip_from_the_start(pg_schema: tuple[str, str]) -> None:
    """Unnamed statements, no start-up options: what a transaction pooler lets through."""
    dsn, schema = pg_schema
    with role_with_settings(dsn) as pooled_dsn:
        with open_store(dsn, schema) as ordinary, open_store(pooled_dsn, schema, Settings(pooled=True)) as store:
            claim = claimed(ordinary)
            store.task("t")  # connects, and checks server and schema
            with traced(store) as path:
                store.append(claim, 1, CALLED)
            prepared = store._work._idle[0].run("count", "SELECT count(*) FROM pg_prepared_statements", ())

            assert round_trips(path) == 1
            assert prepared == [(b"0",)]


def test_behind_a_pooler_missing_settings_are_refused_by_name(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    store = PostgresStore(dsn, schema=schema, pooled=True, allow_unsafe=True)

    with pytest.raises(UnsafeServer, match="ALTER ROLE … SET statement_timeout"):
        store.create(NewTask("t", "agent", "goal"))
    store.close()


def test_a_session_that_was_reset_prepares_anew(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    with open_store(dsn, schema, max_connections=1) as store:
        store.append(claimed(store), 1, CALLED)
        store._work._idle[0].run("reset", "DEALLOCATE ALL", ())

        assert store.task("t").last_seq == 2


@pytest.mark.holds("scale/check-inside-the-insert", "scale/several-hosts", "writer/pg-clock")
def test_the_clock_is_one_function(pg_schema: tuple[str, str]) -> None:
    """Replace its body, and every instant the store writes and compares follows."""
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store, psycopg.connect(dsn, autocommit=True) as admin:
        set_clock(admin, schema, 1_000_000_000_000)
        claim = claimed(store, lease_seconds=10.0)
        store.append(claim, 1, CALLED)
        assert claim.lease_until == 1_000_010_000_000
        assert store.read("t").entries[1].at == 1_000_000_000_000
        set_clock(admin, schema, 1_000_010_000_000)

        assert store.renew(claim, 10.0)[0].outcome == "lost"
        assert store.requeue_stale() == ("t",)


WRITES = (
    *("create", "claim", "renew", "release", "append", "append_family", "append_many", "fail", "post", "cancel"),
    *("resume", "wake", "fire_due_timers", "requeue_stale"),
)


@pytest.mark.parametrize("verb", WRITES)
def test_a_client_that_never_reads_its_answer_holds_no_lock(pg_schema: tuple[str, str], verb: str) -> None:
    """Keeps: frozen-holds-nothing. The client sends and freezes: its locks are gone within statement_timeout."""
    dsn, schema = pg_schema
    with open_store(dsn, schema) as store:
        claim = claimed(store)
        frozen = Connection(dsn, QUICK)
        statement = store._statements[verb]
        bound = [value if value is None or isinstance(value, bytes) else _text(value) for value in sent(verb, claim)]
        formats = [int(isinstance(value, bytes)) for value in sent(verb, claim)]
        frozen.pgconn.send_query_params(statement.encode(), bound, param_formats=formats)
        while frozen.pgconn.flush():
            pass

        wait_until_unlocked(dsn, schema, QUICK.statement_timeout_seconds)
        answer = frozen.pgconn.get_result()  # what was sent was a call that the server understood
        assert answer is not None and answer.status == pq.ExecStatus.TUPLES_OK
        frozen.close()


def test_a_stopped_process_holds_no_lock(pg_schema: tuple[str, str]) -> None:
    """Keeps: frozen-holds-nothing. SIGSTOP at whatever instant, again and again, with bodies of 200 kB."""
    dsn, schema = pg_schema
    migrate(dsn, schema)
    worker = subprocess.Popen([sys.executable, "-c", BUSY_WORKER, dsn, schema])
    try:
        with psycopg.connect(dsn, autocommit=True) as admin:
            started = sql.SQL("SELECT count(*) FROM {}.entry").format(sql.Identifier(schema))
            while admin.execute(started).fetchone() == (0,):
                assert worker.poll() is None
        for n in range(20):
            time.sleep(0.003 * n)  # at another place of its loop each time
            worker.send_signal(signal.SIGSTOP)
            wait_until_unlocked(dsn, schema, 1.0)
            worker.send_signal(signal.SIGCONT)
        assert worker.poll() is None
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()


def test_answers_of_write_verbs_stay_small(pg_schema: tuple[str, str]) -> None:
    """Keeps: frozen-holds-nothing. The longest names, the biggest batches, megabytes of bodies."""
    dsn, schema = pg_schema
    long = "ü" * 180
    with open_store(dsn, schema, Settings()) as store:
        for n in range(110):
            store.create(NewTask(f"{long}{n:03}", "agent", "goal", queue=long))
        with traced(store) as path:
            claims = store.claim("w", [long], 0.001, limit=100).claims
        assert answer_bytes(path) <= ANSWER_BYTES_MAX
        assert 1 <= len(claims) < 100
        for verb in (lambda: store.requeue_stale(limit=100), lambda: store.renew(claims, 60.0)):
            with traced(store) as path:
                verb()
            assert answer_bytes(path) <= ANSWER_BYTES_MAX
        claim = claimed(store)
        posts = tuple(Post("nobody", GO, "k" * 490 + str(n)) for n in range(1000))
        with traced(store) as path:
            answer = store.append(claim, 1, Commit((ModelCalled("h" * 1_000_000, 1),), Continue(), posts=posts))
        assert len(answer.refused) == 1000
        assert answer_bytes(path) <= ANSWER_BYTES_MAX


BUSY_WORKER = """
import itertools, sys
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import ModelReplied
from noeta.core.store import Commit, NewTask
from noeta.core.wake import ExternalEvent, TimerFired
store = PostgresStore(sys.argv[1], schema=sys.argv[2], statement_timeout=1.0, allow_unsafe=True)
body = "x" * 200_000
for n in itertools.count():
    store.create(NewTask(f"t{n}", "agent", "goal"))
    claim = store.claim("w", None, 60.0).claims[0]
    store.append(claim, 1, Commit((ModelReplied(body),)))
    store.post(claim.task_id, ExternalEvent("go", body))
    store.renew(claim, 60.0)
    store.read(claim.task_id)
    store.fail(claim, "why", retryable=False)
"""


def verbs(store: PostgresStore) -> dict[str, Callable[[], object]]:
    claims = {task: claimed(store, task) for task in ("a", "b", "kept")}
    seqs = dict.fromkeys(claims, 1)

    def append(task: str, commit: Commit) -> object:
        seqs[task] = store.append(claims[task], seqs[task], commit).last_seq
        return seqs

    def append_many() -> object:
        store.append_many([Append(claims[task], seqs[task], CALLED) for task in ("a", "b")])
        seqs["a"], seqs["b"] = seqs["a"] + 1, seqs["b"] + 1
        return seqs

    keep = Commit((TaskSuspended(GO),), Suspend(GO, keep=True), inbox_seen=99)
    return {
        "create": lambda: store.create(NewTask("repeat", "agent", "goal")),
        "append": lambda: append("a", CALLED),
        "append with post": lambda: append("a", Commit(CALLED.entries, posts=(Post("b", GO, str(seqs["a"])),))),
        "append_many": append_many,
        "keep": lambda: append("kept", keep),
        "resume": lambda: store.resume(claims["kept"]),
        "claim": lambda: store.claim("w", None, 60.0),
        "renew": lambda: store.renew(list(claims.values()), 60.0),
        "post": lambda: store.post("b", GO),
        "wake": lambda: store.wake("b", ExternalEvent("go", "woken")),
        "read": lambda: store.read("a"),
        "tasks": lambda: store.tasks(),
        "fire_due_timers": lambda: store.fire_due_timers(),
        "requeue_stale": lambda: store.requeue_stale(),
        "put_content": lambda: store.put_content(b"body"),
        "put_snapshot": lambda: store.put_snapshot("a", Snapshot(1, "v", b"body")),
        "task": lambda: store.task("a"),
    }


def sent(verb: str, claim: Claim) -> list[Value]:
    """The parameters of one call of each verb on this claim's task."""
    commit = Commit(CALLED.entries, posts=(Post(claim.task_id, GO, "key"),))
    write = lower.lower_commit(claim, 1, commit)
    ends = lower.lower_commit(claim, 1, Commit(next=End(TaskFailed("why"))))
    order: list[Value] = [lower.CASCADE_KEY, lower.CASCADE_BODY]
    fence: list[Value] = [claim.task_id, claim.epoch, claim.token]
    none = text_array([])
    return {
        "create": ["new", "queue", "{}", "hash", 0],
        "claim": [
            "w",
            "token",
            1,
            5,
            none,
            bigint_array([]),
            True,
            True,
            True,
            0,
            bigint_array(TAKEOVER_BACKOFF),
            6000,
        ],
        "renew": [text_array([claim.task_id]), bigint_array([claim.epoch]), text_array([claim.token]), 60_000_000],
        "release": fence,
        "resume": fence,
        "append": pg_commits.bind_append(write),
        "append_family": [*pg_commits.bind_append(ends), *pg_commits.bind_family(ends)],
        "append_many": pg_commits.bind_many([lower.lower_commit(claim, 1, CALLED)]),
        "fail": [*fence, False, 3, bigint_array(FAIL_BACKOFF), '{"type":"TaskFailed"}', *[None] * 5, *order],
        "cancel": [claim.task_id, "key", "{}", '{"type":"TaskCancelled"}', *[None] * 5, *order],
        "post": [claim.task_id, "key", "{}", "event:go", None],
        "wake": [claim.task_id, "{}", "event:go", None],
        "fire_due_timers": [100, 6000],
        "requeue_stale": [100, bigint_array(TAKEOVER_BACKOFF), 6000],
    }[verb]  # type: ignore[return-value]


def _text(value: str | int | bool) -> bytes:
    return ("t" if value is True else "f" if value is False else str(value)).encode()


def wait_until_unlocked(dsn: str, schema: str, seconds: float) -> None:
    """Every row can be locked from outside within this time."""
    deadline = time.monotonic() + seconds
    probe = sql.SQL("SELECT count(*) FROM (SELECT FROM {}.task FOR UPDATE NOWAIT) locked").format(
        sql.Identifier(schema)
    )
    with psycopg.connect(dsn, autocommit=True) as outside:
        while True:
            try:
                outside.execute(probe)
                return
            except psycopg.errors.LockNotAvailable:
                assert time.monotonic() < deadline, f"still locked after {seconds} s"


def shown(connection: Connection, name: str) -> str:
    value = connection.run(f"show {name}", f"SELECT current_setting('{name}')", ())[0][0]
    assert value is not None
    return value.decode()


def set_clock(admin: psycopg.Connection[tuple[object, ...]], schema: str, micros: int) -> None:
    body = sql.SQL("CREATE OR REPLACE FUNCTION {}.clock() RETURNS bigint LANGUAGE sql VOLATILE RETURN {}::bigint")
    admin.execute(body.format(sql.Identifier(schema), sql.Literal(micros)))


@contextmanager
def traced(store: PostgresStore) -> Iterator[Path]:
    """libpq's own account of the messages on every idle connection of the store."""
    with tempfile.NamedTemporaryFile("wb", suffix=".trace", delete=False) as file:
        path = Path(file.name)
        idle = [*store._work._idle, *store._renewals._idle]
        for connection in idle:
            connection.pgconn.trace(file.fileno())
        try:
            yield path
        finally:
            for connection in idle:
                connection.pgconn.untrace()


def round_trips(path: Path) -> int:
    text = path.read_text()
    path.unlink()
    return text.count("ReadyForQuery")


def answer_bytes(path: Path) -> int:
    """Bytes the server sent."""
    lines = path.read_text().splitlines()
    path.unlink()
    return sum(int(line.split("\t")[2]) + 1 for line in lines if "\tB\t" in f"\t{line}")


@contextmanager
def role_with_settings(dsn: str) -> Iterator[str]:
    """A login whose role carries the settings that a pooler cannot pass on."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        role = f"pooled_{os.getpid()}"
        name = sql.Identifier(role)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD 'word'").format(name))
        for setting in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            admin.execute(sql.SQL("ALTER ROLE {} SET {} = '5s'").format(name, sql.Identifier(setting)))
        try:
            yield psycopg.conninfo.make_conninfo(dsn, user=role, password="word")
        finally:
            admin.execute(sql.SQL("DROP ROLE {}").format(name))
