"""Tasks that rest while this process keeps their claims, because it holds something alive for them.

The keeper renews such a claim like any other. The task is driven again, under the same epoch, once a job of it has
ended, its timer is due, or something came for it: by whichever loop of the process is free first. Keeps: never-stuck.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from noeta.core.errors import Conflict, NoetaError
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.wake import WakeCondition, due_at
from noeta.core.world import Event, World
from noeta.runtime.dispatcher import Dispatcher, Lease

if TYPE_CHECKING:
    from noeta.runtime.process import Process

_log = logging.getLogger("noeta.worker")


class KeptTasks:
    """The kept claims of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leases: dict[tuple[str, str], Lease] = {}
        self._heard: Event = world.event()

    def put(self, lease: Lease) -> None:
        """The task of this lease rests, and its claim is kept."""
        self._leases[lease.held.key] = lease

    def take(self) -> Lease | None:
        """One that is to be driven again, or whose claim is lost; nobody else gets it. None: all may rest."""
        if self._heard.is_set():
            self._heard = self._world.event()
        for key, lease in list(self._leases.items()):
            if self._is_ready(lease) and self._leases.pop(key, None) is not None:
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
        return [self._heard, *(lease.held.jobs.changed for lease in list(self._leases.values()) if lease.held.jobs)]

    def pause(self, most: float) -> float:
        """How long an idle loop may wait, in seconds: until the first timer is due by the store's clock."""
        waits = [most]
        for lease in list(self._leases.values()):
            now, due = lease.held.store_now(), _due(lease)
            if now is not None and due is not None:
                waits.append((due - now) / MICROS_PER_SECOND)
        return max(0.0, min(waits))

    def __bool__(self) -> bool:
        return bool(self._leases)

    def _is_ready(self, lease: Lease) -> bool:
        held = lease.held
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
    all_given_back = True
    for lease in process.kept.take_all():
        stopped = process.stop_jobs(lease.held)
        if stopped and lease.held.lost is None:
            try:
                dispatcher.release(lease)
            except Conflict as error:
                _log.info("task %s: nothing to give back: %s", lease.task_id, error)
            except NoetaError as error:
                _log.warning("task %s could not be released: %s", lease.task_id, error)
                all_given_back = False
        all_given_back &= stopped
        process.drop(lease.held)
    return all_given_back
