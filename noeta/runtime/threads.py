"""The production world: threads, real clocks, real randomness. The only file above the stores that uses them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from random import Random

from noeta.core.world import Event, ProcessDied

_log = logging.getLogger("noeta.world")


class ThreadEvent:
    """Implements ``noeta.core.world.Event``; several can be waited for at once."""

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[threading.Event] = []

    def set(self) -> None:
        with self._lock:
            self._flag.set()
            for listener in self._listeners:
                listener.set()

    def is_set(self) -> bool:
        return self._flag.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._flag.wait(timeout)

    def listen(self, listener: threading.Event) -> None:
        """Set this listener too, now or when the event is set."""
        with self._lock:
            self._listeners.append(listener)
            if self._flag.is_set():
                listener.set()

    def forget(self, listener: threading.Event) -> None:
        """Undo ``listen``."""
        with self._lock:
            self._listeners.remove(listener)


class ThreadSpawned:
    """Implements ``noeta.core.world.Spawned``."""

    def __init__(self) -> None:
        self.done: Event = ThreadEvent()


class ThreadWorld:
    """Implements ``noeta.core.world.World``. Crash points do nothing here; the harness's world gives them teeth."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = int.from_bytes(os.urandom(16)) if seed is None else seed

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def event(self) -> Event:
        return ThreadEvent()

    def wait_any(self, events: Sequence[Event], timeout: float | None) -> Event | None:
        mine = [event for event in events if isinstance(event, ThreadEvent)]
        assert len(mine) == len(events), f"an event of another world cannot be waited for here: {events}"
        first = next((event for event in events if event.is_set()), None)
        if first is not None:
            return first
        wake = threading.Event()
        for event in mine:
            event.listen(wake)
        try:
            wake.wait(timeout)
        finally:
            for event in mine:
                event.forget(wake)
        return next((event for event in events if event.is_set()), None)

    def spawn(self, name: str, run: Callable[[], None]) -> ThreadSpawned:
        spawned = ThreadSpawned()

        def body() -> None:
            try:
                run()
            except ProcessDied:
                pass  # this process is cut off: nothing to tidy up, as after SIGKILL
            except Exception:
                _log.exception("activity %s ended with an error", name)
            finally:
                spawned.done.set()

        threading.Thread(target=body, name=name, daemon=True).start()
        return spawned

    def random(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")

    def point(self, name: str, **facts: object) -> None:
        pass
