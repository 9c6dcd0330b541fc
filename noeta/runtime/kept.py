"""Tasks that rest while this process keeps their claims, because it holds something alive for them.

The keeper renews such a claim like any other. The task is driven again, under the same epoch, once a job of it has
ended, its timer is due, or something came for it: by whichever loop of the process is free first. For what needs no
loop, a busy process has time all the same (``take_unheard``). Keeps: never-stuck.
"""

from __future__ import annotations

from typing import Final

from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.wake import WakeCondition, due_at
from noeta.core.world import Event, World
from noeta.runtime.dispatcher import Lease

RESUME_PAUSE_SECONDS: Final = 0.5
"""How long a task is left alone that could not be resumed: the store was out of reach."""

UNHEARD_SECONDS: Final = 1.0
"""How long a loop has to take what is ready: after that, none is free."""


class KeptTasks:
    """The kept claims of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leases: dict[tuple[str, str], Lease] = {}
        self._not_before: dict[tuple[str, str], float] = {}
        self._ready_since: dict[tuple[str, str], float] = {}
        self._heard: Event = world.event()

    def put(self, lease: Lease, *, pause: float = 0.0) -> None:
        """The task of this lease rests, and its claim is kept. ``pause``: seconds before which it is not taken."""
        if pause:
            self._not_before[lease.held.key] = self._world.monotonic() + pause
        self._leases[lease.held.key] = lease

    def take(self) -> Lease | None:
        """One that is to be driven again, or whose claim is lost; nobody else gets it. None: all may rest."""
        if self._heard.is_set():
            self._heard = self._world.event()
        ready = (key for key, lease in list(self._leases.items()) if self._is_ready(lease))
        return next((lease for key in ready if (lease := self._pop(key)) is not None), None)

    def take_unheard(self) -> Lease | None:
        """One that was ready a while ago, that no loop has had time for, and that needs none: it is to end, or nothing
        is alive any more that its claim is kept for; nobody else gets it."""
        now = self._world.monotonic()
        for key, lease in list(self._leases.items()):
            held = lease.held
            if not self._is_ready(lease):
                self._ready_since.pop(key, None)
            elif now - self._ready_since.setdefault(key, now) >= UNHEARD_SECONDS:
                is_idle = held.jobs is None or not held.jobs.live()
                if is_idle or held.ordered_at is not None or held.lost is not None:
                    return self._pop(key)
        return None

    def take_all(self) -> list[Lease]:
        """Every one, for a process that stops."""
        return [lease for key in list(self._leases) if (lease := self._pop(key)) is not None]

    def heard(self) -> None:
        """Something came for one of them, or its claim is lost: who waits for that looks."""
        self._heard.set()

    def events(self) -> list[Event]:
        """What an idle loop waits for besides its next look."""
        jobs = [lease.held.jobs for lease in list(self._leases.values()) if not self._wait(lease)]
        return [self._heard, *(one.changed for one in jobs if one is not None)]

    def pause(self, most: float) -> float:
        """How long an idle loop may wait, in seconds: until the first timer is due by the store's clock."""
        waits = [most]
        for lease in list(self._leases.values()):
            now, due, wait = lease.held.store_now(), _due(lease), self._wait(lease)
            if now is not None and due is not None:
                waits.append(max(wait, (due - now) / MICROS_PER_SECOND))
            elif wait:
                waits.append(wait)
        return max(0.0, min(waits))

    def __bool__(self) -> bool:
        return bool(self._leases)

    def _pop(self, key: tuple[str, str]) -> Lease | None:
        """None: somebody else was faster."""
        lease = self._leases.pop(key, None)
        if lease is not None:
            self._not_before.pop(key, None)
            self._ready_since.pop(key, None)
        return lease

    def _wait(self, lease: Lease) -> float:
        """How long it is to be left alone, in seconds."""
        return max(0.0, self._not_before.get(lease.held.key, 0.0) - self._world.monotonic())

    def _is_ready(self, lease: Lease) -> bool:
        held = lease.held
        if self._wait(lease) and held.lost is None:
            return False
        if held.heard or held.lost is not None or (held.jobs is not None and held.jobs.ended()):
            return True
        now, due = held.store_now(), _due(lease)
        return now is not None and due is not None and now >= due


def _due(lease: Lease) -> int | None:
    wake_on: WakeCondition | None = lease.held.rests_on
    at = None if wake_on is None else due_at(wake_on)
    return None if at is None else micros(at)
