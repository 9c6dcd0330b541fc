"""What `noeta sim` prints and exits with."""

from __future__ import annotations

import pytest
import typer

from noeta.chaos.sim import seeded
from noeta.chaos.sim.scripts import CASES
from noeta.commands import sim as command
from noeta.core.errors import BadInput
from noeta.core.runner.runner import Runner


def sim(*args: str) -> int:
    app = typer.Typer()
    app.command()(command.sim)
    result = app(list(args), standalone_mode=False)
    assert isinstance(result, int)
    return result


def test_one_script_is_searched_and_the_last_line_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "errors-refused", "--jobs", "1") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("valid: 62 of 62 strikes survived, 63 executions, 1 scripts")
    assert any(line.startswith("killed at ") for line in lines)
    assert any(line.startswith("never killed at: ") for line in lines)
    assert any(line.split()[:3] == ["errors-refused", "15", "15/15"] for line in lines)


def test_a_seed_prints_its_trace_and_the_hash_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    result = seeded.run_seed(17, keep_trace=True)

    assert sim("--seed", "17", "--trace") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[: len(result.trace)] == list(result.trace)
    assert lines[-1].endswith(f"trace {result.trace_hash}")


def test_many_seeds_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--seeds", "0..4") == 0

    assert capsys.readouterr().out.splitlines()[-1].startswith("valid: 5 of 5 seeds from 0 to 4")


def test_strikes_can_be_repeated_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "plain", "--strike", "kill@9,kill@30", "--trace") == 0

    out = capsys.readouterr().out
    assert out.count("STRUCK kill") == 2
    assert "3 workers" in out.splitlines()[-1]


def test_a_broken_promise_is_told_with_the_line_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "_seen", lambda self, next: self._inbox_seen)

    assert sim("--script", "interactive", "--mode", "kill", "--jobs", "1") == 1

    out = capsys.readouterr().out
    repeat = next(line for line in out.splitlines() if "reproduce: noeta sim " in line)
    assert out.splitlines()[-1].startswith("invalid: ")
    assert sim(*repeat.partition("noeta sim ")[2].split()) == 1


def test_an_error_of_the_simulator_is_neither_valid_nor_invalid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int, *, keep_trace: bool = False) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(seeded, "run_seed", broken)

    assert sim("--seed", "1") == command.HARNESS_ERROR
    assert "on purpose" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["--script", "nonsense"],
        ["--mode", "nonsense"],
        ["--seed", "1", "--seeds", "1..2"],
        ["--seeds", "2..1"],
        ["--seeds", "1..x"],
        ["--trace"],
        ["--strike", "kill@1"],
        ["--script", "plain", "--strike", "kill"],
        ["--script", "plain", "--strike", "kill@100000"],
    ],
)
def test_bad_usage_is_refused_by_name(args: list[str]) -> None:
    with pytest.raises(BadInput):
        sim(*args)


def test_scripts_and_modes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim("--script", "?") == 0

    out = capsys.readouterr().out
    assert all(name in out for name in CASES)
    assert "mode kill: SIGKILL" in out
