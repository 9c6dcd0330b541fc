"""The statements of the SQLite store: all named and used, and none costs more for idle tasks."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from noeta.backends import stores
from noeta.backends.stores.sql_loader import load_statements
from noeta.backends.stores.sqlite import SqliteStore
from noeta.backends.stores.sqlite_schema import SCHEMA, STORE, load_names
from noeta.core.events import ToolFinished
from noeta.core.store import Claim, Commit, NewTask, Suspend
from noeta.core.wake import ControlReceived, ExternalEvent, TimerFired
from noeta.testing.clock import ManualClock
from tests.contract.sqlite_files import claimed, opened

FOLDER = Path(stores.__file__).parent
PROMISE = re.compile(r"Keeps: |Locks nothing")
WALK = re.compile(r"SCAN (main\.)?(task|entry|item|content|snapshot)\b")

INDEXES = {
    "task": "PRIMARY KEY",
    "tasks": "PRIMARY KEY",
    "tasks_of_token": "task_token",
    "content_hash": "PRIMARY KEY",
    "due": "task_due ",
    "due_in_queue": "task_due_in_queue",
    "rested": "task_rested",
    "lapsed": "task_lapsed",
    "timers": "task_timer",
    "children": "task_parent",
    "put_task": "PRIMARY KEY",
    "put_counts": "PRIMARY KEY",
    "entries": "sqlite_autoindex_entry_1",
    "add_timer": "PRIMARY KEY",
    "number_of_key": "item_dedupe_key",
    "has_order": "item_order",
    "is_unread": "sqlite_autoindex_item_1",
    "unread": "item_unread",
    "unread_of_wake_key": "item_unread",
    "take_item": "sqlite_autoindex_item_1",
    "stamp_unread": "item_unread",
    "get_content": "sqlite_autoindex_content_1",
    "get_snapshot": "sqlite_autoindex_snapshot_1",
}
"""By which index a statement finds its rows."""

PLAIN_INSERTS = {"add_task", "add_entry", "add_item", "put_content", "put_snapshot"}

IDLE = (
    "INSERT INTO task (id, queue, status, kept, epoch, wake_on, wake_key, wake_missing, inbox_seq, last_seq, takeovers,"
    " fail_attempts, created_at, content_hash, ready_at, due_at)"
    " WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :rows)"
    " SELECT :kind || n, 'q' || (n % 3), 'suspended', 0, 1, '{}', :kind, 1, 0, 2, 0, 0, 0, '',"
    " CASE WHEN :at THEN :at + n END, CASE WHEN :at THEN :at + n END FROM n"
)
"""Rows that no verb could make in the time a test has."""

FAR = 4_000_000_000_000_000
LEASE = 60.0


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with opened(tmp_path / "tasks.db"):
        pass
    with closing(sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)) as made:
        yield made


def names_used() -> set[str]:
    """Texts given to the calls that run a statement, and the names a connection is set up with."""
    used: set[str] = set()
    for file in FOLDER.glob("sqlite*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="run" | "_run" | "run_alone" | "_patiently"), args=[first, *_]):
                    used |= {str(c.value) for c in ast.walk(first) if isinstance(c, ast.Constant)}
                case ast.Subscript(value=ast.Attribute(attr="_statements"), slice=ast.Constant(value=str(name))):
                    used.add(name)
                case ast.For(iter=ast.Tuple(elts=names)):
                    used |= {str(c.value) for c in names if isinstance(c, ast.Constant)}
    return used


def test_each_statement_is_used_and_each_used_name_exists() -> None:
    assert names_used() == set(load_names())


@pytest.mark.parametrize("file", ["statements.sql", "connection.sql"])
def test_each_statement_says_its_purpose(file: str) -> None:
    text = resources.files(stores).joinpath("sql", STORE, file).read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        comments = " ".join(line for line in body.strip().splitlines() if line.startswith("--"))
        assert comments, f"{name}: a line above the statement says what it is for"
        if file == "statements.sql":
            assert PROMISE.search(comments), f"{name}: says neither a promise nor what it locks"


def test_no_statement_walks_a_table_or_sorts_one(connection: sqlite3.Connection) -> None:
    """Keeps: waiting-is-free."""
    statements = load_statements(STORE, SCHEMA)
    assert set(statements) == set(INDEXES) | PLAIN_INSERTS
    for name, statement in statements.items():
        plan = "\n".join(row[3] + " " for row in plan_of(connection, statement))

        assert not WALK.search(plan), (name, plan)
        assert "TEMP B-TREE" not in plan, (name, plan)
        assert INDEXES.get(name, "") in plan, (name, plan)


@pytest.mark.parametrize("table", ["task", '"main".task'])
def test_the_plan_of_a_walk_would_be_noticed(connection: sqlite3.Connection, table: str) -> None:
    plan = plan_of(connection, f"SELECT id FROM {table} WHERE takeovers > 3")

    assert WALK.search(plan[0][3])


def plan_of(connection: sqlite3.Connection, statement: str) -> list[tuple[int, int, int, str]]:
    asked = "EXPLAIN QUERY PLAN " + statement
    named = set(re.findall(r":([a-z_]+)", statement))
    numbered = max((int(n) for n in re.findall(r"\?(\d)", statement)), default=0)
    return connection.execute(
        asked, dict.fromkeys(named) if named else {str(number): None for number in range(1, numbered + 1)}
    ).fetchall()


def verbs(store: SqliteStore, clock: ManualClock) -> dict[str, Callable[[], object]]:
    """Each hot verb once, on a store with two claimed tasks and a few ready ones."""
    held: list[Claim] = [claimed(store, f"held{n}", lease_seconds=LEASE) for n in range(2)]
    for n in range(8):
        store.create(NewTask(f"ready{n}", "agent", "goal", queue=f"q{n % 3}"))
    return {
        "claim": lambda: store.claim("w", None, LEASE),
        "claim in queues": lambda: store.claim("w", ["q0", "q1"], LEASE),
        "renew": lambda: store.renew(held, LEASE),
        "append": lambda: store.append(held[0], 1, Commit((ToolFinished("2-0", "x"),))),
        "keep": lambda: store.append(held[0], 2, Commit(next=Suspend(TimerFired(0.0), keep=True))),
        "resume": lambda: store.resume(held[0]),
        "post": lambda: store.post("held0", ExternalEvent("e"), "key"),
        "wake": lambda: store.wake("held0", ExternalEvent("f")),
        "timers": store.fire_due_timers,
        "lapse": lambda: clock.advance(2 * LEASE),
        "sweep": store.requeue_stale,
        "claim a lapsed one": lambda: store.claim("w", ["default"], LEASE),
        "empty claim": lambda: store.claim("w", ["nothing"], LEASE),
        "cancel": lambda: store.post("ready7", ControlReceived("cancel")),
    }


def steps_of(path: Path, idle: int) -> dict[str, int]:
    """Steps of SQLite's machine for each verb, with so many idle tasks and far timers beside."""
    clock = ManualClock()
    with opened(path, clock=clock) as store:
        with closing(sqlite3.connect(path)) as admin:
            for kind, at in (("idle", 0), ("timer", FAR)):
                admin.execute(IDLE, {"rows": idle, "kind": kind, "at": at})
            admin.commit()
        taken: dict[str, int] = {}
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        calls = verbs(store, clock)
        for lane in store._lanes:
            lane._connection.set_progress_handler(step, 1)
        for name, call in calls.items():
            steps = 0
            call()
            taken[name] = steps
        return taken


def test_idle_tasks_cost_no_verb_a_step(tmp_path: Path) -> None:
    """A thousand times as many make no verb dearer. Keeps: waiting-is-free."""
    few = steps_of(tmp_path / "few.db", idle=20)
    many = steps_of(tmp_path / "many.db", idle=20_000)

    print(many)
    assert many == few
    assert max(many.values()) < 3_000
