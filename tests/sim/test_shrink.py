"""A failing schedule becomes small, stays a failure of the same law, and never becomes what sound code fails.

Bugs are planted in this process through ``monkeypatch`` where the patched code is looked up at each call; the whole
way, down to the printed test, is walked in processes of its own (`tests/mutants/shrink_probe.py`).
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec
import pytest

from invariants import LAWS_BY_KEY, Verdict
from invariants.explain import LINES_MAX
from noeta.chaos.schedule import AtPoint, Fault, Kind, Play, Schedule, from_json
from noeta.chaos.sim.as_pytest import as_pytest
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.scripts import RETRY_ATTEMPTS, calls, script
from noeta.chaos.sim.seeded import run_seed
from noeta.chaos.sim.shrink import PASSES, shrink
from noeta.chaos.sim.shrink_order import size_of, strikes_in
from noeta.chaos.sim.shrink_passes import strictly
from noeta.chaos.sim.shrink_scripts import edits, is_playable, renamed
from noeta.chaos.sim.shrink_state import read_state, state_beside
from noeta.chaos.sim.story import STRIKES_SHOWN, story
from noeta.chaos.sim.watch import Watched, watch
from noeta.core.errors import BadInput
from noeta.core.texts import MAX_MODEL_ATTEMPTS
from scripted_model.script import Cut, Empty, Fail, Say, Turn
from scripted_model.words import turn_message
from scripted_model.workload import ScheduledMessage, ScriptedTask
from tests.mutants.catalogue import BY_NAME, Lines
from tests.mutants.plant import look_up, rewritten
from tests.mutants.shrink_probe import ROOT

Plant = Callable[[str], None]

change = msgspec.structs.replace

LEASE_BUG, LEASE_SEED = "no-lease-check", 180
"""A bug in a method of the memory store, and a seed that shows it with two tasks and three workers."""

PROBE_SECONDS = 60.0


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Plants a bug of the catalogue until the test is over."""

    def planted(name: str) -> None:
        for patch in BY_NAME[name].python:
            assert isinstance(patch, Lines)
            module = importlib.import_module(patch.module)
            owner, attribute, found = look_up(module, patch.path)
            monkeypatch.setattr(owner, attribute, rewritten(name, module, found, patch))

    return planted


@pytest.fixture
def failing(plant: Plant) -> Result:
    """A big failure, with its bug planted."""
    plant(LEASE_BUG)
    result = run_seed(LEASE_SEED)
    assert "one-writer" in result.convicted
    return result


def ticking() -> Callable[[], float]:
    """A clock of which a second passes whenever somebody looks: a time box of n is one of n executions."""
    ticks = count()
    return lambda: float(next(ticks))


def play_of(schedule: Schedule) -> Play:
    assert schedule.play is not None
    return schedule.play


# -- the result ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failure_shrinks_to_one_strike_on_one_task_that_sound_code_survives(
    failing: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    shrunk = shrink(failing.schedule, seconds=PROBE_SECONDS, progress=told.append)

    bulk = shrunk.after.bulk
    assert (bulk.faults, bulk.tasks, bulk.messages, bulk.workers, bulk.turns) == (1, 1, 0, 1, 0)
    assert shrunk.law == "one-writer"
    assert shrunk.is_fixed_point
    assert told
    first, second = replay(shrunk.schedule), replay(shrunk.schedule)
    assert "one-writer" in first.convicted
    assert first.trace_hash == second.trace_hash
    assert first.schedule == shrunk.schedule
    assert not play_of(shrunk.schedule).lenient

    monkeypatch.undo()
    assert replay(shrunk.schedule).verdict is Verdict.VALID


def test_each_step_is_smaller_than_the_one_before_and_kept_at_once(failing: Result, tmp_path: Path) -> None:
    """Whenever the time is over, the answer is no worse than what was given."""
    file = state_beside(tmp_path / "failure.json")
    sizes = [size_of(failing.schedule)]

    def improved(line: str) -> None:
        kept = read_state(file)
        assert kept is not None
        sizes.append(size_of(kept.best))

    shrunk = shrink(failing.schedule, seconds=300.0, state=file, progress=improved, clock=ticking())

    assert len(sizes) > 5
    assert sizes == sorted(set(sizes), reverse=True)
    assert shrunk.after == sizes[-1]


