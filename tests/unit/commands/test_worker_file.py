"""`noeta worker` on a file that is not there: it is made, and named."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_worker_names_the_file_that_it_makes(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    command = [sys.executable, "-u", "-m", "noeta", "worker", "--app", "tests.cluster.plain_app:make"]
    worker = subprocess.Popen(
        [*command, "--store", f"sqlite:{file}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert worker.stderr is not None
        assert any("started: " in line for line in worker.stderr), "it never got so far"
    finally:
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=60)

    assert said == f"made {file}\n"
    assert file.is_file()
