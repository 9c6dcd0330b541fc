"""A server of its own and real `noeta worker` processes on it, for tests that hurt both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from noeta.backends.stores.postgres import PostgresStore
from noeta.core.errors import NoetaError
from noeta.core.store import NewTask
from noeta.core.task import Status
from noeta.testing.postgres import Server

DEADLINE_SECONDS: Final = 60.0
LEASE_SECONDS: Final = 1.0
SCHEMA: Final = "noeta"


class Site:
    """A server of its own, a store on it, and workers that run `tests/cluster/plain_app.py`."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.store = PostgresStore(server.dsn, schema=SCHEMA)
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_worker(self, name: str, *, concurrency: int = 1, stop_at: str = "") -> subprocess.Popen[bytes]:
        options = ["--schema", SCHEMA, "--lease", str(LEASE_SECONDS), "--concurrency", str(concurrency)]
        options += ["--app", "tests.cluster.plain_app:make", "--name", name, "--poll", "0.1", "--grace", "5"]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "noeta", "worker", "--store", self.server.dsn, *options],
                env=os.environ | {"NOETA_TEST_FOLDER": str(self.folder), "NOETA_TEST_STOP_AT": stop_at},
                stdout=log,
                stderr=log,
            )
        self.workers.append(process)
        return process

    def create(self, *ids: str, until: str) -> None:
        for task_id in ids:
            self.store.create(NewTask(task_id, "main", json.dumps({"until": until})))

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()

    def started(self, task_id: str) -> bool:
        return (self.folder / f"started-{task_id}").exists()

    def has_ended(self, task_id: str) -> bool:
        try:
            return self.store.task(task_id).status is Status.TERMINAL
        except NoetaError:
            return False  # the database is away

    def log(self, name: str) -> list[str]:
        return (self.folder / f"{name}.log").read_text().splitlines()

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Until it holds; a worker that died by itself ends the wait."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:g} s: {what}"
            for worker in self.workers:
                assert worker.poll() in (None, 0), f"a worker exited {worker.poll()}: {self.logs()}"
            time.sleep(0.02)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        for process in self.workers:
            process.kill()
            process.wait()
        self.store.close()
