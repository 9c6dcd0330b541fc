"""What a claim and a renewal cost, in buffers and index writes: numbers of the server, not times of a noisy machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from noeta.backends.stores.pg_connection import Settings
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import ModelCalled
from noeta.core.store import Commit, NewTask
from tests.contract.postgres_stores import claimed, open_store

IDLE_ROWS = 200_000
FAR_TIMERS = 300_000
CLAIM_BUFFERS_MAX = 40
PROBE_BUFFERS_MAX = 60
BOUND_BUFFERS_MAX = 60  # a few entries of the last second's tasks stand above the bound

BIG = (
    "INSERT INTO {schema}.task (id, queue, status, ready_at, wake_on, wake_key, wake_missing, created_at, content_hash)"
    " SELECT {kind} || n, 'q' || n % 2, 'suspended', {ready_at}, {wake_on}, {wake_key}, 1, 0, ''"
    " FROM generate_series(1, {rows}) n"
)
"""Rows that no verb could make in the time a test has."""

pytestmark = pytest.mark.slow


@pytest.fixture
def crowded(pg_schema: tuple[str, str]) -> Iterator[tuple[PostgresStore, psycopg.Connection[tuple[Any, ...]], str]]:
    """A store with many idle tasks and far timers in two queues, and a few ready ones."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store, psycopg.connect(dsn, autocommit=True) as admin:
        name = sql.Identifier(schema)
        for kind, ready_at, wake_on, wake_key, rows in (
            ("idle", sql.NULL, '{"type":"HumanResponseReceived"}', "human:next-goal", IDLE_ROWS),
            ("timer", sql.SQL("4000000000000000 + n"), '{"type":"TimerFired","fire_at":4e9}', "timer", FAR_TIMERS),
        ):
            admin.execute(
                sql.SQL(BIG).format(
                    schema=name,
                    kind=sql.Literal(kind),
                    ready_at=ready_at,
                    wake_on=sql.Literal(wake_on),
                    wake_key=sql.Literal(wake_key),
                    rows=sql.Literal(rows),
                )
            )
        admin.execute(sql.SQL("VACUUM ANALYZE {}.task").format(name))
        yield store, admin, schema


def test_a_claim_does_not_see_idle_tasks_and_far_timers(
    crowded: tuple[PostgresStore, psycopg.Connection[tuple[Any, ...]], str],
) -> None:
    """Keeps: waiting-is-free."""
    store, admin, schema = crowded
    for n in range(60):
        store.create(NewTask(f"ready{n}", "agent", "goal", queue=f"q{n % 2}"))
    explain = claim_call(schema, queues=["q0", "q1"], limit=1)
    for _ in range(8):  # past the plans that are made anew for each call
        buffers = buffers_of(admin, explain)
    poll = buffers_of(admin, sql.SQL("SELECT * FROM {}.fire_due_timers_1(100, 6000)").format(sql.Identifier(schema)))
    while store.claim("w", ["q0", "q1"], 60.0, limit=50).claims:
        pass
    empty = min(buffers_of(admin, claim_call(schema, queues=["q0", "q1"], limit=1)) for _ in range(3))
    print(f"buffers: claim {buffers}, empty claim with a probe {empty}, timer poll {poll}")

    assert buffers <= CLAIM_BUFFERS_MAX
    assert empty <= PROBE_BUFFERS_MAX
    assert poll <= CLAIM_BUFFERS_MAX


def test_the_lower_bound_spares_the_entries_of_taken_tasks(
    crowded: tuple[PostgresStore, psycopg.Connection[tuple[Any, ...]], str], pg_dsn: str
) -> None:
    """While somebody holds an old snapshot, entries of taken tasks cannot be removed."""
    store, admin, schema = crowded
    with psycopg.connect(pg_dsn) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute(sql.SQL("SELECT count(*) FROM {}.migration").format(sql.Identifier(schema)))
        for n in range(2_000):
            claim = claimed_in(store, f"t{n}")
            store.fail(claim, "why", retryable=False)
        for n in range(10):
            store.create(NewTask(f"next{n}", "agent", "goal", queue="q0"))
        row = admin.execute(
            sql.SQL("SELECT ready_at - 1000 FROM {}.task WHERE id = 'next0'").format(sql.Identifier(schema))
        ).fetchone()
        assert row is not None
        # The least of several: the first ones plan.
        bound = claim_call(schema, queues=["q0"], limit=1, floor=row[0])
        from_bound = min(buffers_of(admin, bound) for _ in range(8))
        from_beginning = buffers_of(admin, claim_call(schema, queues=["q0"], limit=1))
    print(f"buffers under an old snapshot: from the bound {from_bound}, from the beginning {from_beginning}")

    assert from_bound <= BOUND_BUFFERS_MAX
    assert from_beginning > 5 * from_bound


def test_most_renewals_are_hot(pg_schema: tuple[str, str]) -> None:
    """No index holds lease_until."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:
        claims = [claimed(store, f"t{n}", lease_seconds=600.0) for n in range(50)]
    before = updates(dsn, schema)
    with open_store(dsn, schema, Settings()) as store:
        for _ in range(40):
            store.renew(claims, 600.0)
    after = updates(dsn, schema)

    hot = (after[1] - before[1]) / (after[0] - before[0])
    print(f"HOT renewals: {hot:.1%} of {after[0] - before[0]}")
    assert after[0] - before[0] == 2_000
    assert hot > 0.9


def test_appends_are_hot_too(pg_schema: tuple[str, str]) -> None:
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:
        claim = claimed(store, lease_seconds=600.0)
    before = updates(dsn, schema)
    with open_store(dsn, schema, Settings()) as store:
        for seq in range(1, 501):
            store.append(claim, seq, Commit((ModelCalled("hash", 1),)))
    after = updates(dsn, schema)

    assert after[0] - before[0] == 500
    assert (after[1] - before[1]) / 500 > 0.9


def claimed_in(store: PostgresStore, task_id: str) -> Any:
    store.create(NewTask(task_id, "agent", "goal", queue="q0"))
    return store.claim("w", ["q0"], 60.0).claims[0]


def claim_call(schema: str, *, queues: list[str], limit: int, floor: int = -(2**63)) -> sql.Composed:
    return sql.SQL(
        "SELECT * FROM {}.claim_1('w', 'token', 60000000, {}, {}::text[], {}::bigint[], false, false, false, 0,"
        " ARRAY[0, 0, 0, 1000000]::bigint[], 6000)"
    ).format(
        sql.Identifier(schema),
        sql.Literal(limit),
        sql.Literal(queues),
        sql.Literal([floor] * len(queues)),
    )


def buffers_of(admin: psycopg.Connection[tuple[Any, ...]], call: sql.Composed) -> int:
    """Shared buffers that this call touched, nested statements included."""
    admin.execute("BEGIN")
    lines = [row[0] for row in admin.execute(sql.SQL("EXPLAIN (ANALYZE, BUFFERS) ") + call).fetchall()]
    admin.execute("COMMIT")
    found = next(line for line in lines if "Buffers: shared" in line)
    return sum(int(count) for count in re.findall(r"(?:hit|read)=(\d+)", found))


def updates(dsn: str, schema: str) -> tuple[int, int]:
    """Row versions written to the task table, and how many of them stayed HOT. Sessions report when they end."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'noeta'"
        while admin.execute(ours).fetchone() != (0,):
            pass
        row = admin.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE schemaname = %s AND relname = 'task'",
            [schema],
        ).fetchone()
    assert row is not None
    return row[0], row[1]
