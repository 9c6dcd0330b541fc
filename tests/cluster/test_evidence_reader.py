"""A run directory is read back as what was seen: whole, torn, or missing."""

from __future__ import annotations

from pathlib import Path

from invariants import Answer, Verdict
from noeta.chaos.asked import Asked
from noeta.chaos.evidence_dir import FINALS, HISTORY, LOG, RUN, LineWriter, RunDir, create_run_dir
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.plan import make_plan
from noeta.chaos.verdicts import judge
from tests.cluster.runs import QUIET_RUN, TAKEN_OVER, TASK, hand_made


def test_a_run_is_read_back_task_by_task(tmp_path: Path) -> None:
    (task,) = DirEvidence(hand_made(tmp_path)).tasks()

    assert task.task == TASK
    assert [entry.event for entry in task.log] == [event for _, event in TAKEN_OVER]
    assert [line.token for line in task.journal] == [f"{TASK}:3-0:1"]
    assert task.final is not None
    assert task.final.stamped == ()
    assert {attempt.answer for attempt in task.attempts} == {Answer.OK}
    assert len(task.samples) == 1


def test_the_facts_of_the_run_name_the_faults_and_what_they_held(tmp_path: Path) -> None:
    run = DirEvidence(hand_made(tmp_path)).run

    assert run.held_when_struck(TASK, 1) is not None
    assert run.held_when_struck(TASK, 2) is None
    assert run.journal_lines == 1
    assert run.tools["retry_safe"].retry_safe
    assert not run.tools["plain"].retry_safe


def test_torn_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    journal = next(made.journal.glob("*.effects.jsonl"))
    journal.write_bytes(journal.read_bytes() + b'{"token":"t1:3-0:2","task":"t1","ca')
    attempts = made.attempts / "w1.1.jsonl"
    lines = attempts.read_bytes().splitlines(keepends=True)
    attempts.write_bytes(lines[0] + lines[1][:40] + b"\n" + lines[1])

    evidence = DirEvidence(made)
    (task,) = evidence.tasks()

    assert evidence.torn == 2
    assert len(task.journal) == 1
    assert len([one for one in task.attempts if one.process == "w1#1"]) == 2


def test_an_attempt_without_an_answer_stays_open(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    history = made.path(HISTORY)
    history.write_bytes(history.read_bytes().splitlines(keepends=True)[0])

    (task,) = DirEvidence(made).tasks()

    assert [one.is_open for one in task.attempts if one.worker == "loader"] == [True]


def test_a_task_that_was_only_sent_appears_with_an_empty_log(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    made.path(LOG).unlink()

    (task,) = DirEvidence(made).tasks()

    assert task.log == ()


def test_an_empty_directory_is_unknown_and_never_valid(tmp_path: Path) -> None:
    judgement = judge(create_run_dir(tmp_path, "1"))

    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.report.tasks == 0
    assert any("run.json is missing" in doubt for doubt in judgement.doubts)


def test_a_torn_run_file_is_unknown(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    made.path(RUN).write_bytes(made.path(RUN).read_bytes()[:50])

    assert judge(made).verdict is Verdict.UNKNOWN


def test_latest_points_at_the_newest_run_and_equal_names_get_a_number(tmp_path: Path) -> None:
    made = [create_run_dir(tmp_path, "7").root.name for _ in range(2)]

    assert len(set(made)) == 2
    assert (tmp_path / "latest").resolve().name == made[1]


def test_a_real_directory_named_latest_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()

    create_run_dir(tmp_path, "7")

    assert (tmp_path / "latest").is_dir()
    assert not (tmp_path / "latest").is_symlink()


def test_a_line_is_not_swallowed_by_the_torn_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"torn')
    writer = LineWriter(path)
    writer.add({"task": "t1"})
    writer.close()
    writer.add({"task": "late"})

    assert path.read_bytes() == b'{"torn\n{"task":"t1"}\n'


def test_whole_files_are_replaced_at_once(tmp_path: Path) -> None:
    made = RunDir(tmp_path)
    made.update_run(seed="1")
    made.update_run(verdict="valid")

    assert made.read_json(RUN) == {"seed": "1", "verdict": "valid"}
    assert [path.name for path in tmp_path.iterdir()] == [RUN]


def test_a_run_that_was_cut_short_convicts_nobody_for_what_is_missing(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    made.path(LOG).unlink()
    made.path(FINALS).unlink()
    made.update_run(collected={"missing": "StoreUnavailable"}, drain=None)

    judgement = judge(made)

    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.report.tasks == 0


def test_what_the_store_does_not_have_is_lost(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    made.path(LOG).unlink()
    made.path(FINALS).write_bytes(b'{"task":"t1","final":null}\n')

    judgement = judge(made)

    assert judgement.verdict is Verdict.INVALID
    assert judgement.report["acked-stays"].codes["lost"] > 0


def test_scripts_foretell_nothing_of_a_run_whose_drain_was_interrupted(tmp_path: Path) -> None:
    asked = Asked(seed=1, tasks=1)
    made = hand_made(tmp_path)
    plan = make_plan(asked, asked.config(made.root))
    plan.write(made)
    made.path(HISTORY).write_bytes(
        made.path(HISTORY).read_bytes().replace(b'"t1"', f'"{plan.workload.tasks[0].id}"'.encode())
    )

    assert list(DirEvidence(made).foretold) == [plan.workload.tasks[0].id]
    made.update_run(drain={**QUIET_RUN["drain"], "ended": "interrupted"})
    assert DirEvidence(made).foretold == {}
