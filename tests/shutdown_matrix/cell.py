"""One cell of the matrix: a real `noeta worker`, a signal, and what is left afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noeta.core.store import NewTask, Store
from noeta.core.task import Status, TaskRow
from tests.shutdown_matrix import app
from tests.shutdown_matrix.places import SCHEMA, Place, open_place
from tests.shutdown_matrix.rows import GRACE_SECONDS, LEASE_SECONDS, STATEMENT_SECONDS, After, Cell, Row, Strike

PATIENCE_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.01
LOG_SHOWN: Final = 400
TASK: Final = "t"


class NotInPlace(AssertionError):
    """The worker never did what its row says, so that nothing was tried."""


@dataclass(frozen=True)
class Scene:
    """One cell under way."""

    place: Place
    folder: Path
    row: Row
    queue: str

    @property
    def task_id(self) -> str:
        return f"{TASK}-{self.queue}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def wait_for(self, what: str, holds: Callable[[], bool], worker: subprocess.Popen[bytes] | None = None) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            ended = worker is not None and worker.poll() is not None
            if ended or time.monotonic() > deadline:
                raise NotInPlace(f"{self.row.name}: {what} did not come: {self.log[-LOG_SHOWN:]}")
            time.sleep(LOOK_SECONDS)


def try_cell(place: Place, row: Row, strike: Strike, folder: Path) -> Cell:
    """Start a worker, bring it where the row says, strike, and look at what is left.

    Raises:
        NotInPlace.
    """
    folder.mkdir(parents=True)
    scene = Scene(place, folder, row, queue=folder.name)
    with contextlib.closing(open_place(place, folder)) as store:
        if row.has_task:
            store.create(NewTask(scene.task_id, "main", row.name, queue=scene.queue, interactive=row.interactive))
        else:
            store.tasks(limit=1)  # a file is there from now on
        worker = _start(scene)
        try:
            with contextlib.ExitStack() as away:
                _bring_in_place(scene, worker, away)
                seconds = _strike(scene, worker, strike)
        finally:
            worker.kill()
            worker.wait()
        after, late = _look(scene, store)
        return Cell(seconds, worker.returncode, after, late, scene.log)


def _start(scene: Scene) -> subprocess.Popen[bytes]:
    row = scene.row
    options = {
        "--store": scene.place.address(scene.folder),
        "--schema": SCHEMA,
        "--app": f"{app.__name__}:{row.factory}",
        "--queue": scene.queue,
        "--lease": f"{LEASE_SECONDS:g}",
        "--grace": f"{GRACE_SECONDS:g}",
        "--statement-timeout": f"{STATEMENT_SECONDS:g}",
        "--poll": f"{row.poll_seconds:g}",
    }
    with (scene.folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "noeta", "worker", *(part for option in options.items() for part in option)],
            env={**os.environ, app.FOLDER: str(scene.folder), app.MARK_AT: row.then_reaches or row.reaches},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _bring_in_place(scene: Scene, worker: subprocess.Popen[bytes], away: contextlib.ExitStack) -> None:
    row = scene.row
    if row.reaches:
        scene.wait_for(row.reaches, (scene.folder / row.reaches).exists, worker)
    if row.store == "hangs":
        away.enter_context(scene.place.hang(scene.folder))
        (scene.folder / app.GO_ON).touch()
    elif row.store == "away":
        away.enter_context(scene.place.away(scene.folder))
    if row.then_reaches:
        scene.wait_for(row.then_reaches, (scene.folder / row.then_reaches).exists, worker)
    if row.log_line:
        scene.wait_for(f"the line {row.log_line!r}", lambda: row.log_line in scene.log, worker)


def _strike(scene: Scene, worker: subprocess.Popen[bytes], strike: Strike) -> float:
    """Seconds from the first signal to the end of the process."""
    began = time.monotonic()
    worker.send_signal(strike.number)
    if scene.row.goes_on and not strike.twice and strike.number != signal.SIGKILL:
        scene.wait_for("word of the signal", lambda: "stopping" in scene.log, worker)
        (scene.folder / app.GO_ON).touch()
    while worker.poll() is None and time.monotonic() - began < PATIENCE_SECONDS:
        if strike.twice and time.monotonic() - began >= AGAIN_SECONDS:
            worker.send_signal(strike.number)
        try:
            worker.wait(AGAIN_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    return time.monotonic() - began


def _look(scene: Scene, store: Store) -> tuple[After, int]:
    """What became of the task, and the lines that were journalled once it was free for others."""
    if not scene.row.has_task:
        return "no task", 0
    row = store.task(scene.task_id)
    after: After = "at once"
    free_at = row.ready_at or 0
    if row.lease_until is not None:
        after, free_at = "after its lease", row.lease_until
    elif row.status is Status.TERMINAL:
        return "ended", _lines_after(scene, store.read(scene.task_id).entries[-1].at)
    if not _claim(scene, store, row):
        after = "not in time"
    return after, _lines_after(scene, free_at)


def _claim(scene: Scene, store: Store, row: TaskRow) -> bool:
    """Claim the task as another worker would: at the first try, or, if it was left, once its lease is over."""
    deadline = time.monotonic() + (LEASE_SECONDS * 2 if row.lease_until is not None else 0.0)
    while True:
        if store.claim("another", [scene.queue], LEASE_SECONDS).claims:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_SECONDS)


def _lines_after(scene: Scene, micros: int) -> int:
    journal = scene.folder / app.JOURNAL
    lines = journal.read_text().splitlines() if journal.exists() else []
    return sum(int(line) > micros for line in lines)
