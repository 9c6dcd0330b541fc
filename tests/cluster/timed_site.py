"""Real workers that run `tests/cluster/timed_app.py` on a schema of Postgres."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import conninfo

from noeta.backends.stores.postgres import PostgresStore
from noeta.core.events import Event
from noeta.core.store import NewTask
from noeta.core.task import Status
from tests.cluster import timed_app

DEADLINE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.02


class TimedSite:
    """A handle of the one who looks on, and the workers. The schema is migrated."""

    def __init__(self, dsn: str, schema: str, folder: Path) -> None:
        self.dsn = dsn
        self.schema = schema
        self.folder = folder
        self.store = PostgresStore(dsn, schema=schema)
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def create(self, id: str, tool: str = "", input: Mapping[str, Any] | None = None, *, rests: bool = False) -> None:
        """A task that calls this tool; without one, it only says a word."""
        goal = json.dumps([tool, input or {}]) if tool else "nothing"
        self.store.create(NewTask(id, "main", goal, interactive=rests))

    def start(self, name: str, *options: str, dsn: str = "", **environ: str) -> subprocess.Popen[bytes]:
        address = conninfo.make_conninfo(dsn or self.dsn, application_name=self._session_name(name))
        arguments = ["--store", address, "--schema", self.schema, "--app", f"{timed_app.__name__}:make"]
        with (self.folder / f"{name}.log").open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "noeta", "worker", *arguments, "--name", name, "--poll", "0.1", *options],
                env={**os.environ, timed_app.FOLDER: str(self.folder), **environ},
                stdout=log,
                stderr=log,
            )
        self._workers[name] = worker
        return worker

    def kill(self, name: str) -> None:
        """SIGKILL; what it had sent has landed, or never will, when this returns."""
        worker = self._workers.pop(name)
        worker.kill()
        worker.wait()
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        with psycopg.connect(self.dsn, autocommit=True) as look:
            self.wait_for(
                f"no session of {name}", lambda: look.execute(sessions, [self._session_name(name)]).fetchone() == (0,)
            )

    def end(self) -> None:
        """Tell every worker to end, once it has come up, and see that it does so in peace."""
        for name in self._workers:
            self.wait_for(f"the start of {name}", lambda name=name: "started: " in self._log(name))  # type: ignore[misc]
        for worker in self._workers.values():
            worker.terminate()
        codes = {name: worker.wait(DEADLINE_SECONDS) for name, worker in self._workers.items()}
        assert set(codes.values()) == {0}, (codes, self.logs())
        assert "Traceback" not in self.logs()

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:g} s: {what}: {self.logs()}"
            gone = [name for name, worker in self._workers.items() if worker.poll() is not None]
            assert not gone, f"{what}: {gone} ended: {self.logs()}"
            time.sleep(LOOK_SECONDS)

    def rests_until(self, id: str, instant: float) -> bool:
        row = self.store.task(id)
        return row.status is Status.SUSPENDED and row.ready_at == round(instant * 1_000_000)

    def has_ended(self, id: str) -> bool:
        return self.store.task(id).status is Status.TERMINAL

    def events(self, id: str) -> list[Event]:
        return [entry.event for entry in self.store.read(id).entries]

    def _session_name(self, worker: str) -> str:
        return f"{worker} {self.schema}"[:63]

    def logs(self) -> str:
        return "\n".join(f"{path.stem}: {self._log(path.stem)}" for path in sorted(self.folder.glob("*.log")))

    def _log(self, worker: str) -> str:
        return (self.folder / f"{worker}.log").read_text(errors="replace")

    def close(self) -> None:
        (self.folder / timed_app.GO_ON).touch()
        for worker in self._workers.values():
            worker.kill()
            worker.wait()
        self.store.close()
