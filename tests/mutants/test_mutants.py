"""The quick half of `python -m tests.mutants`: no mutant rots, and each shows up within seconds where it can.

What only a real storm or the whole race matrix shows is asked for by `make mutants`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from invariants.catalogue import LAWS, PROMISES
from noeta.backends.stores.sql_loader import load_migrations
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.modes import MODES
from noeta.testing.race_scenes import scenes
from tests.mutants.answer import Answer, heard
from tests.mutants.background_jobs import JOBS
from tests.mutants.catalogue import BY_NAME, MUTANTS, Lines, Mutant
from tests.mutants.delegating import DELEGATING
from tests.mutants.detectors import ROOT, failing
from tests.mutants.gating import GATING
from tests.mutants.kept import KEPT
from tests.mutants.mutant import LOOP_ENDS, SIM_ONLY
from tests.mutants.owning import OWNING
from tests.mutants.patching import look_up, rewritten
from tests.mutants.search import SEEN
from tests.mutants.waiting import WAITING

SEVERAL_PLACES = frozenset({"epoch-not-raised"})
"""Bugs whose text stands in more than one place on purpose."""

REQUIRED = 14
WAITING_AND_DELEGATING_MIN = 16
BACKGROUND_MIN = 12
QUICK_SECONDS = 120.0

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


def test_names_are_unique_and_the_required_ones_are_there() -> None:
    assert len(BY_NAME) == len(MUTANTS)
    assert sum(not mutant.extra for mutant in MUTANTS) == REQUIRED


def test_every_bug_of_tasks_that_wait_or_delegate_has_a_quick_detector() -> None:
    bugs = (*WAITING, *DELEGATING)

    assert len(bugs) >= WAITING_AND_DELEGATING_MIN
    assert all(mutant.quick.sim or mutant.quick.tests for mutant in bugs)
    assert {mutant.promise for mutant in bugs} >= {"children-once", "timers-once", "wake-once", "waiting-is-free"}


def test_every_bug_of_the_background_has_a_quick_detector() -> None:
    bugs = (*KEPT, *GATING, *JOBS, *OWNING)

    assert len(bugs) >= BACKGROUND_MIN
    assert all(mutant.quick.sim or mutant.quick.tests for mutant in bugs)
    assert {mutant.promise for mutant in bugs} >= {"jobs-told-once", "timers-once", "never-stuck", "one-writer"}


@every_mutant
def test_the_sql_to_replace_is_there_once(mutant: Mutant) -> None:
    text = "".join(migration.text for migration in load_migrations("postgres", "s")).replace('"s"', "{schema}")

    for old, new in mutant.sql:
        found = text.count(old)
        assert found == 1 or (found > 1 and mutant.name in SEVERAL_PLACES), (found, old)
        assert new != old


@every_mutant
def test_the_python_to_replace_is_there(mutant: Mutant) -> None:
    for patch in mutant.python:
        module = importlib.import_module(patch.module)
        _, _, found = look_up(module, patch.path)

        if isinstance(patch, Lines):
            assert callable(rewritten(mutant.name, module, found, patch))
        else:
            made = patch.make(found)
            assert made is not None
            assert made != found


@every_mutant
def test_a_mutant_changes_something_and_names_what_it_breaks(mutant: Mutant) -> None:
    laws = {law.key for law in LAWS}

    assert mutant.sql or mutant.python
    assert mutant.promise in {promise.key for promise in PROMISES}
    assert set(mutant.laws) <= laws | {LOOP_ENDS, SIM_ONLY}
    assert mutant.where != "store" or mutant.python or mutant.quick.race


def test_what_the_catalogue_names_exists() -> None:
    for mutant in MUTANTS:
        if mutant.quick.sim is not None:
            case, mode = mutant.quick.sim
            assert case in CASES
            assert mode in MODES
        assert mutant.quick.race in (None, *(scene.name for scene in scenes()))


def test_every_required_bug_was_caught_when_the_table_was_made() -> None:
    """The table is made by hand (`make mutants`): this holds that it was, for every bug of the catalogue."""
    results = json.loads(Path(__file__).with_name("results.json").read_text())

    for mutant in MUTANTS:
        cells = results["bugs"][mutant.name]
        assert any(cell["verdict"] == "invalid" for cell in cells.values()), mutant.name


def test_the_hook_says_that_a_bug_is_planted() -> None:
    assert inspect.getsource(importlib.import_module("tests.conftest")).count("plant_here()") == 1


SIM = [mutant for mutant in MUTANTS if mutant.quick.sim]
CONTRACT = [mutant for mutant in MUTANTS if mutant.quick.tests and not mutant.quick.sim]
"""One quick detector a bug: where the simulator sees it, that is the nearer to a real run."""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", CONTRACT, ids=lambda mutant: mutant.name)
def test_the_contract_catches_it(mutant: Mutant) -> None:
    word, failed = failing(mutant.quick.tests, mutant.name, seconds=QUICK_SECONDS)

    assert word == "failed", word
    assert failed


@pytest.mark.slow
def test_the_sound_code_passes_the_same_tests() -> None:
    tests = sorted({test for mutant in MUTANTS for test in mutant.quick.tests})

    word, failed = failing(tests, seconds=QUICK_SECONDS)

    assert (word, failed) == ("passed", [])


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SIM, ids=lambda mutant: mutant.name)
def test_the_simulator_catches_it(mutant: Mutant) -> None:
    assert mutant.quick.sim is not None

    answer = simulate(mutant.name, mutant.quick.sim)

    assert answer.caught, answer
    assert answer.by in mutant.convicting


@pytest.mark.slow
def test_the_sound_code_is_not_red_under_the_same_strikes() -> None:
    answer = simulate("true", *sorted({mutant.quick.sim for mutant in MUTANTS if mutant.quick.sim}))

    assert answer.verdict == "valid", answer


PLANTED = sorted((ROOT / "tests/regressions").glob("planted-*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", PLANTED, ids=lambda path: path.stem.removeprefix("planted-"))
def test_the_small_schedule_that_is_kept_shows_its_bug(schedule: Path) -> None:
    """`tests/regressions/` holds that it is survived without the bug: together they say that it is worth keeping."""
    mutant = BY_NAME[schedule.stem.removeprefix("planted-")]
    command = [sys.executable, "-m", "tests.mutants.sim_probe", mutant.name, "60", "replay", str(schedule)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=QUICK_SECONDS, check=False)

    answer = heard(done.stdout)
    assert answer is not None, done.stderr
    assert answer.caught, answer


def test_every_bug_that_the_simulator_sees_has_its_small_schedule() -> None:
    assert {path.stem.removeprefix("planted-") for path in PLANTED} == {mutant.name for mutant in SEEN}


def simulate(name: str, *strikes: tuple[str, str]) -> Answer:
    """The simulator's word after every strike of these modes on these cases."""
    pairs = [f"{case}/{mode}" for case, mode in strikes]
    command = [sys.executable, "-m", "tests.mutants.sim_probe", name, "60", "exhaustion", *pairs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=QUICK_SECONDS, check=False)
    answer = heard(done.stdout)
    assert answer is not None, done.stderr
    return answer
