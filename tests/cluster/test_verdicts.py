"""A run is valid only if enough happened; nothing seen is unknown, and a broken law outranks every doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from invariants import LAWS, LAWS_BY_KEY, Law, Verdict
from noeta.chaos.evidence_dir import RUN
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.report import last_lines, story, summary, write_report
from noeta.chaos.report.lines import reproduce
from noeta.chaos.verdicts import judge
from noeta.core.events import Event, TaskCompleted
from noeta.core.task import Status
from tests.cluster.invariants import STORM_LAWS
from tests.cluster.runs import QUIET_RUN, TAKEN_OVER, hand_made

SEEN_HERE = tuple(
    LAWS_BY_KEY[key]
    for key in ("one-writer", "epochs-rise", "gapless-log", "acked-stays", "terminal-is-final", "effect-at-most-once")
)
"""The laws that the hand-written story has something for."""

ZOMBIE: tuple[tuple[int, Event], ...] = (*TAKEN_OVER[:8], (1, TaskCompleted("bye")))


def with_run(**changes: Any) -> dict[str, Any]:
    """The quiet run with some facts changed."""
    return {**QUIET_RUN, **changes}


def test_the_storm_is_judged_by_every_law() -> None:
    assert tuple(law.key for law in LAWS) == STORM_LAWS


def test_a_true_story_in_which_enough_happened_is_valid(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path), SEEN_HERE)

    assert judgement.doubts == ()
    assert judgement.verdict is Verdict.VALID
    assert judgement.exit_code == 0
    assert judgement.situations["taken-over"] == 1
    assert judgement.situations["recovered-by-lookup"] == 1


def test_a_broken_law_outranks_every_doubt(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path, ZOMBIE, run={}, effects=()), SEEN_HERE)

    assert judgement.verdict is Verdict.INVALID
    assert judgement.exit_code == 1
    assert judgement.doubts


def test_an_effect_that_came_twice_is_invalid(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path, effects=(1, 1)), SEEN_HERE)

    assert judgement.verdict is Verdict.INVALID
    assert judgement.report["effect-at-most-once"].anomalies_total > 0


STORM = QUIET_RUN["storm"]
DRAIN = QUIET_RUN["drain"]


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"interrupted": "once, during the storm"}, "interrupted once"),
        ({"error": "OSError: disk"}, "the harness failed"),
        ({"storm": None}, "no storm was recorded"),
        ({"storm": {**STORM, "kills": 0, "quota_kills": 0}}, "no kill landed"),
        ({"storm": {**STORM, "quota_kills": 2}}, "quota not met: 1 of 2 effective kills"),
        ({"storm": {**STORM, "quota_pauses": 1}}, "quota not met: 0 of 1 effective pauses"),
        ({"storm": {**STORM, "quota_kill_alls": 1}}, "quota not met: 0 of 1 effective kill-alls"),
        ({"storm": {**STORM, "planned": ["kill", "pause"]}}, "never fired: pause"),
        ({"storm": {**STORM, "not_healed": ["w1 is down"]}}, "not healed: w1 is down"),
        ({"storm": {**STORM, "crashes": ["w1#3 ended with 1"]}}, "ended by itself: w1#3"),
        ({"left_out": {}, "storm": {**STORM, "unfired": {"f2": "never reached"}}}, "1 faults never struck"),
        ({"drain": None}, "never came to its drain"),
        ({"drain": {**DRAIN, "ended": "deadline", "unfinished": [{"pace": "slow"}]}}, "(0 stuck, 1 slow)"),
        ({"drain": {**DRAIN, "unsaid": ["k1"]}}, "1 messages could not be posted"),
        ({"collected": None}, "the logs were not copied"),
        ({"collected": {"missing": "StoreUnavailable"}}, "could not be copied: StoreUnavailable"),
        ({"loaded": {"created": 1, "refused": 1, "complete": True}}, "not loaded whole"),
        ({"left_behind": ["w1#2"]}, "left behind: w1#2"),
        ({"deadlocks": 2}, "2 deadlocks: the lock order is broken"),
        ({"required": {"three-starts-bound": 1}}, "required situation three-starts-bound: 0 of 1"),
    ],
)
def test_a_run_in_which_too_little_happened_is_unknown(tmp_path: Path, changes: dict[str, Any], doubt: str) -> None:
    judgement = judge(hand_made(tmp_path, run=with_run(**changes)), SEEN_HERE)

    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.exit_code == 2
    assert any(doubt in one for one in judgement.doubts), judgement.doubts


def test_the_line_that_repeats_a_run_names_a_command_that_is_there_after_make() -> None:
    plain = {"seed": "7", "given": {"NOETA_CLUSTER_TASKS": "9"}}
    options = {"seed": "7", "given": {"NOETA_CLUSTER_TASKS": "9", "--workers": "2"}}

    assert reproduce(plain) == "make cluster NOETA_CLUSTER_SEED=7 NOETA_CLUSTER_TASKS=9"
    assert reproduce(options) == "NOETA_CLUSTER_SEED=7 NOETA_CLUSTER_TASKS=9 .venv/bin/noeta cluster --workers 2"


def test_a_refused_kind_of_fault_need_not_fire(tmp_path: Path) -> None:
    storm = {**STORM, "planned": ["kill", "db_kill"], "refused": {"db_kill": "not ours"}}

    assert judge(hand_made(tmp_path, run=with_run(storm=storm)), SEEN_HERE).verdict is Verdict.VALID


def test_a_storm_of_its_own_need_not_strike_everything(tmp_path: Path) -> None:
    """Only of a schedule that was handed over: a storm plans more than it needs."""
    run = with_run(left_out=None, storm={**STORM, "unfired": {"f2": "never reached"}})

    assert judge(hand_made(tmp_path, run=run), SEEN_HERE).verdict is Verdict.VALID


def test_an_empty_journal_is_unknown(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path, effects=()), SEEN_HERE[:5])

    assert judgement.verdict is Verdict.UNKNOWN
    assert "no side effect was journalled" in judgement.doubts


def test_no_recorded_fault_is_unknown(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path, fault=False), SEEN_HERE)

    assert judgement.verdict is Verdict.UNKNOWN


def test_a_checker_that_crashes_makes_the_run_unknown(tmp_path: Path) -> None:
    def crash(*_: Any) -> Any:
        raise RuntimeError("the checker is broken")

    broken = Law("broken", "Broken", "Nothing.", "a test", "nothing", {}, crash)
    judgement = judge(hand_made(tmp_path), (*SEEN_HERE, broken))

    assert judgement.verdict is Verdict.UNKNOWN
    assert any("the checker is broken" in doubt for doubt in judgement.doubts)


def test_an_unfinished_task_that_nobody_foretold_is_no_anomaly(tmp_path: Path) -> None:
    judgement = judge(hand_made(tmp_path, TAKEN_OVER[:4], status=Status.PENDING), SEEN_HERE)

    assert judgement.verdict is not Verdict.INVALID


@pytest.mark.parametrize("story_of", [TAKEN_OVER, ZOMBIE])
def test_a_report_is_written_whatever_the_verdict(tmp_path: Path, story_of: tuple[tuple[int, Event], ...]) -> None:
    made = hand_made(tmp_path, story_of)
    judgement = judge(made)
    write_report(made, judgement)

    page = made.path("report.html").read_text()
    results = made.read_json("results.json")
    assert results["verdict"] == judgement.verdict.value
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "<svg" in page
    assert "kill hit w1#1" in page
    assert all(law.key in page for law in LAWS)


def test_the_story_of_an_anomaly_is_short_and_names_law_and_witnesses(tmp_path: Path) -> None:
    made = hand_made(tmp_path, ZOMBIE)
    text = story(judge(made), DirEvidence(made))
    first = text.split("```")[1].strip().splitlines()

    assert len(first) <= 15
    assert "one-writer is broken" in first[0]
    assert "w1-1" in text


def test_beside_an_anomaly_stands_the_part_of_the_log_it_is_about(tmp_path: Path) -> None:
    made = hand_made(tmp_path, ZOMBIE)
    first = story(judge(made), DirEvidence(made)).split("```")[3].strip().splitlines()

    assert first[2:5] == [
        "epoch 0, before any worker",
        '  +0.000  1  created: agent scripted, one-shot: "go"',
        "    ~ waited 1.0 s for a worker",
    ]
    assert "  -1.000  !  w1#1, which held the task, was killed (SIGKILL)" in first
    assert first[-5:] == [
        '  +7.000  8  the model replied: "bye"',
        "    ~ silent for 1.0 s",
        "    ~ an older claim wrote behind a newer one",
        "epoch 1, held by w1-1 in process w1#1",
        '  +8.000  9  completed: "bye"   <== named above',
    ]


def test_the_part_of_a_long_log_is_bounded(tmp_path: Path) -> None:
    long = (*TAKEN_OVER[:8], *[(2, event) for _ in range(200) for _, event in TAKEN_OVER[6:8]], ZOMBIE[-1])
    made = hand_made(tmp_path, long)
    first = story(judge(made), DirEvidence(made)).split("```")[3].strip().splitlines()

    assert len(first) < 40
    assert sum("<== named above" in line for line in first) == 2
    assert any("lines left out" in line for line in first)


def test_a_story_that_cannot_be_told_costs_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> Any:
        raise RuntimeError("the telling is broken")

    monkeypatch.setattr("noeta.chaos.report.files.around", crash)
    made = hand_made(tmp_path, ZOMBIE)
    write_report(made, judge(made))

    assert "the telling is broken" in made.path("explain.md").read_text()
    assert made.read_json("results.json")["verdict"] == "invalid"


def test_the_last_line_says_seed_verdict_and_how_to_repeat(tmp_path: Path) -> None:
    run = with_run(given={"NOETA_CLUSTER_SECONDS": "10"})
    judgement = judge(hand_made(tmp_path, run=run), SEEN_HERE)
    lines = [*summary(judgement), *last_lines(judgement, "runs/x")]

    assert lines[-1].startswith("seed=1 commit=abc config=[")
    assert lines[-1].endswith("verdict=valid reproduce: make cluster NOETA_CLUSTER_SEED=1 NOETA_CLUSTER_SECONDS=10")
    assert any("not the timing" in line for line in lines)


def test_an_old_run_is_judged_again_from_disk_alone(tmp_path: Path) -> None:
    made = hand_made(tmp_path)
    before = judge(made, SEEN_HERE)
    made.update_run(verdict="valid", phases={"storm": 1.0})

    assert judge(made, SEEN_HERE).verdict is before.verdict
    assert made.read_json(RUN)["verdict"] == "valid"
