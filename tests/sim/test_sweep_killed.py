"""Sweeps and workers are killed for real: what was finished stays, what was not is run, and nobody is left over."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from invariants import Verdict
from noeta.chaos.schedule import from_json
from noeta.chaos.sim.executors import open_executor
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.sweep import SweepStopped, sweep
from noeta.chaos.sim.sweep_found import Found
from noeta.chaos.sim.sweep_plan import Plan
from noeta.core.runner import calls
from tests.sim.sweep_process import chunks, recover_nothing

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 120


def killed_in_the_middle(directory: Path, plan: Plan, enough: Callable[[], bool], *planted: str) -> None:
    """Start a sweep of two processes, and SIGKILL it once there is enough; its workers end by themselves."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sim.sweep_process", str(directory), str(plan.first), str(plan.last), *planted],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        until(lambda: enough() or process.poll() is not None)
        assert process.poll() is None, "it ended before it was killed"
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS_MAX)
    _gone, alive = psutil.wait_procs(workers, timeout=SECONDS_MAX)
    assert alive == []


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.01)


def test_a_sweep_that_was_killed_goes_on_with_what_is_left(tmp_path: Path) -> None:
    plan = Plan(0, 199)
    killed_in_the_middle(tmp_path, plan, lambda: len(chunks(tmp_path, plan)) >= 2)
    before = chunks(tmp_path, plan)
    assert 2 <= len(before) < 8

    with open_executor("processes", 2) as executor:
        found = sweep(plan, executor, directory=tmp_path)
        whole = sweep(plan, executor, directory=tmp_path / "whole")

    assert found.began == "resumed"
    assert found.ran == 200 - 25 * len(before)
    assert chunks(tmp_path, plan)[: len(before)] == before
    assert sorted(chunks(tmp_path, plan)) == list(range(0, 200, 25)), "every chunk once"
    assert found.complete
    assert found.verdict is Verdict.VALID
    assert found.trace_hash == whole.trace_hash
    assert found.sums == whole.sums


def test_a_failure_outlives_its_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(0, 9_999)

    killed_in_the_middle(tmp_path, plan, lambda: any(tmp_path.glob("invalid-*.json")), "plant")

    kept = next(tmp_path.glob("invalid-*.json"))
    assert replay(from_json(kept.read_text())).verdict is Verdict.VALID
    monkeypatch.setattr(calls, "recover_call", recover_nothing)
    assert replay(from_json(kept.read_text())).convicted == {"effect-at-most-once"}


def test_a_killed_worker_process_stops_the_sweep_and_loses_nothing(tmp_path: Path) -> None:
    plan = Plan(0, 199)

    def kill_one(found: Found) -> None:
        if found.ran == 50:
            os.kill(victim, signal.SIGKILL)

    with open_executor("processes", 2) as executor:
        victim = executor.submit(os.getpid).result()
        with pytest.raises(SweepStopped, match=r"a process that ran seeds was killed \(BrokenProcessPool"):
            sweep(plan, executor, directory=tmp_path, progress=kill_one)
    before = chunks(tmp_path, plan)
    with open_executor("processes", 2) as executor:
        found = sweep(plan, executor, directory=tmp_path)

    assert len(before) >= 2
    assert found.ran == 200 - 25 * len(before)
    assert sorted(chunks(tmp_path, plan)) == list(range(0, 200, 25)), "every chunk once"


def test_workers_of_a_pool_are_silent() -> None:
    with open_executor("processes", 1) as executor:
        level = executor.submit(logging.getLogger("noeta").isEnabledFor, logging.CRITICAL)
        assert not level.result()
