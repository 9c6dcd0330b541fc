"""What the tests of background jobs share: claims without a task, trees of every stubborn kind, and who is alive."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from noeta.backends.stores.memory import MemoryStore
from noeta.core.jobs import JobEnd, Jobs
from noeta.core.runner.lease import Held
from noeta.core.store import Claim
from noeta.core.world import World
from noeta.runtime.jobs import tree
from noeta.runtime.jobs.table import JobTable
from noeta.runtime.threads import ThreadWorld

WAIT_SECONDS = 10.0 if os.environ.get("NOETA_MUTANT") else 60.0
"""For what comes in milliseconds, on a machine that is busy with other things; under a planted bug it may never come.
"""

LONG = 600.0
MARK = "NOETA_TEST_MARK"

_LOOP = 'while :; do read up rest </proc/uptime; echo "$up" >>{journal}; sleep 0.01; done'
_STUBBORN = f"trap '' TERM INT HUP; {_LOOP}"
KINDS: Mapping[str, tuple[str, str]] = {
    "plain": (_LOOP, "sh -c {program} & wait"),
    "ignores-sigterm": (_STUBBORN, "sh -c {program} & wait"),
    "own-session": (_STUBBORN, "setsid sh -c {program} & wait"),
    "double-fork": (_STUBBORN, "(setsid sh -c {program} </dev/null >/dev/null 2>&1 &) & sleep 600"),
    "stopped": (f"kill -STOP $$; {_LOOP}", "sh -c {program} & wait"),
}
"""A program that writes the seconds since boot to a journal as long as it lives, and a job that has it as a descendant:
each kind is hard to end in its own way."""


def claim_held(world: World, seconds: float, *, task: str = "t", token: str = "token") -> Held:
    """A claim of no task, whose lease is over in so many seconds."""
    claim = Claim(task, "default", "worker", 1, token, 0, 0, 0, 0, 0, "pending")
    return Held(world, MemoryStore(), claim, world.monotonic() + seconds)


@contextmanager
def job_table(**settings: Any) -> Iterator[tuple[JobTable, ThreadWorld]]:
    """A table of this process, whose guard is gone afterwards."""
    world = ThreadWorld(seed=1)
    table = JobTable(world, **settings)
    try:
        yield table, world
    finally:
        table.close()
        assert not children_named(os.getpid(), "noeta-guard")


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < give_up, f"not within {WAIT_SECONDS:g} s: {what}"
        time.sleep(0.002)


def wait_ends(jobs: Jobs, count: int) -> list[JobEnd]:
    """The ends that are not recorded, once there are so many."""
    wait_until(lambda: len(jobs.ended()) >= count, f"{count} ends")
    return list(jobs.ended())


def alive(mark: str) -> set[int]:
    """Processes that carry this mark in their environment, as all of a job's tree do."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                pass  # gone meanwhile
    return found


def children_named(parent: int, name: str) -> set[int]:
    """Children of a process that have this name and live."""
    found = set()
    for process in tree.everyone().values():
        try:
            is_it = process.parent == parent and Path(f"/proc/{process.pid}/comm").read_text() == f"{name}\n"
        except OSError:
            continue
        if is_it and not process.is_dead:
            found.add(process.pid)
    return found


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has taken effect."""
    process = tree.look(pid)
    return process is not None and process.state in (b"T", b"t")


class Trees:
    """One job of each kind, told apart by their marks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        run = uuid4().hex
        self.marks = {kind: f"{run}-{kind}" for kind in KINDS}

    def command(self, kind: str) -> str:
        program, job = KINDS[kind]
        return job.format(program=shlex.quote(program.format(journal=self._folder / kind)))

    def environment(self, kind: str) -> dict[str, str]:
        return {MARK: self.marks[kind]}

    def wait_grown(self) -> None:
        """Until every tree is as hard to end as it is meant to be."""
        for kind in KINDS:
            if kind == "stopped":
                wait_until(lambda: any(map(is_stopped, alive(self.marks["stopped"]))), "a stopped descendant")
            else:
                wait_until(lambda kind=kind: self.stamps(kind) != [], f"a line of {kind}")  # type: ignore[misc]

    def stamps(self, kind: str) -> list[float]:
        """When lines were written, by the monotonic clock."""
        path = self._folder / kind
        ahead = float(Path("/proc/uptime").read_text().split()[0]) - time.monotonic()
        return [float(line) - ahead for line in path.read_text().splitlines()] if path.exists() else []

    def left(self) -> list[str]:
        """Kinds of which something is alive."""
        return [kind for kind, mark in self.marks.items() if alive(mark)]

    def wait_gone(self) -> None:
        wait_until(lambda: not self.left(), f"all trees gone, left: {self.left()}")

    def kill(self) -> None:
        """What a failed test left behind."""
        while left := {pid for mark in self.marks.values() for pid in alive(mark)}:
            for pid in left:
                if (process := tree.look(pid)) is not None:
                    tree.send(process, signal.SIGKILL)


class AWorker:
    """A process of its own with a table in it, which does what it is told (`a_worker.py`)."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.runtime.jobs.a_worker"],
            cwd=Path(__file__).parents[4],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, **more: Any) -> Any:
        """What it answers."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    @property
    def guard(self) -> int:
        (pid,) = children_named(self.process.pid, "noeta-guard")
        return pid

    @property
    def supervisors(self) -> set[int]:
        return children_named(self.guard, "noeta-job")

    def stop(self) -> None:
        """SIGSTOP, and wait until it is stopped."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(self.process.pid), "the worker stopped")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(WAIT_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
