"""Tasks that rest while this process keeps their claims, because it holds something alive for them.

The keeper renews such a claim like any other. The task is driven again, under the same epoch, once a job of it has
ended, its timer is due, or something came for it: by whichever loop of the process is free first. Keeps: never-stuck.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from noeta.core.errors import Conflict, NoetaError
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.wake import WakeCondition, due_at
from noeta.core.world import Event, World
from noeta.runtime.dispatcher import Dispatcher, Lease

if TYPE_CHECKING:
    from noeta.runtime.process import Process

RESUME_PAUSE_SECONDS: Final = 0.5
"""How long a task is left alone that could not be resumed: the store was out of reach."""

_log = logging.getLogger("noeta.worker")


class KeptTasks:
    """The kept claims of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leases: dict[tuple[str, str], Lease] = {}
        self._not_before: dict[tuple[str, str], float] = {}
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
        for key, lease in list(self._leases.items()):
            if self._is_ready(lease) and self._leases.pop(key, None) is not None:
                self._not_before.pop(key, None)
                return lease
        return None

    def take_all(self) -> list[Lease]:
        """Every one, for a process that stops."""
        taken = [self._leases.pop(key, None) for key in list(self._leases)]
        return [lease for lease in taken if lease is not None]

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


def give_back(process: Process, dispatcher: Dispatcher) -> bool:
    """A process that stops: end what it holds alive, then release every kept claim, so that the tasks may be claimed at
    once; whether all were given back. What would not end is left to its lease, with its claim."""
    leases = process.kept.take_all()
    stopped: dict[tuple[str, str], bool] = {}

    def stop(lease: Lease) -> Callable[[], None]:
        return lambda: stopped.update({lease.held.key: process.stop_jobs(lease.held)})

    # At once: each may take the whole grace of a shell that ignores SIGTERM.
    for spawned in [process.world.spawn(f"stop the jobs of {lease.task_id}", stop(lease)) for lease in leases]:
        spawned.done.wait()
    all_given_back = True
    for lease in leases:
        is_stopped = stopped.get(lease.held.key, False)
        if is_stopped and lease.held.lost is None:
            try:
                dispatcher.release(lease)
            except Conflict as error:
                _log.info("task %s: nothing to give back: %s", lease.task_id, error)
            except NoetaError as error:
                _log.warning("task %s could not be released: %s", lease.task_id, error)
                all_given_back = False
        all_given_back &= is_stopped
        process.drop(lease.held)
    return all_given_back
