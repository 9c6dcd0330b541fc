"""A world with some of its clocks replaced: the ``clock`` and ``now_fn`` seams of the worker loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from noeta.core.world import Event, Spawned, World


class SeamWorld:
    """Another world, except for the clocks given."""

    def __init__(
        self,
        inner: World,
        *,
        monotonic: Callable[[], float] | None = None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._inner = inner
        self._monotonic = monotonic or inner.monotonic
        self._wall = wall or inner.wall

    def wall(self) -> float:
        return self._wall()

    def monotonic(self) -> float:
        return self._monotonic()

    def event(self) -> Event:
        return self._inner.event()

    def wait_any(self, events: Sequence[Event], timeout: float | None) -> Event | None:
        return self._inner.wait_any(events, timeout)

    def spawn(self, name: str, run: Callable[[], None]) -> Spawned:
        return self._inner.spawn(name, run)

    def random(self, name: str) -> Random:
        return self._inner.random(name)

    def point(self, name: str, **facts: object) -> None:
        self._inner.point(name, **facts)