def test_no_time_at_all_gives_back_what_was_given(failing: Result) -> None:
    shrunk = shrink(failing.schedule, seconds=0.0, clock=ticking())

    assert shrunk.schedule == failing.schedule
    assert not shrunk.is_fixed_point


def test_of_a_users_app_faults_and_switches_shrink() -> None:
    """Its tasks are not in the file: what is left is the one kill that matters, of three."""
    kills = tuple(
        Fault(f"f{n}", Kind.KILL, "*", AtPoint(point, passed, None), {"respawn_seconds": 3.3})
        for n, (point, passed) in enumerate([("read.after", 1), ("append.before", 1), ("append.before", 3)], start=1)
    )
    app = Play("pays twice", workers=2, app="tests.sim.crash_apps:pays_twice_unnoticed")
    given = replay(Schedule("0", kills, play=app)).schedule
    assert len(given.faults) > 1

    shrunk = shrink(given, seconds=PROBE_SECONDS)

    assert shrunk.law == "effects"
    assert shrunk.is_fixed_point
    assert (shrunk.after.bulk.faults, shrunk.after.bulk.workers) == (1, 1)
    assert play_of(shrunk.schedule).app == app.app
    assert shrunk.schedule.faults[0].args == {"respawn_seconds": 0.0}


# -- time and state ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_call_goes_on_where_the_first_was_out_of_time(failing: Result, tmp_path: Path) -> None:
    file = state_beside(tmp_path / "failure.json")

    first = shrink(failing.schedule, seconds=30.0, state=file, clock=ticking())
    kept = read_state(file)
    second = shrink(failing.schedule, seconds=PROBE_SECONDS, state=file)
    third = shrink(failing.schedule, seconds=PROBE_SECONDS, state=file)

    assert not first.is_fixed_point
    assert kept is not None
    assert kept.best == first.schedule
    assert second.is_fixed_point
    assert second.after < first.after
    assert third.is_fixed_point
    assert third.schedule == second.schedule
    assert third.executions == 2  # what was given, and what is known to be small
    final = read_state(file)
    assert final is not None
    assert set(final.settled) == set(PASSES)
    assert final.executions >= first.executions + second.executions - 2


def test_the_state_of_another_schedule_is_not_gone_on_from(failing: Result, tmp_path: Path) -> None:
    file = state_beside(tmp_path / "failure.json")
    shrink(failing.schedule, seconds=30.0, state=file, clock=ticking())
    other = change(failing.schedule, play=change(play_of(failing.schedule), name="another"))

    shrunk = shrink(other, seconds=0.0, state=file, clock=ticking())

    assert play_of(shrunk.schedule).name == "another"
    assert shrunk.after.bulk == size_of(failing.schedule).bulk


def test_a_file_that_is_no_state_is_refused_and_left(failing: Result, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"mine": 1}')

    with pytest.raises(BadInput, match="expected the state of a shrinking"):
        shrink(failing.schedule, seconds=1.0, state=file)

    assert file.read_text() == '{"mine": 1}'


def test_what_breaks_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="expected one that breaks a law, found valid"):
        shrink(run_seed(1).schedule, seconds=1.0)


def test_a_law_that_holds_is_refused(failing: Result) -> None:
    with pytest.raises(BadInput, match=r"law: expected one of .*one-writer.*, found 'wake-once'"):
        shrink(failing.schedule, "wake-once", seconds=1.0)


def test_a_storms_schedule_is_refused() -> None:
    with pytest.raises(BadInput, match=r"schedule\.play"):
        shrink(Schedule("1", ()), seconds=1.0)


# -- the order -----------------------------------------------------------------------------------------------------


def a_fault(number: int, *, kind: Kind = Kind.PAUSE, spare: bool = False, seconds: float = 15.0) -> Fault:
    args: dict[str, float | str] = {"seconds": seconds, "seconds_max": seconds} | ({"spare": "yes"} if spare else {})
    return Fault(f"f{number}", kind, "w1", AtPoint("append.before", number, "w1", incarnation=1), args)


