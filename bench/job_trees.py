"""Jobs whose process trees are hard to end, seen from outside: their commands, who of them is alive, what they wrote.

The kernel tells of each end (a descriptor a process), so that the time of the last one is known to the millisecond
and nobody's process id is taken for another's. Linux only, like the jobs.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from uuid import uuid4

from bench import tree_program
from bench.tree_program import KINDS

MARK: Final = "NOETA_TREE"
PROCESSES_A_JOB: Final = 1 + len(KINDS)
"""The shell, and the processes of the program."""


class Trees:
    """So many jobs, each with a journal folder of its own. They are known by a mark that no other process carries."""

    def __init__(self, folder: Path, count: int) -> None:
        self._mark = uuid4().hex
        self._folders = [folder / f"job-{number}" for number in range(count)]
        for one in self._folders:
            one.mkdir(parents=True)

    @property
    def commands(self) -> list[str]:
        """What a shell is told, job by job."""
        program = shlex.quote(str(Path(tree_program.__file__).absolute()))
        python = f"{MARK}={self._mark} {shlex.quote(sys.executable)} -I -S {program}"
        # Waited for: a shell that has only one command left becomes that command.
        return [f"{python} {shlex.quote(str(folder.absolute()))} & wait" for folder in self._folders]

    @property
    def have_grown(self) -> bool:
        """Whether every process of every tree has written a line."""
        return all(
            (folder / kind).exists() and (folder / kind).stat().st_size for folder in self._folders for kind in KINDS
        )

    def alive(self) -> set[int]:
        """Processes of the trees that have not ended."""
        mark = self._mark.encode()
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:  # both are empty of one that has ended
                    is_ours = mark in (entry / "environ").read_bytes() or mark in (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if is_ours:
                    found.add(int(entry.name))
        return found

    def lines_after(self, number: int, at: int) -> int:
        """How many lines of one job say that they were written after this instant, in microseconds."""
        return sum(int(line) > at for kind in KINDS for line in self._lines(number, kind))

    def changed_after(self, number: int, at: int) -> int:
        """How many journals of one job were written to after this instant by the kernel's word, which is up to a clock
        tick (10 ms) early."""
        folder = self._folders[number]
        return sum((folder / kind).stat().st_mtime_ns // 1000 > at for kind in KINDS)

    def kill(self) -> None:
        """Whatever is left, when nobody asks any more who should have done it."""
        for pid in self.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _lines(self, number: int, kind: str) -> Iterable[bytes]:
        return (self._folders[number] / kind).read_bytes().split(b"\n")[:-1]


class Watch:
    """Processes that are there now, each until its end. A thread of its own waits for the kernel's word, so that an end
    is dated when it comes, whatever else is waited for meanwhile."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.ended_at: dict[int, int] = {}
        """By process id, in microseconds of the wall clock."""
        self._open: dict[int, int] = {}
        self._closing = os.eventfd(0)
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        try:
            for pid in pids:
                self._open[os.pidfd_open(pid)] = pid
            self._thread.start()
        except OSError:
            self._close_all()
            raise

    def wait_gone(self, seconds_max: float) -> bool:
        """Until all have ended, or the time is over; whether all have."""
        self._thread.join(seconds_max)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Watch no more."""
        os.eventfd_write(self._closing, 1)
        self._thread.join()
        self._close_all()

    def _run(self) -> None:
        poll = select.poll()
        for descriptor in (self._closing, *self._open):
            poll.register(descriptor, select.POLLIN)
        while len(self.ended_at) < len(self._open):
            for descriptor, _ in poll.poll():
                if descriptor == self._closing:
                    return
                poll.unregister(descriptor)
                self.ended_at[self._open[descriptor]] = time.time_ns() // 1000

    def _close_all(self) -> None:
        for descriptor in (self._closing, *self._open):
            os.close(descriptor)
