"""What the tests of the SQLite store do to real files: a small disk, another user, another process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from noeta.backends.stores.sqlite import SqliteStore
from noeta.core.store import Claim, NewTask
from noeta.testing.clock import ManualClock

ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65_534
SMALL_DISK: Final = "1m"


@contextlib.contextmanager
def opened(path: Path, *, clock: ManualClock | None = None, wait_seconds: float = 5.0) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path), clock=None if clock is None else clock.now, wait_seconds=wait_seconds)
    try:
        yield store
    finally:
        store.close()


def claimed(store: SqliteStore, task_id: str, *, lease_seconds: float = 600.0) -> Claim:
    """A new task under a claim; nothing else may be claimable."""
    store.create(NewTask(task_id, "agent", "goal"))
    (claim,) = store.claim("w", None, lease_seconds).claims
    assert claim.task_id == task_id
    return claim


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="noeta-sqlite-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextlib.contextmanager
def as_somebody_without_rights() -> Iterator[None]:
    """Root may write everything, so for a while this process is not root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of 1 MB; None where this process may mount none."""
    with open_folder() as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            yield None
            return
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)


class OtherProcess:
    """A program of `sqlite_process.py`, which says a line and waits for one."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.sqlite_process", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