def of(case: str, *faults: Fault, workers: int = 1, lenient: bool = False) -> Schedule:
    play = change(CASES[case].cast().play, workers=workers, lenient=lenient)
    return Schedule("0", faults, play=play)


@pytest.mark.parametrize(
    ("smaller", "bigger"),
    [
        (of("two-tasks"), of("plain", a_fault(1))),
        (of("plain", workers=3), of("two-tasks")),
        (of("plain", workers=2), of("noted-late")),
        (of("several"), of("plain", workers=2)),
        (of("retry-safe"), of("several")),
        (of("plain", a_fault(1, spare=True)), of("several", a_fault(1))),
        (of("plain", a_fault(1)), of("plain", a_fault(1, spare=True))),
        (of("plain", a_fault(1)), of("plain", a_fault(1, seconds=14.0))),
        (of("plain", a_fault(1, seconds=14.0)), of("plain", a_fault(1, seconds=14.5))),
        (of("plain"), of("plain", lenient=True)),
    ],
)
def test_the_order_puts_what_is_easier_to_hold_in_mind_first(smaller: Schedule, bigger: Schedule) -> None:
    assert size_of(smaller) < size_of(bigger)


# -- what is left out ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sound_code_plays_every_smaller_script() -> None:
    """Script surgery never makes a failure: each edit is foretold anew, and a calm, strict execution is valid."""
    played = 0
    for seed in range(1, 6):
        play = change(play_of(run_seed(seed).schedule), turns=(), lenient=False, unresolved=0)
        for edit in [one for one in edits(play) if is_playable(one)][::5]:
            result = replay(Schedule(str(seed), (), play=edit))
            played += 1
            assert result.verdict is Verdict.VALID, (seed, edit, result.why())

    assert played > 30


NOTE = ScheduledMessage("t", 3, "note", 1, "note 3: by the way, t")
FAILED = Turn((calls("plain"), Fail()))
ANSWERED = Turn((Say(),))


@pytest.mark.parametrize(
    ("turns", "note", "expected"),
    [
        ((FAILED, ANSWERED), (), True),
        ((FAILED, ANSWERED), (NOTE,), False),
        ((ANSWERED, ANSWERED), (NOTE,), True),
        ((Turn((Cut(),)), Turn((Cut(1), Say()))), (), False),
        ((Turn((Cut(),)), ANSWERED), (), True),
        ((Turn((Empty(),)), Turn((Fail(1), Empty(1), Say()))), (), False),
        ((Turn((calls("plain"),)), ANSWERED), (), False),
        ((Turn((Fail(RETRY_ATTEMPTS), Say())), ANSWERED), (), False),
    ],
)
def test_a_script_that_nobody_can_foretell_is_not_played(
    turns: tuple[Turn, ...], note: tuple[ScheduledMessage, ...], *, expected: bool
) -> None:
    task = ScriptedTask("t", script("t", *turns, is_interactive=True))
    second = ScheduledMessage("t", 1, "turn", 2, turn_message(2, "t"))

    assert is_playable(Play("t", tasks=(task,), messages=(second, *note))) == expected


def test_a_turn_that_goes_takes_its_messages_along() -> None:
    play = CASES["interactive"].cast().play

    (first, second) = [edit for edit in edits(play) if len(edit.tasks[0].script.turns) == 1]

    assert [(message.kind, message.turn) for message in play.messages] == [("note", 1), ("turn", 2), ("note", 2)]
    assert [(message.kind, message.turn) for message in first.messages] == [("note", 1)]
    assert [(message.kind, message.turn) for message in second.messages] == [("note", 1)]
    assert first.tasks[0].script.turns == play.tasks[0].script.turns[:1]
    assert second.tasks[0].script.turns == play.tasks[0].script.turns[1:]


@pytest.mark.parametrize(("strikes", "expected"), [(MAX_MODEL_ATTEMPTS - 1, [False]), (MAX_MODEL_ATTEMPTS, [])])
def test_excuses_are_taken_away_only_where_strikes_alone_fill_no_bound(strikes: int, expected: list[bool]) -> None:
    """With more, sound code would be convicted of an outcome that is not the one foretold."""
    hunt = Asked(of("plain", *(a_fault(number) for number in range(1, strikes + 1)), lenient=True))

    strictly(hunt)

    assert [play_of(one).lenient for one in hunt.asked] == expected


