"""The same seed is the same execution: in this process, in another, and whatever PYTHONHASHSEED says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from noeta.chaos.schedule import Kind, from_json, to_json
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scheduler import Trace
from noeta.chaos.sim.seeded import Strategy, run_seed
from noeta.chaos.sim.strikes import Strike, in_order
from scripted_model import app as scripted_app

ROOT = Path(__file__).parents[2]
SEEDS = (3, 17, 1755)


def test_a_seed_repeats_its_trace_in_one_process() -> None:
    first, again = (run_seed(17, keep_trace=True) for _ in range(2))

    assert first.trace == again.trace
    assert first.trace_hash == again.trace_hash


def test_other_seeds_are_other_executions() -> None:
    assert len({run_seed(seed).trace_hash for seed in range(20)}) == 20


@pytest.mark.parametrize("hash_seed", ["0", "1", "4294967295"])
def test_a_seed_repeats_its_trace_in_another_process(hash_seed: str) -> None:
    code = (
        "from noeta.chaos.sim.seeded import run_seed\n"
        "from noeta.chaos.sim.silence import silence\n"
        "silence()\n"
        f"for seed in {SEEDS}: print(run_seed(seed).trace_hash)\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert other.stdout.split() == [run_seed(seed).trace_hash for seed in SEEDS]


def test_an_execution_is_the_calm_one_until_it_is_struck() -> None:
    def lines(*strikes: Strike) -> tuple[str, ...]:
        return Execution(CASES["several"], in_order(strikes), trace=Trace(keep=True)).run().trace

    calm, struck = lines(), lines(Strike(Kind.KILL, 20))
    at = next(i for i, line in enumerate(struck) if "STRUCK" in line)

    assert struck[:at] == calm[:at]
    assert struck[at:] != calm[at:]


@pytest.mark.parametrize("strategy", Strategy)
def test_what_was_decided_is_a_schedule_that_repeats_it_event_by_event(strategy: Strategy) -> None:
    struck = 0
    for seed in range(25):
        result = run_seed(seed, strategy=strategy, keep_trace=True)
        again = replay(from_json(to_json(result.schedule)), keep_trace=True)
        struck += len(result.struck)

        assert again.trace == result.trace
        assert again.schedule == result.schedule
    assert struck > 25, "next to nothing was struck"


def test_a_schedule_without_its_turns_is_another_execution() -> None:
    """The turns are what repeats it: without them the same faults meet another order."""
    result = next(result for result in map(run_seed, range(50)) if result.schedule.play and result.schedule.play.turns)
    assert result.schedule.play is not None
    first_come = msgspec.structs.replace(result.schedule, play=msgspec.structs.replace(result.schedule.play, turns=()))

    assert replay(first_come).trace_hash != result.trace_hash


def test_a_trace_tells_one_log_from_another_and_one_token_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows alone would not: the same number of entries, of the same kinds, at the same times."""
    true = Execution(CASES["plain"]).run().trace_hash

    with monkeypatch.context() as patch:
        patch.setattr(scripted_app, "SYSTEM", "Play it otherwise.")  # other requests, so other bodies of ModelCalled
        other_bodies = Execution(CASES["plain"]).run().trace_hash
    other_tokens = Execution(CASES["plain"], seed=1).run().trace_hash

    assert len({true, other_bodies, other_tokens}) == 3
