"""The reaper's own rules: what is registered, what is withdrawn, and that a reused id is never hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from noeta.chaos.reaper import Reapers, kill_processes
from noeta.testing.postgres.guard import is_alive, started_at

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def wait_gone(child: subprocess.Popen[bytes]) -> int:
    return child.wait(30)


def test_what_is_still_registered_at_the_end_is_cleaned_up_in_order(tmp_path: Path) -> None:
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    scratch.mkdir()
    kept.mkdir()
    file = tmp_path / "file"
    file.touch()
    child = subprocess.Popen(SLEEPER)
    with Reapers() as reapers:
        reapers.process(child.pid)
        reapers.directory(scratch)
        reapers.files([file, tmp_path / "never made"])
        reapers.withdraw(reapers.directory(kept))

    assert wait_gone(child) == -signal.SIGKILL
    assert not scratch.exists()
    assert not file.exists()
    assert kept.exists()


def test_a_stopped_process_and_its_descendants_are_killed(tmp_path: Path) -> None:
    told = tmp_path / "child"
    program = (
        "import subprocess, sys, time; from pathlib import Path\n"
        f"child = subprocess.Popen({SLEEPER!r}); Path(sys.argv[1] + '.new').write_text(str(child.pid))\n"
        "Path(sys.argv[1] + '.new').rename(sys.argv[1]); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(told)], start_new_session=True)
    while not told.exists():
        time.sleep(0.01)
    grandchild = int(told.read_text())
    start = started_at(grandchild)
    assert start is not None
    os.kill(grandchild, signal.SIGSTOP)
    os.kill(parent.pid, signal.SIGSTOP)

    kill_processes([(parent.pid, started_at(parent.pid))])

    assert wait_gone(parent) == -signal.SIGKILL
    assert not is_alive(grandchild, start)


def test_a_process_that_only_has_the_same_id_is_never_hit() -> None:
    child = subprocess.Popen(SLEEPER)
    start = started_at(child.pid)
    assert start is not None

    kill_processes([(child.pid, start - 1), (child.pid, None)])

    assert child.poll() is None
    child.kill()
    child.wait()


def test_reapers_end_with_an_orderly_close_and_ignore_the_terminal() -> None:
    with Reapers() as reapers:
        pids = reapers.pids
        starts = {pid: started_at(pid) for pid in pids}
        time.sleep(0.5)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGINT)
        time.sleep(0.3)
        replaced = reapers.replaced
        sessions = {os.getsid(pid) for pid in reapers.pids}

    assert os.getsid(0) not in sessions and len(sessions) == 2
    assert replaced <= 2  # a signal may have come before one of them was up
    assert not any(start is not None and is_alive(pid, start) for pid, start in starts.items())
