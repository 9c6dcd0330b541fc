"""The processes of a race: started together, killed where they are to die, replaced, and never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

HOLDS_AT: Final = 2
"""The claim at which the first process of the first slot stops and is killed, holding it."""

START_SECONDS_MAX: Final = 60.0

STILL_SECONDS: Final = 20.0
"""A race in which nobody wrote for so long does not go on: many leases, and the rests after a few takeovers."""

LOOK_SECONDS: Final = 0.2


@dataclass
class Racers:
    """``slots`` names of processes. ``kill_at``: the claims at which processes of the other slots are killed, one
    process for each number, counted from its own start.

    A thread a slot starts the slot's processes and outlives them: a parent-death signal fires when the thread that
    started a process ends.
    """

    store: str
    place: str
    evidence: Path
    slots: int
    kill_at: list[int]
    killed: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    """Processes that ended by themselves before the race did."""

    def __post_init__(self) -> None:
        self._lifeline, self._held_end = os.pipe()
        self._lock = threading.Lock()
        self._closing = False
        self._children: list[subprocess.Popen[str]] = []
        self._at_start = threading.Barrier(self.slots)
        self._wrote_at = 0.0
        self._threads = [
            threading.Thread(target=self._slot, args=(f"w{number}",), daemon=True)
            for number in range(1, self.slots + 1)
        ]

    def run(self, seconds: float) -> str:
        """Race; why it did not come to its end, in words; empty if every slot did."""
        began = time.monotonic()
        self._wrote_at = began + START_SECONDS_MAX
        for thread in self._threads:
            thread.start()
        while any(thread.is_alive() for thread in self._threads):
            now = time.monotonic()
            if now - began >= seconds:
                return f"the tasks did not end within {seconds:g} s"
            if now - self._wrote_at >= STILL_SECONDS:
                return f"the tasks did not end, and nobody wrote anything for {STILL_SECONDS:g} s"
            for thread in self._threads:
                thread.join(LOOK_SECONDS)
        return ""

    def close(self) -> None:
        """Kill what is left."""
        with self._lock:
            self._closing = True
            for child in self._children:
                child.kill()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        os.close(self._held_end)
        os.close(self._lifeline)

    def log_tail(self, process: str, characters: int = 2_000) -> str:
        """The end of what a process said."""
        return self._log(process).read_text(errors="replace")[-characters:].strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _slot(self, slot: str) -> None:
        """One process after another, until one of them saw the end of the race."""
        incarnation = 0
        while True:
            incarnation += 1
            process = f"{slot}#{incarnation}"
            holds = HOLDS_AT if (slot, incarnation) == ("w1", 1) else 0
            child = self._launch(process, holds)
            if child is None or self._hear(child, process, first=incarnation == 1):
                return

    def _launch(self, process: str, holds: int) -> subprocess.Popen[str] | None:
        words = [self.store, self.place, process, str(self.evidence), str(self._lifeline), str(holds)]
        with self._lock, self._log(process).open("w") as log:
            if self._closing:
                return None
            child = subprocess.Popen(
                [sys.executable, "-m", "noeta.chaos.certify.racer", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=(self._lifeline,),
            )
            self._children.append(child)
            return child

    def _hear(self, child: subprocess.Popen[str], process: str, *, first: bool) -> bool:
        """Let it race, kill it where it is to die; whether its slot is at its end."""
        assert child.stdin is not None
        assert child.stdout is not None
        claims = 0
        is_done = was_killed = False
        with child, child.stdin, child.stdout:
            ready = child.stdout.readline()
            if first:
                self._wait_for_others()
            if ready:
                child.stdin.write("go\n")
                child.stdin.flush()
            for line in child.stdout:
                word = line.split()[0]
                is_done = word == "done"
                claims += word == "claimed"
                if word == "wrote":
                    self._wrote_at = time.monotonic()
                if word == "holds" or (word == "claimed" and not process.startswith("w1") and self._dies(claims)):
                    child.kill()
                    was_killed = True
        with self._lock:
            (self.killed if was_killed and not is_done else self.done if is_done else self.died).append(process)
            return is_done or not was_killed or self._closing

    def _wait_for_others(self) -> None:
        try:
            self._at_start.wait(START_SECONDS_MAX)
        except threading.BrokenBarrierError:
            pass  # somebody did not come: the others race without it
        self._wrote_at = time.monotonic()

    def _dies(self, claims: int) -> bool:
        with self._lock:
            if self.kill_at and claims >= self.kill_at[0]:
                self.kill_at.pop(0)
                return True
            return False

    def _log(self, process: str) -> Path:
        return self.evidence / f"{process}.log"
