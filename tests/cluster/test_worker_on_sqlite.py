"""`noeta worker` on a SQLite file: one that somebody else has locked is waited for, like a server that is down."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from noeta.backends.open import open_store
from noeta.core.store import NewTask

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEADLINE_SECONDS = 60.0


def wait_for(what: str, holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: {log.read_text()}"
        time.sleep(0.05)


def test_a_file_that_is_locked_is_waited_for(tmp_path: Path) -> None:
    file, log = tmp_path / "t.db", tmp_path / "log"
    store = open_store(f"sqlite:{file}")
    store.create(NewTask("t", "main", json.dumps({"until": "gate"})))
    store.close()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    arguments = ["worker", "--store", f"sqlite:{file}", "--app", "tests.cluster.plain_app:make", "--lease", "1"]
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "noeta", *arguments, "--statement-timeout", "0.2"],
            env={**os.environ, "NOETA_TEST_FOLDER": str(tmp_path)},
            stdout=out,
            stderr=out,
        )
    try:
        wait_for("it says that it waits", lambda: "cannot be opened yet" in log.read_text(), log)
        assert worker.poll() is None
        other.execute("ROLLBACK")
        wait_for("it runs the task", (tmp_path / "started-t").exists, log)
        (tmp_path / "gate").touch()
    finally:
        other.close()
        worker.terminate()
        ended = worker.wait(DEADLINE_SECONDS)

    assert ended == 0, log.read_text()
