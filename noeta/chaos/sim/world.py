"""The handles of one simulated process: its world, and its way to the store. Both are cut when it is killed.

Every blocking or spawning operation is a yield point, like ``point`` itself. A store call has its two yield
points around it (``PointStore``) and none inside: what is sent lands, whatever happens to the sender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, TypeVar

from noeta.backends.stores.around import AroundStore, Call
from noeta.chaos.sim.points import SPAWN, WAIT, WAIT_ANY
from noeta.chaos.sim.scheduler import WALL_START, Activity, SimProcess
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import Store
from noeta.core.world import Event

T = TypeVar("T")


class SimEvent:
    """Implements ``noeta.core.world.Event``."""

    __slots__ = ("_process", "flag", "waiters")

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self.flag = False
        self.waiters: list[tuple[Activity, int]] = []

    def set(self) -> None:
        self._process.check()
        self.fire()

    def fire(self) -> None:
        """``set``, by the scheduler's side: never refused."""
        self.flag = True
        for activity, ticket in self.waiters:
            self._process.scheduler.wake(activity, ticket)
        self.waiters.clear()

    def is_set(self) -> bool:
        self._process.check()
        return self.flag

    def block(self) -> None:
        """Wait without a yield point of its own: inside a store call, which has none."""
        me = self._process.scheduler.running
        assert me is not None and not self.flag
        self._process.scheduler.block(me, [self.waiters], None)

    def wait(self, timeout: float | None = None) -> bool:
        _wait(self._process, WAIT, (self,), timeout)
        return self.flag


class SimSpawned:
    """Implements ``noeta.core.world.Spawned``."""

    __slots__ = ("_done",)

    def __init__(self, process: SimProcess) -> None:
        self._done = SimEvent(process)

    @property
    def done(self) -> SimEvent:
        return self._done


class SimWorld:
    """Implements ``noeta.core.world.World`` for one process of a simulation."""

    def __init__(self, process: SimProcess) -> None:
        self.process = process
        self._scheduler = process.scheduler

    def wall(self) -> float:
        self.process.check()
        return (WALL_START + self._scheduler.now + self.process.wall_offset) / MICROS_PER_SECOND

    def monotonic(self) -> float:
        self.process.check()
        return self._scheduler.now / MICROS_PER_SECOND

    def event(self) -> SimEvent:
        self.process.check()
        return SimEvent(self.process)

    def wait_any(self, events: Sequence[Event], timeout: float | None) -> Event | None:
        mine = [event for event in events if isinstance(event, SimEvent)]
        assert len(mine) == len(events), "an event of another world"
        _wait(self.process, WAIT_ANY, mine, timeout)
        return next((event for event in mine if event.flag), None)

    def spawn(self, name: str, run: Callable[[], None]) -> SimSpawned:
        self.process.check()
        spawned = SimSpawned(self.process)

        def body() -> None:
            try:
                run()
            finally:
                spawned.done.fire()

        self.process.start(name, body)
        self.point(SPAWN, activity=name)
        return spawned

    def random(self, name: str) -> Random:
        self.process.check()
        return self.process.random(name)

    def point(self, name: str, **facts: object) -> None:
        self.process.check()
        self._scheduler.pass_on(self._scheduler.reach(self.process, name, facts))


def _wait(process: SimProcess, name: str, events: Sequence[SimEvent], timeout: float | None) -> None:
    process.check()
    scheduler = process.scheduler
    me = scheduler.reach(process, name, {"timeout": timeout})
    if any(event.flag for event in events):
        scheduler.pass_on(me)
        return
    scheduler.block(me, [event.waiters for event in events], timeout)
    for event in events:  # those that did not end this wait
        event.waiters[:] = [waiter for waiter in event.waiters if waiter[0] is not me]


class Serve(Protocol):
    """The server's side of a call: it knows who asks."""

    def __call__(self, process: SimProcess, call: Call, do: Callable[[], T]) -> T: ...


class ProcessStore(AroundStore):
    """One process's handle on the store that all share; dead with its process."""

    def __init__(self, inner: Store, process: SimProcess, serve: Serve) -> None:
        super().__init__(inner)
        self._process = process
        self._serve = serve

    def around(self, call: Call, do: Callable[[], T]) -> T:
        self._process.check()
        return self._serve(self._process, call, do)

    def close(self) -> None:
        self._process.check()
