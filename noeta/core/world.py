"""The one seam through which everything nondeterministic passes.

Production gives threads and real time; the simulator gives greenlets and virtual time and runs the same
code. Above the store there is no lock, condition, queue, future or pool: only these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol


class ProcessDied(BaseException):
    """This process is cut off: its handles do nothing more. Not an ``Exception``, so no handler tidies up."""


class Event(Protocol):
    """A flag that is set once and can be waited for."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it is set or ``timeout`` seconds passed; whether it is set."""
        ...


class Spawned(Protocol):
    """A running activity; ``done`` is set when it has ended, however it ended."""

    @property
    def done(self) -> Event: ...


class World(Protocol):
    """Clock, waiting, activities, randomness and crash points of one process."""

    def wall(self) -> float:
        """Seconds since the Unix epoch, by this machine's clock: never trusted for leases."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def event(self) -> Event: ...

    def wait_any(self, events: Sequence[Event], timeout: float | None) -> Event | None:
        """Block until one of the events is set (the first in order) or the time is over (None)."""
        ...

    def spawn(self, name: str, run: Callable[[], None]) -> Spawned: ...

    def random(self, name: str) -> Random:
        """A stream of its own for this name."""
        ...

    def point(self, name: str, **facts: object) -> None:
        """A named crash point and yield point."""
        ...
