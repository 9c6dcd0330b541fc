"""What a family of tasks leaves behind is read back whole: from a run directory, and from a live store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from psycopg import sql

import scripted_model
from invariants import LAWS_BY_KEY, Outcome, Tally, Verb, Verdict, check_all
from noeta.backends.stores.memory import MemoryStore
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.chaos.collect import collect
from noeta.chaos.contract_view import ContractView, StoreClock
from noeta.chaos.evidence_dir import FINALS, HISTORY, LOG, RUN, WORKLOAD, LineWriter, RunDir, create_run_dir
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.history import History
from noeta.chaos.live_evidence import LIVE_LAWS, LiveEvidence
from noeta.chaos.pg_view import PgView
from noeta.core import texts
from noeta.core.events import (
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolParked,
    ToolStarted,
)
from noeta.core.store import Child, Claim, Commit, Continue, End, NewTask, Post, Store, Suspend, claim_from_row
from noeta.core.wake import BACKGROUND, ControlReceived, HumanResponseReceived, SubtaskCompleted, find_wake
from noeta.plugins import waiting_tools
from scripted_model.script import Agent, Arguments, Call, Say, Script, Tools, Turn
from tests.cluster.runs import QUIET_RUN

ROOT, CHILD, LOOSE = "root", "root.3-0.1", "root.3-1.1"
FAMILY_LAWS = [LAWS_BY_KEY[key] for key in ("children-once", "one-writer", "acked-stays", "taken-once", "wake-once")]
INNER = Script("root/1", "worker", (Turn((Say(),)),))
SCRIPT = Script(ROOT, "agent", (Turn((Tools((Call("Agent", Arguments("a"), Agent(INNER)),)), Say())),))


def delegate(store: Store) -> Claim:
    """The root bears a child that it waits for, and one in the background, and the first of them ends."""
    store.create(NewTask(ROOT, "scripted", scripted_model.to_goal(SCRIPT)))
    (claim,) = store.claim("w1", None, 30.0).claims
    calls = tuple(ToolCall(f"3-{n}", "Agent", {}) for n in range(2))
    wait = SubtaskCompleted(CHILD)
    goal = scripted_model.to_goal(INNER)
    entries = (
        *(ModelCalled("h", 1), ModelReplied("", calls, "tool_use")),
        *(ToolStarted("3-0", 1), ToolParked("3-0", wait, (CHILD,))),
        *(ToolStarted("3-1", 1), ToolFinished("3-1", "started", children=(LOOSE,)), TaskSuspended(wait)),
    )
    born = (
        Child(CHILD, "scripted", goal, root=ROOT),
        Child(LOOSE, "scripted", goal, group=BACKGROUND, parent=ROOT, root=ROOT),
    )
    store.append(claim, 1, Commit(entries, Suspend(wait), children=born))
    (child,) = store.claim("w2", None, 30.0).claims
    assert child.task_id == CHILD
    said = (ModelCalled("h", 1), ModelReplied("yes"))
    store.append(child, 1, Commit(said, End(TaskCompleted("yes"))))
    return wake_root(store)


def wake_root(store: Store) -> Claim:
    """The root takes the result."""
    claims = {claim.task_id: claim for claim in store.claim("w3", None, 30.0, limit=2).claims}
    store.release(claims[LOOSE])
    page = store.read(ROOT)
    found = find_wake(SubtaskCompleted(CHILD), [(one.number, one.item) for one in page.unread])
    assert found is not None
    entries = (TaskWoken(*found), ToolFinished("3-0", "yes", source="woken"))
    store.append(claims[ROOT], page.row.last_seq, Commit(entries, Continue(), page.inbox_seen))
    return claims[ROOT]


def orphan(store: Store) -> None:
    """The root fails, and then its child in the background does, without having looked at its inbox."""
    row = store.task(ROOT)
    store.append(claim_from_row(row), row.last_seq, Commit(next=End(TaskFailed("no_more", "enough"))))
    (loose,) = store.claim("w4", None, 30.0).claims
    assert loose.task_id == LOOSE
    store.append(loose, 1, Commit(next=End(TaskFailed("no_more", "enough"))))


def report(store: Store) -> HumanResponseReceived:
    """The child in the background reports to the root."""
    words = HumanResponseReceived(text=texts.HANDBACK.format(child=LOOSE, report="half way"), sender=LOOSE)
    (loose,) = store.claim("w4", None, 30.0).claims
    call = ToolCall("3-0", "SubagentHandback", {})
    entries = (ModelCalled("h", 1), ModelReplied("", (call,), "tool_use"), ToolStarted("3-0", 1))
    commit = Commit((*entries, ToolFinished("3-0", texts.HANDED_BACK)), posts=(Post(ROOT, words, "report:1"),))
    store.append(loose, 1, commit)
    return words


@pytest.fixture
def made(tmp_path: Path) -> RunDir:
    """A run in which a client cancelled the child in the background before anybody ran it."""
    run = create_run_dir(tmp_path / "runs", "1")
    store = MemoryStore()
    delegate(store)
    history = LineWriter(run.path(HISTORY))
    posted = History(history).post("client-1", store, LOOSE, ControlReceived("cancel", "enough"), "cancel:1")
    assert posted.outcome == "cancelled"
    log, finals = LineWriter(run.path(LOG)), LineWriter(run.path(FINALS))
    done = collect(store, ContractView(store, StoreClock(store)), log, finals, created=(ROOT,), timeout_seconds=5.0)
    for lines in (history, log, finals):
        lines.close()
    load = scripted_model.Workload("1", 1.0, 3, (scripted_model.ScriptedTask(ROOT, SCRIPT),), ())
    run.path(WORKLOAD).write_bytes(msgspec.json.encode([load]))
    run.write_json(RUN, {**QUIET_RUN, "collected": done.as_dict()})
    return run


def test_a_family_is_read_back_with_its_kin(made: RunDir) -> None:
    run = DirEvidence(made).run

    assert set(run.kin) == {ROOT, CHILD, LOOSE}
    child, loose = run.kin[CHILD], run.kin[LOOSE]
    assert (child.parent, child.group, child.root, child.depth) == (ROOT, None, ROOT, 1)
    assert (loose.parent, loose.group) == (ROOT, BACKGROUND)
    assert child.result is not None and child.ended_at is not None
    assert (run.kin_whole, run.still) == (True, True)
    assert [task for task, _ in run.below(ROOT)] == [CHILD, LOOSE]


def test_a_family_that_was_not_copied_whole_says_so(made: RunDir) -> None:
    made.update_run(collected={"missing": "StoreUnavailable"})

    assert not DirEvidence(made).run.kin_whole


def test_a_cancelling_post_is_read_back_with_the_entry_it_wrote(made: RunDir) -> None:
    task = DirEvidence(made).of(LOOSE)

    (post,) = [one for one in task.attempts if one.verb is Verb.POST]
    last = task.log[-1]
    assert (post.outcome, post.epoch, post.answer_seq) == ("cancelled", last.epoch, last.seq)
    assert post.hashes == (last.body_hash,)
    (sent,) = task.sent
    assert (sent.outcome, sent.wakes) == ("cancelled", "control")
    assert sent.item == post.item


def test_what_a_family_does_breaks_no_law(made: RunDir) -> None:
    report = check_all(DirEvidence(made), FAMILY_LAWS)

    assert {one.law.key: one.codes for one in report.laws if one.codes} == {}
    assert report["children-once"].verdict is Verdict.VALID


def test_a_child_that_vanished_is_missed(made: RunDir) -> None:
    lines = made.path(FINALS).read_bytes().splitlines(keepends=True)
    made.path(FINALS).write_bytes(b"".join(line for line in lines if CHILD.encode() not in line))
    kept = [
        line for line in made.path(LOG).read_bytes().splitlines(keepends=True) if f'"{CHILD}","seq'.encode() not in line
    ]
    made.path(LOG).write_bytes(b"".join(kept))

    assert check_all(DirEvidence(made), FAMILY_LAWS)["children-once"].codes == {"unborn": 1}


def test_what_is_foretold_of_a_child_stands_in_its_log(made: RunDir) -> None:
    evidence = DirEvidence(made)

    root, child, stranger = (evidence.of(task).foretold for task in (ROOT, CHILD, "nobody"))

    assert child is not None and child.task == CHILD
    assert child.outcome is Outcome.COMPLETED
    assert root is None  # nobody sent its creation
    assert stranger is None


def test_reports_are_counted_from_the_log_of_the_child(tmp_path: Path) -> None:
    run, store = create_run_dir(tmp_path / "runs", "1"), MemoryStore()
    delegate(store)
    store.post(ROOT, report(store), "report:again")
    log, finals = LineWriter(run.path(LOG)), LineWriter(run.path(FINALS))
    done = collect(store, ContractView(store, StoreClock(store)), log, finals, created=(), timeout_seconds=5.0)
    run.write_json(RUN, {**QUIET_RUN, "collected": done.as_dict()})
    evidence = DirEvidence(run)

    assert evidence.run.reports_of(LOOSE) == 1
    assert check_all(evidence, FAMILY_LAWS)["children-once"].codes == {"report-twice": 1}


def test_the_contract_leaves_open_which_items_were_stamped() -> None:
    store = MemoryStore(iter(range(1, 1_000)).__next__)
    delegate(store)
    orphan(store)
    with ContractView(store, StoreClock(store)) as view:
        child, loose = (view.final(store.read(task)) for task in (CHILD, LOOSE))

    assert (child.stamped, child.stamped_order) == ((), False)
    assert (loose.stamped, loose.stamped_order) == ((1,), None)


def test_every_tool_that_waits_is_known_to_the_laws(made: RunDir) -> None:
    tools = DirEvidence(made).run.tools

    assert set(waiting_tools()) <= set(tools)
    assert not any(tools[name].journals for name in waiting_tools())
    assert tools["ScheduleWakeup"].timer_field == "delay_seconds"
    assert {tools[name].timer_field for name in ("AskUser", "WaitForEvent")} == {"timeout_seconds"}
    assert tools["Agent"].timer_field is None


# -- live --------------------------------------------------------------------------------------------------


@pytest.fixture
def live(pg_schema: tuple[str, str]) -> Iterator[PostgresStore]:
    migrate(*pg_schema)
    store = PostgresStore(pg_schema[0], schema=pg_schema[1])
    try:
        delegate(store)
        yield store
    finally:
        store.close()


def test_a_sound_family_in_a_live_store_breaks_no_law(live: PostgresStore, pg_schema: tuple[str, str]) -> None:
    with LiveEvidence(*pg_schema) as evidence:
        report = check_all(evidence, LIVE_LAWS)
        below = dict(evidence.run.below(ROOT))
        nobody = evidence.run.kin.get("nobody")

    assert not list(report.anomalies())
    assert report["children-once"].verdict is Verdict.VALID
    assert report["children-once"].seen > 3
    assert set(below) == {CHILD, LOOSE}
    assert below[CHILD].result is not None and below[CHILD].born_at is not None
    assert below[LOOSE].ended_at is None
    assert nobody is None


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ('UPDATE {}.entry SET body = \'{{"type":"TaskCompleted"}}\' WHERE task_id = %s AND seq = 4', "other-result"),
        ("UPDATE {}.entry SET at = at + 1 WHERE task_id = %s AND seq = 1", "born-apart"),
        ("UPDATE {}.task SET parent = NULL WHERE id = %s", "wrong-family"),
    ],
)
def test_a_damaged_family_is_invalid(live: PostgresStore, pg_schema: tuple[str, str], damage: str, code: str) -> None:
    dsn, schema = pg_schema
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(sql.SQL(damage).format(sql.Identifier(schema)), [CHILD])
    with LiveEvidence(dsn, schema) as evidence:
        report = check_all(evidence, LIVE_LAWS)

    assert code in report["children-once"].codes


def test_a_child_born_after_its_parent_was_read_is_no_stranger(live: PostgresStore, pg_schema: tuple[str, str]) -> None:
    """The family is asked about after the task was read, and may have grown since."""
    with LiveEvidence(*pg_schema) as evidence:
        tasks = evidence.tasks()
        root = next(tasks)
        page = live.read(ROOT)
        row = page.row
        claim = claim_from_row(row)
        call = ToolCall(f"{row.last_seq + 2}-0", "Agent", {})
        child = f"{ROOT}.{call.id}.1"
        entries = (
            *(ModelCalled("h", 1), ModelReplied("", (call,), "tool_use"), ToolStarted(call.id, 1)),
            ToolFinished(call.id, "started", children=(child,)),
        )
        born = Child(child, "scripted", "goal", group=BACKGROUND, parent=ROOT, root=ROOT)
        live.append(claim, row.last_seq, Commit(entries, Continue(), page.inbox_seen, (born,)))

        law = LAWS_BY_KEY["children-once"]
        assert child in dict(evidence.run.below(ROOT))
        assert list(law.judge(root, evidence.run, Tally())) == []


def test_the_order_of_an_ended_parent_is_known_by_its_key(live: PostgresStore, pg_schema: tuple[str, str]) -> None:
    orphan(live)
    with PgView(*pg_schema) as view, LiveEvidence(*pg_schema) as evidence:
        final = view.final(live.read(LOOSE))
        finals = {task.task: task.final for task in evidence.tasks()}
        sound = check_all(evidence, LIVE_LAWS)
    assert (final.stamped, final.stamped_order) == ((1,), True)
    assert [one is not None and one.stamped_order for one in finals.values()] == [False, False, True]
    assert not list(sound.anomalies())

    with psycopg.connect(pg_schema[0], autocommit=True) as session:
        renamed = sql.SQL("UPDATE {}.item SET key = 'other' WHERE task_id = %s").format(sql.Identifier(pg_schema[1]))
        session.execute(renamed, [LOOSE])
    with PgView(*pg_schema) as view, LiveEvidence(*pg_schema) as evidence:
        assert view.final(live.read(LOOSE)).stamped_order is False
        assert check_all(evidence, LIVE_LAWS)["children-once"].codes == {"left-behind": 1}


def test_a_report_that_was_posted_twice_is_found_in_a_live_store(
    live: PostgresStore, pg_schema: tuple[str, str]
) -> None:
    words = report(live)
    with LiveEvidence(*pg_schema) as evidence:
        sound = check_all(evidence, LIVE_LAWS)
        assert evidence.run.reports_of(LOOSE) == 1
    assert not list(sound.anomalies())

    live.post(ROOT, words, "report:again")
    with LiveEvidence(*pg_schema) as evidence:
        assert check_all(evidence, LIVE_LAWS)["children-once"].codes == {"report-twice": 1}


def test_an_item_with_two_fates_is_found_in_a_live_store(live: PostgresStore, pg_schema: tuple[str, str]) -> None:
    """No constraint of the table keeps it out here."""
    row = live.task(ROOT)
    words = HumanResponseReceived(text="well?")
    number = live.post(ROOT, words, "k").number
    assert number is not None
    ends = Commit((MessageTaken(number, words),), End(TaskFailed("no_more", "enough")))
    live.append(claim_from_row(row), row.last_seq, ends)
    schema = sql.Identifier(pg_schema[1])
    with psycopg.connect(pg_schema[0], autocommit=True) as session:
        session.execute(sql.SQL("ALTER TABLE {}.item DROP CONSTRAINT item_one_fate").format(schema))
        stamps = sql.SQL("UPDATE {}.item SET unread_seq = taken_seq WHERE task_id = %s AND number = %s")
        session.execute(stamps.format(schema), [ROOT, number])
    with LiveEvidence(*pg_schema) as evidence:
        assert check_all(evidence, LIVE_LAWS)["taken-once"].codes == {"taken-yet-stamped": 1}
    with PgView(*pg_schema) as view:
        assert view.final(live.read(ROOT)).stamped == (number,)
