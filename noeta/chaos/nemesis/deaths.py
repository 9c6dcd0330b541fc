"""Workers that ended and that no strike stands for: killed by their own script, or crashed."""

from __future__ import annotations

from typing import Final

from noeta.chaos.cluster import Worker
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.process_faults import Down
from noeta.chaos.nemesis.record import CRASHED, SELF_KILLED

CRASHES_IN_A_ROW_MAX: Final = 5
SELF_KILL_RESPAWN_SECONDS: Final = 0.05
CRASH_RESPAWN_SECONDS: Final = 1.0
LIVED_SECONDS: Final = 10.0
"""A process that lived this long did not crash at its start."""


class NemesisFailed(RuntimeError):
    """The harness itself is at fault, or the machine: the run proves nothing."""


class Deaths:
    """``crashes``: processes that ended in a way nobody asked for, with their last words."""

    def __init__(self, arena: Arena) -> None:
        self.crashes: list[str] = []
        self._arena = arena
        self._in_a_row: dict[str, int] = {}
        self._born: dict[str, float] = {}

    def alive(self, worker: Worker, now: float) -> None:
        """This process was seen to live."""
        self._born.setdefault(worker.process, now)

    def mourn(self, name: str, worker: Worker, now: float) -> Down:
        """The strike that stands for this death; its successor comes by it.

        Raises:
            NemesisFailed: this name crashes again and again.
        """
        self._arena.paused.discard(worker.process)
        code = worker.child.returncode
        facts = {"exit_code": code}
        if code == -9:
            return Down(self._arena, worker, SELF_KILLED, respawn_seconds=SELF_KILL_RESPAWN_SECONDS, facts=facts)
        self.crashes.append(f"{worker.process} ended with exit code {code}: {worker.log_tail(400)}")
        lived = now - self._born.get(worker.process, now)
        in_a_row = 1 if lived > LIVED_SECONDS else self._in_a_row.get(name, 0) + 1
        self._in_a_row[name] = in_a_row
        if in_a_row >= CRASHES_IN_A_ROW_MAX:
            raise NemesisFailed(f"{name} crashed {in_a_row} times in a row; its last words: {worker.log_tail()}")
        return Down(self._arena, worker, CRASHED, respawn_seconds=CRASH_RESPAWN_SECONDS, facts=facts)