@dataclass
class Asked:
    """A hunt that finds nothing, and remembers what it was asked."""

    best: Schedule
    asked: list[Schedule] = field(default_factory=list)

    @property
    def watched(self) -> Watched:
        return watch(self.best)

    def tries(self, candidate: Schedule) -> bool:
        self.asked.append(candidate)
        return False


def test_a_smaller_script_is_smaller() -> None:
    for seed in range(1, 10):
        schedule = run_seed(seed).schedule
        size = size_of(schedule)
        for edit in edits(play_of(schedule)):
            assert size_of(change(schedule, play=edit)) < size


def test_other_names_change_nothing_else() -> None:
    for seed in range(1, 6):
        result = run_seed(seed)
        schedule = renamed(change(result.schedule, play=change(play_of(result.schedule), turns=())))

        assert [task.id for task in play_of(schedule).tasks] == [
            f"t{n + 1}" for n in range(len(play_of(schedule).tasks))
        ]
        assert is_playable(play_of(schedule))
        assert replay(schedule).verdict is Verdict.VALID


def test_a_fault_named_by_what_it_hits_still_hits_it_when_other_tasks_are_gone() -> None:
    """The append of a task, which stands elsewhere in the count of all appends once another task is gone."""
    both = of("two-tasks")
    last = [one for one in watch(both).passings if one.point == "append.before"][-1]
    fault = Fault(
        "f1", Kind.KILL, "w1", AtPoint("append.before", 1, "w1", where={"task": "two-b"}), {"respawn_seconds": 0.0}
    )
    (struck,) = watch(change(both, faults=(fault,))).struck
    alone = change(play_of(both), tasks=play_of(both).tasks[1:])

    assert last.facts["task"] == "two-b"
    counted = replay(change(both, faults=(struck.fault,), play=alone))
    named = watch(change(both, faults=(struck.by_facts,), play=alone))
    assert not strikes_in(counted.schedule)
    assert [one.passing.facts for one in named.struck] == [struck.passing.facts]


# -- what is told --------------------------------------------------------------------------------------------------


def test_a_story_names_players_faults_and_promise_in_fifteen_lines(failing: Result) -> None:
    lines = story(failing, "one-writer")

    text = "\n".join(lines)
    assert len(lines) <= LINES_MAX
    assert lines[0].startswith("Played: 2 agent tasks on 3 workers, 1 message by a client, 6 faults")
    assert "one-writer is broken: " in text
    assert LAWS_BY_KEY["one-writer"].statement in text
    assert text.count("  ! ") == STRIKES_SHOWN
    assert "22:13" not in text
    times = [float(line.split()[0]) for line in lines if line.startswith("  ") and line.split()[1] == "s"]
    assert times == sorted(times)


def test_the_story_of_a_valid_execution_says_so() -> None:
    lines = story(replay(of("plain")))

    assert lines[-1] == "nothing is broken: the verdict is valid"


def test_a_printed_test_holds_the_schedule_whatever_its_texts(failing: Result) -> None:
    """Messages hold NUL, quotes and lone escapes: the literal gives back the same schedule."""
    namespace: dict[str, object] = {}

    exec(compile(as_pytest(failing.schedule, "one-writer"), "printed", "exec"), namespace)

    assert from_json(str(namespace["SCHEDULE"])) == failing.schedule
    with pytest.raises(AssertionError, match="one-writer: "):
        namespace["test_one_writer_holds"]()  # type: ignore[operator]


# -- the whole way -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["late-renewal", "blind-commit-retry", "cancel-without-entry"])
def test_a_planted_bug_becomes_a_small_test_that_is_red_with_it_and_green_without(name: str) -> None:
    """The others: ``python -m tests.mutants.shrink_probe NAME SECONDS``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.shrink_probe", name, str(PROBE_SECONDS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PROBE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])

    assert told["law"] in BY_NAME[name].convicting
    assert told["after"]["faults"] <= 3
    assert told["after"]["tasks"] <= 3
    assert told["smaller"]
    assert told["repeats"]
    assert told["under_bug"] == "failed"
    assert told["on_true_code"] == "passed"
    assert len(told["story"]) <= LINES_MAX
