"""`noeta certify`: the card of a store that keeps its word, of stores that break one rule, and of wrong usage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from noeta.backends.stores.sqlite import SqliteStore
from noeta.chaos.certify import racers
from noeta.chaos.certify.asked import PARTS, SUBJECTS, Asked, only_of
from noeta.chaos.certify.card import NOT_COVERED, Card, Line
from noeta.chaos.certify.contract import TITLES
from noeta.chaos.certify.race import LAWS
from noeta.chaos.certify.racer import TASKS
from noeta.chaos.sim.modes import MODES
from noeta.core.errors import BadInput
from noeta.core.store import NewTask
from noeta.testing.contract.stage import ContractTests
from noeta.testing.store_contract import StoreContract

ROOT = Path(__file__).parents[2]
BROKEN = "tests.cluster.broken_stores"
FIRST_FAILURE = {
    "claims_not_atomic": ("contract:races", "(keeps: one-writer"),  # whichever race is lost first
    "dedupe_forgotten": ("contract:inbox", "(keeps: taken-once)"),
    "client_clock": ("factory:clock", "the clock it was given"),
}


def certify(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NOETA_")}
    return subprocess.run(
        [sys.executable, "-m", "noeta", "certify", *arguments],
        cwd=folder,
        env=plain | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )


def test_the_memory_store_is_certified_and_nothing_is_left(tmp_path: Path) -> None:
    parts = [word for part in ("factory", "contract", "crash:kill", "processes", "storm") for word in ("--only", part)]
    done = certify(
        "memory", "--quick", "--seed", "7", *parts, "--json", "card.json", "--junit", "card.xml", folder=tmp_path
    )
    card = json.loads((tmp_path / "card.json").read_text())
    lines = done.stdout.splitlines()

    assert done.returncode == 0, done.stdout
    assert card["verdict"] == "valid"
    assert card["checks"] > 600
    assert {line["verdict"] for line in card["lines"]} == {"valid", NOT_COVERED}
    assert [line["part"] for line in card["lines"] if line["verdict"] == NOT_COVERED] == ["processes", "storm"]
    assert lines[0].partition("reproduce: ")[2] == lines[-1].partition("reproduce: ")[2] == card["reproduce"]
    assert "verdict=valid (of a store that lives in one process)" in lines[-1]
    cases = ElementTree.fromstring((tmp_path / "card.xml").read_text()).iter("testcase")
    assert len(list(cases)) == len(card["lines"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.json", "card.xml"]


def test_a_broken_store_is_caught_and_the_command_of_its_line_shows_it_again(tmp_path: Path) -> None:
    done = certify(f"{BROKEN}:client_clock", "--seed", "7", "--only", "factory", "--json", "card.json", folder=tmp_path)
    (failed,) = (one for one in json.loads((tmp_path / "card.json").read_text())["lines"] if one["why"])
    again = certify(*failed["rerun"].split()[2:], folder=tmp_path)

    assert done.returncode == again.returncode == 1, done.stdout
    assert failed["subject"] == "clock"
    assert f"rerun: {failed['rerun']}" in done.stdout
    assert "Traceback" not in done.stdout
    assert "Traceback" in again.stdout


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("name", FIRST_FAILURE)
def test_the_first_line_that_fails_names_the_rule_that_is_broken(tmp_path: Path, name: str) -> None:
    parts = ("--only", "factory", "--only", "contract")
    done = certify(f"{BROKEN}:{name}", "--seed", "7", *parts, "--json", "card.json", folder=tmp_path)
    failed = [one for one in json.loads((tmp_path / "card.json").read_text())["lines"] if one["verdict"] == "invalid"]
    where, words = FIRST_FAILURE[name]

    assert done.returncode == 1, done.stdout
    assert f"{failed[0]['part']}:{failed[0]['subject']}" == where
    assert words in failed[0]["why"]


@pytest.mark.slow
@pytest.mark.cluster
def test_processes_that_race_convict_what_threads_may_not(tmp_path: Path) -> None:
    """A race is met by luck: within a few seeds."""
    runs = (
        certify(f"{BROKEN}:claims_not_atomic", "--seed", str(seed), "--only", "processes", folder=tmp_path)
        for seed in range(7, 15)
    )

    done = next((run for run in runs if run.returncode != 0), None)

    assert done is not None, "eight races over a store whose claims are not atomic met nothing"
    assert done.returncode == 1, done.stdout
    assert "FAILED" in done.stdout


@pytest.mark.cluster
def test_a_race_that_stands_still_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there convicts the store already."""
    monkeypatch.setattr(racers, "STILL_SECONDS", 3.0)
    (tmp_path / "place").mkdir()
    store = SqliteStore(f"{tmp_path}/place/tasks.db")
    store.create(NewTask(TASKS[0], "racer", "race"))
    store.close()

    with racers.Racers(f"{BROKEN}:nothing_is_written", f"{tmp_path}/place", tmp_path, 1, []) as race:
        assert race.run(120.0) == "the tasks did not end, and nobody wrote anything for 3 s"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "expected MODULE:FUNCTION or one of memory, sqlite, postgres"),
        (["tests.nowhere:make_store"], "cannot import 'tests.nowhere'"),
        (["tests.cluster.own_store:make"], "expected make(place, clock=None) -> Store"),
        (["memory", "--only", "weather"], "expected PART or PART:SUBJECT"),
        (["memory", "--only", "contract:weather"], "expected contract:SUBJECT with one of birth, fence"),
        (["memory", "--no-storm", "--storm-seconds", "9"], "excludes --storm-seconds"),
        (["memory", "--json", "nowhere/card.json"], "a directory that is there"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_done(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = certify(*arguments, folder=tmp_path)

    assert done.returncode == 64, done.stdout
    assert words in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_subject_of_the_contract_every_mode_and_every_law_has_its_line() -> None:
    of_contract = {
        part.__module__.rpartition(".")[2] for part in StoreContract.__mro__ if issubclass(part, ContractTests)
    }

    assert set(TITLES) == set(SUBJECTS["contract"]) == of_contract - {"stage", "store_contract"}
    assert set(SUBJECTS["crash"] + SUBJECTS["faults"]) <= set(MODES)
    assert SUBJECTS["processes"] == ("race", *LAWS)
    assert only_of("contract") == ("contract", None)
    assert only_of("storm:laws") == ("storm", "laws")
    with pytest.raises(BadInput):
        only_of("contract:")


@pytest.mark.parametrize(
    ("verdicts", "failed", "code"),
    [
        (["valid", NOT_COVERED], False, 0),
        (["valid", "unknown"], False, 2),
        (["unknown", "invalid", "valid"], True, 1),
        (["valid", "unknown"], True, 3),
        ([NOT_COVERED], False, 2),
    ],
)
def test_the_worst_line_decides_and_a_failure_outranks_the_harness(
    verdicts: list[str], failed: bool, code: int
) -> None:
    lines = [Line("model", "answers", "title", verdict) for verdict in verdicts]

    assert Card("s", "1", 1, "noeta certify s", lines, 1.0, failed).exit_code == code


def test_the_command_repeats_what_was_asked() -> None:
    asked = Asked("my pkg:make", 5, 0.0, quick=True, only=(("contract", "fence"), ("model", None)))

    assert (
        asked.command() == "noeta certify 'my pkg:make' --seed 5 --quick --no-storm --only contract:fence --only model"
    )
    assert asked.command("crash", "kill").endswith("--no-storm --only crash:kill")
    assert [part for part in PARTS if asked.wants(part)] == ["contract", "model"]
    assert asked.order("contract", "/r").subjects == ("fence",)
    assert asked.order("model", "/r").subjects is None
