"""What `noeta sim` prints and exits with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from invariants import Verdict
from noeta.chaos.schedule import from_json
from noeta.chaos.sim import seeded
from noeta.chaos.sim.cases import CASES
from noeta.cli import BAD_USAGE, run
from noeta.commands.sim import HARNESS_ERROR
from noeta.core.runner import calls
from noeta.core.runner.desk import Desk
from tests.sim.sweep_process import recover_nothing

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sim(*args: str) -> int:
    return run(["sim", *args])


def test_one_script_is_searched_and_the_last_line_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "errors-refused", "--jobs", "1") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("valid: ")
    assert "1 scripts" in lines[-1]
    assert any(line.startswith("killed at ") for line in lines)
    assert any(line.startswith("never killed at: ") for line in lines)
    assert any(line.startswith("situations: ") for line in lines)
    assert not any(line.startswith("required and never seen: ") for line in lines), "a part is not asked for everything"
    assert any(line.split()[:2] == ["errors-refused", "15"] for line in lines)


def test_a_seed_prints_its_trace_and_the_hash_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    result = seeded.run_seed(17, keep_trace=True)

    assert sim("--seed", "17", "--trace") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[: len(result.trace)] == list(result.trace)
    assert lines[-1].endswith(f"trace {result.trace_hash}")


def test_a_saved_schedule_is_played_again_with_the_same_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seed", "17", "--strategy", "pct", "--save", "kept/17.json") == 0
    first = capsys.readouterr().out.splitlines()[-1]

    assert sim("replay", "kept/17.json") == 0

    again = capsys.readouterr().out.splitlines()[-1]
    assert again.rpartition("trace ")[2] == first.rpartition("trace ")[2]
    assert from_json(Path("kept/17.json").read_text()).play is not None


def test_many_seeds_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "0..4", "--jobs", "1", "--verify-determinism") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("valid: 5 of 5 seeds from 0 to 4")
    assert "5 run twice" in lines[-1]
    assert any(line.startswith("context switches a seed: ") for line in lines)


def test_one_seed_over_two_stores_has_one_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "1..2", "--stores", "sqlite") == 0

    assert capsys.readouterr().out.splitlines()[-1].startswith("valid: 2 seeds over memory, sqlite: 0 traces differ")


def test_strikes_can_be_repeated_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "plain", "--strike", "kill@9,kill@30", "--trace") == 0

    out = capsys.readouterr().out
    assert out.count("STRUCK kill") == 2
    assert "3 workers" in out.splitlines()[-1]


def test_a_broken_promise_is_told_with_the_line_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Desk, "_seen", lambda self, next: self._inbox_seen)

    assert sim("--script", "interactive", "--mode", "kill", "--jobs", "1") == 1

    out = capsys.readouterr().out
    repeat = next(line for line in out.splitlines() if "reproduce: noeta sim replay " in line)
    file = repeat.partition("noeta sim replay ")[2].split()[0]
    assert out.splitlines()[-1].startswith("invalid: ")
    assert sim("replay", file) == 1
    monkeypatch.undo()


def test_an_error_of_the_simulator_is_neither_valid_nor_invalid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(seeded, "shape_of", broken)

    assert sim("--seed", "1") == HARNESS_ERROR
    assert "on purpose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--script", "nonsense"], "script"),
        (["--mode", "nonsense"], "mode"),
        (["--seed", "1", "--seeds", "1..2"], "exclude each other"),
        (["--seeds", "2..1"], "seeds"),
        (["--seeds", "1..x"], "seeds"),
        (["--seeds", "1..2", "--stores", "memory,oracle"], "stores"),
        (["--seeds", "1..2", "--executor", "telepathy"], "executor"),
        (["--seed", "1", "--strategy", "prayer"], "strategy"),
        (["--trace"], "trace"),
        (["--stores", "memory"], "stores"),
        (["--seeds", "1..2", "--stores", "memory"], "the memory store alone"),
        (["--seeds", "1..2", "--executor", "dask", "--mutant", "os:getpid"], "mutant"),
        (["--strike", "kill@1"], "strike"),
        (["--script", "plain", "--strike", "kill"], "strike"),
        (["--script", "plain", "--strike", "kill@100000"], "strike"),
        (["--script", "plain", "--strike", "slow@2"], "only 0 of slow@2 found something to hit"),
        (["--seed", "1", "--mutant", "no.such:bug"], "--mutant"),
        (["replay", "no-such-file.json"], "file"),
        (["shrink", "no-such-file.json"], "file"),
    ],
)
def test_bad_usage_is_refused_by_name(args: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(*args) == BAD_USAGE

    assert named in capsys.readouterr().err


def test_the_schedule_of_a_storm_is_not_played(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "storm.json").write_text('{"seed": "1", "faults": [], "format": 2}')

    assert sim("replay", "storm.json") == BAD_USAGE

    assert "noeta cluster --schedule" in capsys.readouterr().err


def test_a_schedule_none_of_whose_strikes_comes_about_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "plain", "--strike", "kill@9", "--save", "kept.json") == 0
    kept = Path("kept.json")
    kept.write_text(re.sub(r'"point": ".*"', '"point": "no.such.point"', kept.read_text()))

    assert sim("replay", "kept.json") == 2

    assert capsys.readouterr().out.splitlines()[-1].startswith("unknown: none of its strikes came about")


def test_a_strike_at_an_instant_is_refused_instead_of_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "plain", "--strike", "kill@9", "--save", "kept.json") == 0
    kept = Path("kept.json")
    plan = json.loads(kept.read_text())
    plan["faults"][0]["anchor"] = {"when": "after", "seconds": 1.0}
    kept.write_text(json.dumps(plan))

    assert sim("replay", "kept.json") == BAD_USAGE

    assert "stands at a point, found an instant" in capsys.readouterr().err


def test_nothing_struck_is_unknown() -> None:
    assert sim("--script", "plain", "--mode", "say", "--jobs", "1") == 2


def test_a_planted_bug_is_planted_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    bug = "tests.sim.sweep_process:plant"

    asked = subprocess.run(
        f"{sys.executable} -m noeta.cli sim --mutant {bug} --script plain --mode kill --jobs 2".split(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert asked.returncode == 1, asked.stdout + asked.stderr
    assert any(Path("runs/sim").glob("invalid-plain-kill-*.json"))


def test_one_execution_that_is_not_valid_leaves_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "recover_call", recover_nothing)
    (seed, *_) = (seed for seed in range(30) if seeded.run_seed(seed).verdict is Verdict.INVALID)

    assert sim("--seed", str(seed)) == 1

    assert sim("replay", f"runs/sim/invalid-random-{seed}.json") == 1


def test_without_a_postgres_the_comparison_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETA_POSTGRES", "nowhere")
    monkeypatch.delenv("NOETA_TEST_POSTGRES_DSN", raising=False)

    assert sim("--seeds", "1..1", "--stores", "postgres") == BAD_USAGE

    assert "expected a Postgres, found none" in capsys.readouterr().err


def test_scripts_and_modes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "?") == 0

    out = capsys.readouterr().out
    assert all(name in out for name in CASES)
    assert "mode kill: SIGKILL" in out
