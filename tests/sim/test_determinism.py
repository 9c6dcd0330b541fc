"""The same seed is the same execution: in this process, in another, and whatever PYTHONHASHSEED says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from invariants import Verdict
from noeta.chaos.sim.run import Execution, Strike, strike_at
from noeta.chaos.sim.scheduler import Trace
from noeta.chaos.sim.scripts import CASES
from noeta.chaos.sim.seeded import run_seed, run_seeds

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
        "from noeta.chaos.sim.seeded import run_seed, silence\n"
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
        return Execution(CASES["several"], strike_at(strikes), trace=Trace(keep=True)).run().trace

    calm, struck = lines(), lines(Strike("kill", 20))
    at = next(i for i, line in enumerate(struck) if "STRUCK" in line)

    assert struck[:at] == calm[:at]
    assert struck[at:] != calm[at:]


@pytest.mark.slow
def test_a_hundred_seeds_are_valid_and_share_their_hash_whoever_runs_them() -> None:
    here = run_seeds(0, 99, jobs=1, progress=lambda found: None)
    elsewhere = run_seeds(0, 99, jobs=2, progress=lambda found: None)

    assert [(one.seed, one.why) for one in here.bad] == []
    assert here.verdict is Verdict.VALID
    assert here.trace_hash == elsewhere.trace_hash
    assert sum(here.struck.values()) > 100, "next to nothing was struck"
