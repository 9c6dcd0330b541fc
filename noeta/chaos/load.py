"""Brings the workload's tasks into the store: some at the start, the rest little by little.

A storm over tasks that are all done strikes idle workers and proves nothing. So tasks trickle in: by a share of the
time that has passed, sooner when little is left to do, and beyond the workload itself (its *reserve*, drawn from a
seed of its own) as long as the nemesis still has quotas to meet. Which tasks there are is the plan, which a seed
repeats; when each comes depends on the machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from noeta.chaos.board import Board
from noeta.chaos.history import History
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable
from noeta.core.store import NewTask, Store
from noeta.core.task import Status
from scripted_model import AGENT, ScriptedTask

CLIENT: Final = "loader"
LOOK_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 0.2
START_SHARE: Final = 0.3
"""The share of the tasks that is there before the storm."""
SPREAD_SHARE: Final = 0.6
"""The share of the storm's time by which all tasks of the workload are there."""

LIVE_MAX: Final = 1.5
"""Above so many times the wanted number of tasks that want a worker none comes by time alone: a backlog that only grows
keeps workers at new tasks, away from those that were struck."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is loaded. ``live_min``: as many tasks should want a worker at any time while the storm lasts."""

    tasks: Sequence[ScriptedTask]
    reserve: Sequence[ScriptedTask]
    live_min: int
    storm_seconds: float
    queue: str = "default"

    @property
    def at_start(self) -> int:
        """How many tasks are there before the storm begins."""
        return min(len(self.tasks), max(self.live_min, round(START_SHARE * len(self.tasks))))

    def by(self, seconds: float) -> int:
        """How many tasks of the workload should be there after so many seconds of storm."""
        passed = 1.0 if self.storm_seconds <= 0 else seconds / (SPREAD_SHARE * self.storm_seconds)
        return min(len(self.tasks), max(self.at_start, round(passed * len(self.tasks))))


class Loader:
    """A thread that creates tasks. ``created`` are those whose creation was acknowledged, in order."""

    def __init__(
        self,
        store: Store,
        plan: LoadPlan,
        board: Board,
        history: History,
        *,
        wants_more: Callable[[], bool],
    ) -> None:
        self.created: list[str] = []
        self.sent: list[str] = []
        self.refused: list[str] = []
        self._store, self._plan, self._board, self._history = store, plan, board, history
        self._wants_more = wants_more
        self._stop = threading.Event()
        self._give_up = threading.Event()
        self._next = 0
        self._next_reserve = 0
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)

    def load_start(self) -> int:
        """Create the tasks of the start, in the caller's thread; how many."""
        while self._next < self._plan.at_start and not self._give_up.is_set():
            self._create_next()
        return len(self.created)

    def start(self) -> None:
        """Begin to trickle."""
        self._thread.start()

    def finish(self, timeout_seconds: float) -> bool:
        """Create what the workload still holds and end; whether all of it is there."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        self._give_up.set()
        return not self._thread.is_alive() and self._next == len(self._plan.tasks) and not self.refused

    def abandon(self) -> None:
        """End without creating the rest."""
        self._give_up.set()
        self._stop.set()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(LOOK_SECONDS):
            passed = time.monotonic() - began
            while self._next < self._plan.by(passed) and self._live() < LIVE_MAX * self._plan.live_min:
                if self._stop.is_set():
                    break
                self._create_next()
            for _ in range(self._missing()):
                if self._next < len(self._plan.tasks):
                    self._create_next()
                elif self._next_reserve < len(self._plan.reserve) and self._wants_more():
                    self._create(self._plan.reserve[self._next_reserve])
                    self._next_reserve += 1
        while self._next < len(self._plan.tasks) and not self._give_up.is_set():
            self._create_next()

    def _missing(self) -> int:
        """How many tasks fewer than wanted want a worker."""
        return max(0, self._plan.live_min - self._live())

    def _live(self) -> int:
        """How many tasks want a worker now, sub-agents among them. One that waits wants none; one that the sampler has
        not seen yet does."""
        seen = self._board.all()
        working = sum(one.sample.status in (Status.PENDING, Status.RUNNING) for one in seen.values())
        return working + sum(task not in seen for task in self.created)

    def _create_next(self) -> None:
        self._create(self._plan.tasks[self._next])
        self._next += 1

    def _create(self, task: ScriptedTask) -> None:
        """Create one task, asking again with the same content until the answer is known."""
        new = NewTask(task.id, AGENT, task.goal, self._plan.queue, task.interactive, task.delay_seconds)
        self.sent.append(task.id)
        while not self._give_up.is_set():
            try:
                self._history.create(CLIENT, self._store, new)
            except (StoreUnavailable, CommitUnknown):
                self._give_up.wait(RETRY_SECONDS)
            except NoetaError:
                self.refused.append(task.id)
                return
            else:
                self.created.append(task.id)
                return
