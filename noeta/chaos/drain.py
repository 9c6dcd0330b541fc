"""Waits until everything is done, or says which tasks are not and whether they were still moving.

The deadline is extended while anything moves, up to a second one: a slow machine is no lost wake. It ends early
when every unfinished task could be claimed for longer than the stated time beside a worker with room: then waiting
longer shows nothing. Whether a task is *stuck* is decided by the law ``never-stuck`` over the final rows; what that
law needs and only a witness can tell, since when idle workers polled, is recorded here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from noeta.chaos.board import Board, Seen
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.task import TAKEOVERS_MAX, Status, takeover_backoff
from noeta.core.wake import TimerFired

LOOK_SECONDS: Final = 0.2
QUIET_SAMPLES: Final = 3
"""Samples in a row that must find everything at rest."""

REST_AFTER_TAKEOVERS: Final = takeover_backoff(TAKEOVERS_MAX)
"""The longest rest after a lapse: a sample does not say how often the task was taken over."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A task that did not come to rest. ``pace``: ``slow`` (its row still changed lately) or ``stuck``."""

    task: str
    status: str
    last_seq: int
    still_seconds: float
    pace: str


@dataclass(frozen=True, slots=True)
class Drained:
    """How the drain ended: ``quiet``, ``deadline``, ``stuck`` (early), or ``interrupted``."""

    ended: str
    seconds: float
    unfinished: tuple[Unfinished, ...]
    unsaid: tuple[str, ...]
    idle_since: Mapping[str, int]
    stuck_after: int

    def later(self, seconds: float) -> Drained:
        """The same, when the final rows are read so much later and no worker polled meanwhile."""
        shift = round(seconds * MICROS_PER_SECOND)
        return replace(self, idle_since={queue: at + shift for queue, at in self.idle_since.items()})

    def as_dict(self) -> dict[str, Any]:
        """For ``run.json``."""
        return {
            "ended": self.ended,
            "seconds": round(self.seconds, 3),
            "unfinished": [
                {
                    "task": one.task,
                    "status": one.status,
                    "last_seq": one.last_seq,
                    "still_seconds": one.still_seconds,
                    "pace": one.pace,
                }
                for one in self.unfinished
            ],
            "unsaid": list(self.unsaid),
            "idle_since": dict(self.idle_since),
            "stuck_after": self.stuck_after,
        }


@dataclass(frozen=True, slots=True)
class DrainLimits:
    """Spans in seconds. ``soft``: the deadline while nothing moves; ``hard``: in any case."""

    soft: float
    hard: float
    stuck_after: float


class Drain:
    """Watches a board until it is quiet."""

    def __init__(
        self,
        board: Board,
        limits: DrainLimits,
        *,
        queue: str,
        loops: Callable[[], Collection[str]],
        created: Callable[[], Collection[str]],
        unsaid: Callable[[Collection[str]], Collection[str]],
        clock: Callable[[], float],
    ) -> None:
        """
        Args:
            loops: the names of all loops of workers that live and are not stopped.
            created: tasks that were created.
            unsaid: keys of messages to these tasks that are still to be posted.
        """
        self._board, self._limits, self._queue = board, limits, queue
        self._loops, self._created, self._unsaid, self._clock = loops, created, unsaid, clock
        self._idle_since: int | None = None
        self._stuck_after = round(limits.stuck_after * MICROS_PER_SECOND)

    def run(self, stop: threading.Event, tell: Callable[[list[Seen], Collection[str]], None]) -> Drained:
        """Wait; ``stop`` interrupts."""
        began = self._clock()
        quiet = shown = 0
        ended = "deadline"
        while True:
            if self._board.shown != shown:
                shown = self._board.shown
                self._watch_idle()
                unfinished, unsaid = self._unfinished(), self._unsaid(self._created())
                quiet = 0 if unfinished or unsaid else quiet + 1
                tell(unfinished, unsaid)
                if quiet >= QUIET_SAMPLES:
                    ended = "quiet"
                    break
                if unfinished and not unsaid and all(self._is_stuck(one) for one in unfinished):
                    ended = "stuck"
                    break
            passed = self._clock() - began
            if passed >= self._limits.hard or (passed >= self._limits.soft and not self._moves()):
                break
            if stop.wait(LOOK_SECONDS):
                ended = "interrupted"
                break
        return Drained(
            ended,
            self._clock() - began,
            tuple(self._as_unfinished(one) for one in self._unfinished()),
            tuple(self._unsaid(self._created())),
            {} if self._idle_since is None else {self._queue: self._idle_since},
            self._stuck_after,
        )

    def _unfinished(self) -> list[Seen]:
        return [one for one in self._board.all().values() if not one.rests and not self._is_left_alone(one)]

    def _is_left_alone(self, seen: Seen) -> bool:
        """It rests beside items that have not ended its wait for so long: whether one of them should have is for the
        law to say."""
        since = self._board.still_since(seen.sample.task)
        return seen.would_rest and since is not None and self._board.store_time - since > self._stuck_after

    def _watch_idle(self) -> None:
        """Note since when, at every sample, some loop of a living worker held nothing."""
        held = self._board.held()
        has_room = any(loop not in held for loop in self._loops())
        if not has_room:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = self._board.store_time

    def _is_stuck(self, seen: Seen) -> bool:
        """Due and unclaimed for longer than the stated time beside an idle worker."""
        due = self._due(seen)
        if due is None or self._idle_since is None:
            return False
        return self._board.store_time - max(due, self._idle_since) > self._stuck_after

    def _due(self, seen: Seen) -> int | None:
        row = seen.sample
        if row.status is Status.PENDING:
            return seen.ready_at
        if row.status is Status.SUSPENDED and not row.kept:
            # With an unread item, or waiting for what nobody will send: the law tells which. Since its last change.
            return seen.ready_at if isinstance(row.wake_on, TimerFired) else self._board.still_since(row.task)
        return None if seen.lease_until is None else seen.lease_until + REST_AFTER_TAKEOVERS

    def _moves(self) -> bool:
        now = self._board.store_time
        last = [self._board.still_since(one.sample.task) or now for one in self._unfinished()]
        return any(now - at <= self._stuck_after for at in last)

    def _as_unfinished(self, seen: Seen) -> Unfinished:
        row = seen.sample
        still = self._board.store_time - (self._board.still_since(row.task) or self._board.store_time)
        pace = "slow" if still <= self._stuck_after else "stuck"
        status = "kept" if row.kept else row.status.value
        return Unfinished(row.task, status, row.last_seq, round(still / MICROS_PER_SECOND, 1), pace)
