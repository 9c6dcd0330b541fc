"""`noeta check DSN` judges a live store: read-only, from logs and rows alone."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from invariants import LogEntry, RunFacts, Verdict, check_all, gather
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.chaos import live_evidence
from noeta.chaos.board import Board
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.live_evidence import LIVE_LAWS, LiveEvidence
from noeta.chaos.pg_view import PgView
from noeta.chaos.sampler import Sampler
from noeta.cli import run
from noeta.commands.check import live_verdict
from noeta.core.events import ModelCalled, ModelReplied, TaskCompleted, TaskCreated, TaskSuspended
from noeta.core.store import Commit, End, NewTask, Suspend
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived


@pytest.fixture
def store(pg_schema: tuple[str, str]) -> PostgresStore:
    """A store with a task that ended, one that waits with a message unread, and one that nobody took."""
    dsn, schema = pg_schema
    migrate(dsn, schema)
    store = PostgresStore(dsn, schema=schema)
    for task in ("done", "fresh", "waits"):
        store.create(NewTask(task, "a", "g", queue=task, interactive=task == "waits"))
    (claim,) = store.claim("w1", ["done"], 30).claims
    asked = (ModelCalled("h", 1), ModelReplied("bye"))
    store.append(claim, 1, Commit(asked, End(TaskCompleted("bye"))))
    (claim,) = store.claim("w1", ["waits"], 30).claims
    wait = HumanResponseReceived()
    store.append(claim, 1, Commit((*asked, TaskSuspended(wait, "bye")), Suspend(wait)))
    return store


def test_a_sound_store_breaks_no_law(store: PostgresStore, pg_schema: tuple[str, str]) -> None:
    with LiveEvidence(*pg_schema) as evidence:
        report = check_all(evidence, LIVE_LAWS)
    store.close()

    assert not list(report.anomalies())
    assert report.tasks == 3
    for key in ("one-writer", "gapless-log", "terminal-is-final", "row-agrees", "calls-pair", "never-stuck"):
        assert report[key].verdict is Verdict.VALID, report[key].why()


def test_a_long_inbox_is_read_in_pages_and_whole(
    store: PostgresStore, pg_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [store.post("waits", HumanResponseReceived(text=str(n)), f"k{n}").number for n in range(7)]
    store.close()
    monkeypatch.setattr(live_evidence, "PAGE_ROWS", 3)
    answers: list[int] = []
    ask = LiveEvidence.ask

    def counted(self: LiveEvidence, statement: str, values: list[Any]) -> list[Any]:
        rows = ask(self, statement, values)
        answers.append(len(rows))
        return rows

    monkeypatch.setattr(LiveEvidence, "ask", counted)
    with LiveEvidence(*pg_schema) as evidence:
        final = next(task.final for task in evidence.tasks() if task.task == "waits")

    assert final is not None
    assert [item.number for item in final.unread] == numbers
    assert max(answers) == 3


def test_the_session_cannot_write(store: PostgresStore, pg_schema: tuple[str, str]) -> None:
    store.close()
    with LiveEvidence(*pg_schema) as evidence, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        evidence.ask("DELETE FROM {schema}.task RETURNING id", [])


@pytest.mark.parametrize(
    ("damage", "law"),
    [
        ("UPDATE {}.entry SET seq = 7 WHERE task_id = 'done' AND seq = 4", "gapless-log"),
        ("UPDATE {}.task SET status = 'pending', ready_at = 1 WHERE id = 'done'", "row-agrees"),
        ("UPDATE {}.entry SET epoch = 0 WHERE task_id = 'done' AND seq = 4", "one-writer"),
    ],
)
def test_a_damaged_store_is_invalid(store: PostgresStore, pg_schema: tuple[str, str], damage: str, law: str) -> None:
    store.close()
    dsn, schema = pg_schema
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(sql.SQL(damage).format(sql.Identifier(schema)))
    with LiveEvidence(dsn, schema) as evidence:
        report = check_all(evidence, LIVE_LAWS)

    assert report[law].verdict is Verdict.INVALID
    assert run(["check", dsn, "--schema", schema]) == 1


def test_a_schema_without_a_store_is_bad_usage(pg_schema: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", pg_schema[0], "--schema", pg_schema[1]]) == 64
    assert "there is no noeta store" in capsys.readouterr().err


def test_an_empty_store_is_unknown(pg_schema: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    migrate(*pg_schema)

    assert run(["check", pg_schema[0], "--schema", pg_schema[1]]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 tasks"
    assert [line.partition(" ")[0] for line in lines if "verdict" in line] == ["verdict=unknown"], "one verdict alone"
    assert lines[-1].startswith("verdict=unknown")


def test_the_sampler_writes_rows_that_changed_and_nothing_else(
    store: PostgresStore, pg_schema: tuple[str, str], tmp_path: object
) -> None:
    from pathlib import Path

    board, lines = Board(), LineWriter(Path(str(tmp_path)) / "rows.jsonl")
    with PgView(*pg_schema) as view:
        sampler = Sampler(view, board, lines)
        sampler.look()
        sampler.look()
        assert lines.written == 3
        store.post("waits", HumanResponseReceived(text="hello"), "k")
        sampler.look(all_rows=False)
    store.close()

    assert lines.written == 4
    waits = board.get("waits")
    assert waits is not None
    assert (waits.sample.status, waits.sample.unread, waits.rests) == (Status.PENDING, 1, False)
    done = board.get("done")
    assert done is not None
    assert done.rests
    assert board.counts().resting == 1


def test_a_sampler_outlives_a_server_that_is_away(tmp_path: object) -> None:
    from pathlib import Path

    lines = LineWriter(Path(str(tmp_path)) / "rows.jsonl")
    sampler = Sampler(PgView("postgresql://x@127.0.0.1:1/x", "none"), Board(), lines, interval=0.01)
    sampler.start()
    while sampler.failures < 3:
        pass

    assert sampler.stop()
    assert sampler.last_failure


def test_a_law_without_a_subject_is_named_and_left_out_of_a_live_verdict() -> None:
    """A healthy store in which nobody has crashed is no open question; one in which nothing is, is."""
    nothing = check_all(gather(RunFacts()))
    assert live_verdict(nothing) == (Verdict.UNKNOWN, [one.law.key for one in nothing.laws])

    entry = LogEntry("t", 1, 0, 1, TaskCreated("agent", "goal"), "hash")
    created = check_all(gather(RunFacts(), log=[entry]))
    verdict, unseen = live_verdict(created)
    assert verdict is Verdict.VALID
    assert "same-request" in unseen
    assert "gapless-log" not in unseen
