"""Ctrl-C once keeps the evidence and says unknown; twice ends everything at once. Nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from noeta.testing.postgres import PostgresSource

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

CALM = ["cluster", "--no-faults", "--workers", "2", "--concurrency", "2", "--seed", "5"]
"""Two workers and no fault: this tests the harness, it is no storm."""


def start(runs: Path, *, seconds: int = 60) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "noeta", *CALM, "--runs-dir", str(runs)],
        env={**os.environ, "NOETA_CLUSTER_TASKS": "8", "NOETA_CLUSTER_SECONDS": str(seconds)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_working(runs: Path) -> bool:
    """Whether some worker has had an effect."""
    return any(path.stat().st_size for path in runs.glob("latest/journal/*.effects.jsonl"))


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(processes, timeout=15)
    assert left == []


def test_once_keeps_the_evidence_and_is_unknown(tmp_path: Path, postgres_source: PostgresSource) -> None:
    process = start(tmp_path)
    wait_until(lambda: is_working(tmp_path))
    children = family(process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=90)
    lines = out.strip().splitlines()

    assert process.returncode == 2, out
    assert re.match(r"seed=5 commit=\S+ config=\[.*\] verdict=pending reproduce: ", lines[0])
    assert "verdict=unknown" in lines[-1]
    assert lines[-1].endswith("reproduce: " + lines[0].partition("reproduce: ")[2])
    assert "doubt:  interrupted once, during the storm" in lines
    for name in ("run.json", "results.json", "log.jsonl", "rows.jsonl", "history.jsonl", "explain.md", "report.html"):
        assert (tmp_path / "latest" / name).stat().st_size > 0, name
    assert_gone(children)


def test_twice_ends_everything_at_once(tmp_path: Path, postgres_source: PostgresSource) -> None:
    process = start(tmp_path)
    wait_until(lambda: is_working(tmp_path))
    children = family(process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert process.returncode == 130, out
    assert json.loads((tmp_path / "latest" / "run.json").read_text())["interrupted"] == "twice"
    assert_gone(children)


def test_a_calm_run_is_unknown_because_no_kill_landed(tmp_path: Path, postgres_source: PostgresSource) -> None:
    process = start(tmp_path, seconds=3)
    out, _ = process.communicate(timeout=120)

    assert process.returncode == 2, out
    assert "no kill landed" in out
    assert "drain:  quiet" in out
    assert "  invalid  " not in out


def test_a_harness_that_fails_is_exit_3_with_the_evidence_kept(tmp_path: Path, postgres_source: PostgresSource) -> None:
    mutant = "sys:exit"  # no worker comes up
    done = subprocess.run(
        [sys.executable, "-m", "noeta", "cluster", "--runs-dir", str(tmp_path), "--mutant", mutant, "--seed", "5"],
        env={**os.environ, "NOETA_CLUSTER_TASKS": "3", "NOETA_CLUSTER_SECONDS": "10"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 3, done.stdout
    assert "harness error: NemesisFailed" in done.stdout
    assert (tmp_path / "latest" / "results.json").stat().st_size > 0
