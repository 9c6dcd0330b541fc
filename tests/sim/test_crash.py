"""A user's own agent at every crash point: what is found, what is survived, and what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from invariants import Verdict
from noeta.chaos.sim.app_search import sim_app
from noeta.core.errors import BadInput
from noeta.testing.crash import MODES_OF_APPS, CrashApp, CrashReport, Failure, crash_everywhere, replay_schedule
from tests.sim import crash_apps

HERE = "tests.sim.crash_apps"


def broken_by(report: CrashReport) -> set[tuple[str, str]]:
    """What was struck last, and how."""
    return {(failure.mode, failure.struck[-1]) for failure in report.failures}


def words(report: CrashReport) -> str:
    return "\n".join(line for failure in report.failures for line in failure.lines())


def test_a_double_payment_is_found_and_explained() -> None:
    report = crash_everywhere(crash_apps.pays_twice)

    assert report.verdict is Verdict.INVALID
    # After the payment, whether or not the tool has said so, and until its result is durable.
    assert {point for mode, point in broken_by(report) if mode == "kill"} == {"tool.after_run", "append.before"}
    assert all(failure.broke == ("check", "effects") for failure in report.failures)
    story = report.failures[0].lines(Path("tests/regressions/x.json"))
    assert len(story) <= 15 + 2
    assert [line[15:] for line in story if "ran the tool" in line or "!" in line] == [
        "w1#1 ran the tool pay: start 1 of call 3-0",
        "! w1#1 was killed (SIGKILL) at tool.after_run of order-1",
        "w1#2 ran the tool pay: start 2 of call 3-0",
    ]
    assert story[-4:] == [
        "effects is broken: order-1:3-0 (call 3-0 of order-1 to pay, 2 starts) was had 2 times",
        "check is broken: crash_apps.py:87: assert len(bank.keys) == 1",
        "schedule: tests/regressions/x.json",
        "again: noeta sim replay tests/regressions/x.json --trace",
    ]


def test_effects_alone_show_a_double_payment() -> None:
    report = crash_everywhere(crash_apps.pays_twice_unnoticed, modes=["kill"])

    assert {failure.broke for failure in report.failures} == {("effects",)}


def test_a_look_up_before_a_repeat_does_not_stop_a_frozen_worker() -> None:
    """The crash point between the runtime's last look at its lease and the tool's first line."""
    report = crash_everywhere(crash_apps.looks_up_and_repeats)

    assert broken_by(report) == {("freeze", "tool.before_run")}


@pytest.mark.parametrize("make", [crash_apps.looks_up, crash_apps.does_not_promise, crash_apps.pays_once])
def test_a_sound_tool_survives_every_strike(make: object) -> None:
    assert callable(make)
    report = crash_everywhere(make)

    assert report.verdict is Verdict.VALID, words(report)
    assert {mode.mode for mode in report.modes if mode.strikes} == set(MODES_OF_APPS)
    assert report.strikes == report.survived == report.executions - 2
    assert [mode.strikes for mode in report.modes if mode.mode in ("kill", "lapse", "freeze")] == [report.points] * 3


def test_unknown_outcomes_do_not_turn_the_verdict_and_are_told_to_the_check() -> None:
    report = crash_everywhere(crash_apps.does_not_promise, modes=["kill"])

    assert report.situations["recovered-as-unknown"] > 0
    assert report.verdict is Verdict.VALID


@pytest.mark.slow
def test_a_look_up_of_the_tool_is_used_and_struck() -> None:
    report = crash_everywhere(crash_apps.looks_up, modes=["kill"], depth=2)

    assert report.situations["recovered-by-lookup"] > 0
    assert report.verdict is Verdict.VALID, words(report)


@pytest.mark.slow
def test_two_kills_in_a_row_are_survived() -> None:
    report = crash_everywhere(crash_apps.pays_once, modes=["kill"], depth=2)

    assert report.verdict is Verdict.VALID, words(report)
    assert report.strikes > report.points**2


def test_a_point_of_the_tool_is_struck() -> None:
    """Without ``ctx.point`` the two effects are one step, and nothing could come between them."""
    report = crash_everywhere(crash_apps.half_done, modes=["kill"])

    assert broken_by(report) == {("kill", "between")}
    assert "['payment'] alone" in words(report)


def test_a_dead_process_has_no_effect_through_its_context() -> None:
    report = crash_everywhere(crash_apps.cleans_up, modes=["kill"])

    assert report.verdict is Verdict.VALID, words(report)


def test_messages_are_said_when_the_task_waits_and_at_any_moment_if_asked_for() -> None:
    report = crash_everywhere(crash_apps.talks, modes=["kill", "kill_client", "freeze"])
    at_any_moment = crash_everywhere(crash_apps.talks, modes=["say"])

    assert report.verdict is Verdict.VALID, words(report)
    # Said while the first answer is still being given, it is taken into that turn, which this check does not allow.
    assert at_any_moment.verdict is Verdict.INVALID


def test_an_app_that_is_wrong_in_peace_is_not_struck() -> None:
    report = crash_everywhere(crash_apps.wrong_without_a_crash)

    assert report.strikes == 0
    (failure,) = report.failures
    assert "no fault" in failure.lines()[0]
    assert "KeyError: \"there is no task 'order-2', only order-1\"" in failure.why[0]
    assert "crash_apps.py" in failure.why[0]


def test_an_app_that_fails_in_peace_unchecked_shows_nothing() -> None:
    report = crash_everywhere(crash_apps.fails_in_peace, modes=["kill_client"])

    assert report.strikes == report.survived > 0
    assert report.verdict is Verdict.UNKNOWN
    assert "order-1 fails (llm_error) when nothing strikes it" in "\n".join(report.lines())


def test_a_tool_that_exits_ends_its_own_thread_and_not_the_search() -> None:
    report = crash_everywhere(crash_apps.exits, modes=["kill_client"])

    assert report.strikes > 0
    assert report.situations["recovered-as-unknown"] > 0


@pytest.mark.slow
def test_several_processes_find_what_one_finds() -> None:
    one = crash_everywhere(f"{HERE}:pays_twice", modes=["kill", "freeze"])
    two = crash_everywhere(f"{HERE}:pays_twice", modes=["kill", "freeze"], jobs=2)

    assert two == one


def test_the_runtimes_log_level_is_left_alone() -> None:
    logging.getLogger("noeta").setLevel(logging.INFO)

    crash_everywhere(crash_apps.pays_once, modes=["kill_client"])

    assert logging.getLogger("noeta").level == logging.INFO


# -- schedules ---------------------------------------------------------------------------------------------


def failing() -> Failure:
    return crash_everywhere(crash_apps.pays_twice, modes=["freeze"]).failures[0]


def test_a_failing_schedule_fails_again() -> None:
    failure = failing()

    again = replay_schedule(failure.schedule)

    assert again.verdict is Verdict.INVALID
    assert again.why == failure.why
    assert again.struck == again.planned == 1


def test_a_schedule_is_survived_once_its_app_is_mended() -> None:
    mended = failing().schedule.replace("pays_twice", "pays_once")

    assert replay_schedule(mended).verdict is Verdict.VALID


def test_a_schedule_that_strikes_nothing_any_more_is_unknown() -> None:
    nowhere = failing().schedule.replace('"tool.before_run"', '"tool.no_such_point"')

    again = replay_schedule(nowhere)

    assert again.verdict is Verdict.UNKNOWN
    assert "none of its 1 strikes came about" in again.why[0]


def test_a_file_is_named_by_what_failed_where() -> None:
    failure = failing()

    assert failure.file_name == "tests-sim-crash_apps-pays_twice-check-effects-freeze-tool-before_run-1.json"


def test_the_command_keeps_the_first_failure(tmp_path: Path) -> None:
    lines, code = sim_app(f"{HERE}:pays_twice", ["kill"], 1, 1, tmp_path)

    (file,) = tmp_path.iterdir()
    assert code == 1
    assert lines[0].startswith(f"{HERE}:pays_twice: ")
    assert lines[-1] == f"again: noeta sim replay {file} --trace"
    assert json.loads(file.read_text())["play"]["app"] == f"{HERE}:pays_twice"
    assert sim_app(f"{HERE}:pays_once", ["kill"], 1, 1, tmp_path)[1] == 0


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field", "problem"),
    [
        ("shop", "app", "expected MODULE:FUNCTION, found 'shop'"),
        ("no_such_shop:make", "app", "cannot import 'no_such_shop': ModuleNotFoundError"),
        (f"{HERE}:no_such", "app", "has no function 'no_such'"),
        (f"{HERE}:ORDER", "app", "has no function 'ORDER'"),
        (f"{HERE}:raises", "app", "raised RuntimeError: no bank today"),
        (f"{HERE}:returns_a_word", "app", "returned str, expected CrashApp"),
        (f"{HERE}:has_no_tasks", f"{HERE}:has_no_tasks: CrashApp.tasks", "expected at least one Task"),
        (f"{HERE}:app_returns_a_word", "CrashApp.app", "returned str, expected Engine or WorkerApp"),
        (f"{HERE}:app_raises", "CrashApp.app", "raised BadInput: replies: expected at least one"),
        (f"{HERE}:brings_a_world", "CrashApp.app", "with a world or around of its own"),
        (f"{HERE}:tool_without_flags", "CrashApp.app", "the tool 'pay' has no flags"),
        (f"{HERE}:other_every_time", "app", "does not do the same twice"),
    ],
)
def test_an_app_that_cannot_be_used_is_refused_by_name(name: str, field: str, problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        crash_everywhere(name)

    assert refused.value.field == field
    assert problem in refused.value.problem


def test_a_function_that_no_schedule_could_name_is_refused() -> None:
    def make() -> CrashApp:
        return crash_apps.pays_once()

    with pytest.raises(BadInput, match="a schedule can name it"):
        crash_everywhere(make)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"modes": ["murder"]}, "modes: one of kill, lapse, .*, found 'murder'"),
        ({"modes": ["say"]}, "modes: one of .*, found 'say'"),
        ({"modes": []}, "modes: expected at least one"),
        ({"depth": 0}, "depth: expected 1 to 3, found 0"),
        ({"jobs": 0}, "jobs: expected 1 to 256, found 0"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        crash_everywhere(crash_apps.pays_once, **options)  # type: ignore[arg-type]


def test_no_schedule_is_refused() -> None:
    with pytest.raises(BadInput, match="schedule"):
        replay_schedule("not a schedule")
