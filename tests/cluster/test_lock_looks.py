"""What is seen of the locks that workers' sessions hold, and how a run directory tells it to the law."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from invariants import LAWS_BY_KEY, Verdict
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.chaos.evidence_dir import LOCKS, create_run_dir
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.locks import LockSampler, PgLocks
from noeta.chaos.proxy.cuts import name_of
from noeta.chaos.store_view import ViewUnavailable
from noeta.chaos.verdicts import judge
from noeta.core.store import NewTask
from tests.cluster.runs import QUIET_RUN, hand_made

LAW = LAWS_BY_KEY["frozen-holds-nothing"]
WORKER = "w2#3"
SECOND = 1_000_000


@pytest.fixture
def locks(pg_schema: tuple[str, str]) -> Iterator[PgLocks]:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    store = PostgresStore(dsn, schema=schema)
    store.create(NewTask("t", "agent", "goal"))
    store.close()
    looking = PgLocks(dsn, schema)
    yield looking
    looking.close()


def session(place: tuple[str, str], process: str) -> psycopg.Connection[Any]:
    dsn, schema = place
    options = f"-c search_path={schema}"
    return psycopg.connect(dsn, options=options, application_name=name_of(process))


def test_a_worker_that_holds_a_row_is_seen_until_its_transaction_ends(
    pg_schema: tuple[str, str], locks: PgLocks
) -> None:
    with session(pg_schema, WORKER) as holder, session(pg_schema, "w1#1") as idle:
        pid = holder.info.backend_pid
        idle.execute("SELECT id FROM task")  # a transaction, and no row lock
        holder.execute("SELECT id FROM task WHERE id = 't' FOR UPDATE")
        first, second = locks.look(), locks.look()
        holder.rollback()
        after = locks.look()

    assert [(lock.worker, lock.pid) for lock in first.held] == [(WORKER, pid)]
    assert "FOR UPDATE" in first.held[0].statement
    assert 0 <= first.held[0].age_seconds < second.held[0].age_seconds
    assert second.at - first.at == pytest.approx(
        (second.held[0].age_seconds - first.held[0].age_seconds) * SECOND, abs=2
    )
    assert (after.held, after.sessions) == ((), 2)


def test_a_write_holds_its_row_too(pg_schema: tuple[str, str], locks: PgLocks) -> None:
    with session(pg_schema, WORKER) as holder:
        holder.execute("UPDATE task SET fail_attempts = fail_attempts WHERE id = 't'")

        assert [lock.worker for lock in locks.look().held] == [WORKER]


def test_sessions_of_others_and_other_schemas_are_nobody_of_ours(pg_schema: tuple[str, str], locks: PgLocks) -> None:
    dsn, _ = pg_schema
    with session(pg_schema, "w9") as other, session((dsn, "pg_temp"), WORKER) as elsewhere:
        other.execute("SELECT id FROM task FOR UPDATE")
        elsewhere.execute("CREATE TEMPORARY TABLE task (id int)")
        elsewhere.execute("INSERT INTO task VALUES (1)")
        elsewhere.execute("SELECT id FROM task FOR UPDATE")
        found = locks.look()

    assert (found.held, found.sessions) == ((), 1)


def test_looking_holds_nothing_and_waits_for_nobody(pg_schema: tuple[str, str], locks: PgLocks) -> None:
    """Also while somebody has locked the whole table."""
    dsn, schema = pg_schema
    with psycopg.connect(dsn) as other:
        other.execute(sql.SQL("LOCK TABLE {}.task IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(schema)))
        locks.look()
        left = other.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE a.application_name = 'noeta harness locks'"
        ).fetchone()

    assert left == (0,)


def test_only_looks_at_somebody_are_written(pg_schema: tuple[str, str], locks: PgLocks, tmp_path: Path) -> None:
    run = create_run_dir(tmp_path, "1")
    lines = run.lines(LOCKS)
    sampler = LockSampler(locks, lines)
    sampler.look()
    with session(pg_schema, WORKER) as holder:
        holder.execute("SELECT id FROM task FOR UPDATE")
        sampler.look()
        holder.rollback()
        sampler.look()
    lines.close()

    facts = DirEvidence(run).run
    assert len(facts.lock_looks) == 2
    assert [(lock.worker, lock.at) for lock in facts.locks] == [(WORKER, facts.lock_looks[0])]


def test_a_server_that_is_away_is_no_look() -> None:
    with pytest.raises(ViewUnavailable):
        PgLocks("postgresql://x@127.0.0.1:1/x", "none").look()


def test_the_law_hears_of_what_was_seen(tmp_path: Path) -> None:
    """A pause, looks within it, and a lock that is older than a statement may get."""
    run = {**QUIET_RUN, "locks": {"statement_timeout_seconds": 5.0}}
    made = hand_made(tmp_path, run=run)
    at = 1_700_000_000_000_000
    made.path("faults.jsonl").write_text(
        f'{{"at":{at},"kind":"pause","process":"w1#1","held":[],"ended_at":{at + 9 * SECOND}}}\n'
    )
    held = '{"at":%d,"worker":"w1#1","pid":7,"age_seconds":%s,"statement":"SELECT"}'

    made.path(LOCKS).write_text(f'{{"at":{at + SECOND},"sessions":4}}\ntorn\n')
    fine = judge(made, [LAW])
    assert (fine.report[LAW.key].verdict, fine.report[LAW.key].seen, fine.figures["torn lines"]) == (
        Verdict.VALID,
        1,
        1,
    )

    late = held % (at + 7 * SECOND, 6.5)
    made.path(LOCKS).write_text(f'{{"at":{at + 7 * SECOND},"sessions":4,"held":[{late}]}}\n')
    assert judge(made, [LAW]).report[LAW.key].codes == {"held-too-long": 1}


def test_a_store_without_a_server_is_not_asked_and_that_is_said(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path, run={**QUIET_RUN, "locks": None}), [LAW, LAWS_BY_KEY["one-writer"]])

    assert [one.law.key for one in judgement.report.laws] == ["one-writer"]
    assert list(judgement.as_dict()["not_asked"]) == [LAW.key]


def test_a_run_that_nobody_looked_at_is_unknown(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path), [LAW])

    assert judgement.report[LAW.key].verdict is Verdict.UNKNOWN
