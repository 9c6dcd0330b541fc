"""What a claim and a renewal cost, in buffers and index writes: numbers of the server, not times of a noisy machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from noeta.backends.stores.pg_commits import bind_append, bind_family
from noeta.backends.stores.pg_connection import Settings, Value
from noeta.backends.stores.pg_rows import text
from noeta.backends.stores.pg_wire import bigint_array, text_array
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import ModelCalled, TaskFailed
from noeta.core.lower import Write, lower_commit
from noeta.core.store import Child, Commit, End, NewTask
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

ENDED_CHILDREN = 50_000
UNREAD_ITEMS = 100_000
FAMILY_BUFFERS_MAX = 14
END_BUFFERS_MAX = 18
RENEWAL_BUFFERS_MAX = 12  # for each claim

FINISHED_CHILDREN = (
    "INSERT INTO {schema}.task (id, queue, status, parent, created_at, content_hash)"
    " SELECT {parent} || '.1-1.' || n, 'q', 'terminal', {parent}, 0, ''"
    f" FROM generate_series(1, {ENDED_CHILDREN}) n"
)
CHATTER = (
    "INSERT INTO {schema}.item (task_id, number, key, wake_key, body, at)"
    " SELECT 't' || n % 10, n, NULL, 'event:noise', '{{}}', 0"
    f" FROM generate_series(1, {UNREAD_ITEMS}) n"
)

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


@pytest.mark.holds("writer/pg-claim-index")
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


def test_an_end_without_children_costs_little_more_than_an_append(pg_schema: tuple[str, str]) -> None:
    """The look for children, twice, and the index entry of the row that is in no index any more."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings()) as store:
        claims = [claimed(store, f"t{n}", lease_seconds=600.0) for n in range(24)]
        called, ends = Commit((ModelCalled("hash", 1),)), Commit(next=End(TaskFailed("code")))
        plain = [sent_buffers(store, lower_commit(claim, 1, called), "append") for claim in claims]
        alone = [sent_buffers(store, lower_commit(claim, 2, ends), "append") for claim in claims[:12]]
        family = [sent_buffers(store, lower_commit(claim, 2, ends), "append_family") for claim in claims[12:]]
    # The least of several: the first ones plan anew for each call.
    found = min(plain), min(alone), min(family)
    print(f"buffers: append {found[0]}, an end by itself {found[1]}, an end that looks for children {found[2]}")

    assert found[2] - found[1] <= FAMILY_BUFFERS_MAX
    assert found[2] - found[0] <= END_BUFFERS_MAX


def test_an_end_does_not_see_the_children_that_ended_before(pg_schema: tuple[str, str]) -> None:
    """However many there were, and although it was planned while there were none. Keeps: waiting-is-free."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings(), max_connections=1) as store:
        claims = [claimed(store, f"t{n}", lease_seconds=600.0) for n in range(14)]
        for claim in claims:
            child = Child(f"{claim.task_id}.1-0.1", "agent", "goal")
            store.append(claim, 1, Commit((ModelCalled("hash", 1),), children=(child,)))
        ends = [lower_commit(claim, 2, Commit(next=End(TaskFailed("code")))) for claim in claims]
        small = [sent_buffers(store, write, "append_family") for write in ends[:12]]
        fill(dsn, schema, FINISHED_CHILDREN, parent="t12")
        crowded = sent_buffers(store, ends[12], "append_family")
        fresh = sent_buffers(store, ends[13], "append_family")
        orders = [store.task(f"{claim.task_id}.1-0.1").inbox_seq for claim in claims]
    print(f"buffers: an end with a child {min(small)}; {ENDED_CHILDREN} ended before: {crowded}, of another: {fresh}")

    assert orders == [1] * 14
    assert max(crowded, fresh) <= 2 * min(small)  # the indexes have a level more


def test_a_renewal_does_not_see_the_items_that_are_no_orders(pg_schema: tuple[str, str]) -> None:
    """A chatty task costs its keeper nothing, although it was planned while it was quiet. Keeps: waiting-is-free."""
    dsn, schema = pg_schema
    with open_store(dsn, schema, Settings(), max_connections=1) as store:
        claims = [claimed(store, f"t{n}", lease_seconds=600.0) for n in range(10)]
        values: list[Value] = [
            text_array([claim.task_id for claim in claims]),
            bigint_array([claim.epoch for claim in claims]),
            text_array([claim.token for claim in claims]),
            600_000_000,
        ]
        quiet = min(explained(store, "renew", values) for _ in range(12))
        fill(dsn, schema, CHATTER)
        beside = max(explained(store, "renew", values) for _ in range(4))
        renewals = store.renew(claims, 600.0)
    print(f"buffers: a renewal of {len(claims)} {quiet}, beside {UNREAD_ITEMS} unread items {beside}")

    assert {(renewal.outcome, renewal.ordered) for renewal in renewals} == {("held", False)}
    assert beside <= RENEWAL_BUFFERS_MAX * len(claims)


def sent_buffers(store: PostgresStore, write: Write, name: str) -> int:
    """What this commit touches; it is applied."""
    more = bind_family(write) if name == "append_family" else []
    return explained(store, name, [*bind_append(write), *more])


def explained(store: PostgresStore, name: str, values: Sequence[Value]) -> int:
    """Shared buffers that this statement touches, nested statements included."""
    with store._work.lend() as connection:
        explain = "EXPLAIN (ANALYZE, BUFFERS) " + store._statements[name]
        lines = [text(row[0]) for row in connection.run(f"explain {name}", explain, values)]
    return shared_buffers(lines)


def fill(dsn: str, schema: str, statement: str, **values: str) -> None:
    """Rows that no verb could make in the time a test has. Not analysed: what is planned stays planned."""
    with psycopg.connect(dsn) as admin:
        literals = {key: sql.Literal(value) for key, value in values.items()}
        admin.execute(sql.SQL(statement).format(schema=sql.Identifier(schema), **literals))


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
    return shared_buffers(lines)


def shared_buffers(lines: Sequence[str]) -> int:
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
