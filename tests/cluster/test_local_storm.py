"""The storm over stores that several processes of one machine can open: SQLite, and a user's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from noeta.chaos.schedule import After, AtPoint, Fault, Kind, Quotas, Schedule, to_json

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

ROOT = Path(__file__).parents[2]
OWN = "factory:tests.cluster.own_store:make"
DEADLINE_SECONDS = 60.0
SIZE = {"NOETA_CLUSTER_TASKS": "40", "NOETA_CLUSTER_SECONDS": "10"}


def short_schedule() -> Schedule:
    """Every family of faults once or twice: few enough that hardly a task is pushed into a bound."""
    down = {"respawn_seconds": 0.3}
    faults = (
        Fault("k1", Kind.KILL, "w1", After(1.0), down),
        Fault("c1", Kind.UNKNOWN_LANDED, "w2", AtPoint("append.before", 2, "w2", 1.0)),
        Fault("k2", Kind.KILL, "w2", AtPoint("tool.after_journal", 1, "w2", 2.0), down),
        Fault("c2", Kind.STORE_UNAVAILABLE, "w3", AtPoint("append.before", 1, "w3", 2.0)),
        Fault("ka", Kind.KILL_ALL, "*", After(4.0), down),
        Fault("k3", Kind.RESTART_SAME_NAME, "w3", After(6.0)),
        Fault("k4", Kind.KILL, "w4", After(7.5), down),
        Fault("x1", Kind.CUT_AFTER_COMMIT, "w1", AtPoint("append.sent", 1, "w1")),
        Fault("d1", Kind.DB_KILL, "server", After(5.0), {"seconds": 0.5}),
        Fault("d2", Kind.DB_RESTART, "server", After(5.5), {"seconds": 0.5, "mode": "fast"}),
    )
    spares = tuple(Fault(f"s{n}", Kind.KILL, f"w{n % 4 + 1}", After(0.0), down) for n in range(12))
    return Schedule("short", faults, spares, Quotas(kills=2, kill_alls=1))


def environ(**more: str) -> dict[str, str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NOETA_")}
    return {**plain, "PYTHONPATH": str(ROOT), **more}


def noeta(*arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "noeta", *arguments],
        cwd=folder,
        env=environ(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=200,
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("store", ["sqlite:", OWN])
def test_a_short_storm_is_valid_and_hurts(tmp_path: Path, store: str) -> None:
    (tmp_path / "short.json").write_text(to_json(short_schedule()))
    asked = ("--seed", "51", "--schedule", "short.json")
    done = noeta("cluster", *asked, folder=tmp_path, NOETA_CLUSTER_STORE=store, **SIZE)
    lines = done.stdout.strip().splitlines()
    latest = tmp_path / "runs" / "latest"

    assert done.returncode == 0, done.stdout
    assert f"--store {store}" in lines[0].partition("reproduce: ")[2]
    assert lines[-1].endswith("reproduce: " + lines[0].partition("reproduce: ")[2])
    results, run = read(latest / "results.json"), read(latest / "run.json")
    assert results["storm"]["kills"] >= 2
    assert results["storm"]["kill_alls"] == 1
    assert results["storm"]["fired"]["unknown_landed"] == results["storm"]["fired"]["store_unavailable"] == 1
    assert set(results["storm"]["refused"]) == {"cut_after_commit", "db_kill", "db_restart"}
    assert any(line.startswith("refused: db_kill: this store has no server") for line in lines)
    assert any(line.startswith("refused: cut_after_commit: this store has no wire") for line in lines)
    assert not any(line.startswith("wire:") for line in lines)
    assert {"kind", "version", "file", "kept"} <= run["store"].keys()
    assert "error" not in run
    assert (latest / "report.html").stat().st_size > 0
    assert list((latest / "store").glob("*.db"))
    assert noeta("check", str(latest), folder=tmp_path).returncode == 0


def wait_until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(("store", "place"), [("sqlite:", "mine.db"), (f"{OWN}:", "mine")])
def test_a_harness_that_is_killed_leaves_no_process_and_no_file_at_a_place_that_was_named(
    tmp_path: Path, store: str, place: str
) -> None:
    runs, where = tmp_path / "runs", tmp_path / place
    harness = subprocess.Popen(
        [sys.executable, "-m", "noeta", "cluster", "--store", f"{store}{where}", "--runs-dir", str(runs)],
        cwd=tmp_path,
        env=environ(NOETA_CLUSTER_TASKS="20", NOETA_CLUSTER_SECONDS="60"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    family: list[psutil.Process] = []
    try:
        wait_until(lambda: any(path.stat().st_size for path in runs.glob("latest/journal/*.effects.jsonl")))
        family = psutil.Process(harness.pid).children(recursive=True)
        assert where.exists()
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    _, left = psutil.wait_procs(family, timeout=15)

    assert left == []
    wait_until(lambda: sorted(path.name for path in tmp_path.iterdir()) == ["runs"])


def test_what_contradicts_itself_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    for arguments, named in (
        (["--store", "sqlite:", "--dsn", "postgresql://u:secret@h/d"], "--dsn"),
        (["--store", "sqlite:x.db", "--seeds", "1..2"], "--seeds"),
        (["--store", "nonsense"], "--store"),
    ):
        done = noeta("cluster", *arguments, folder=tmp_path)

        assert done.returncode == 64, done.stdout
        assert named in done.stdout
        assert "secret" not in done.stdout
    assert list(tmp_path.iterdir()) == []
