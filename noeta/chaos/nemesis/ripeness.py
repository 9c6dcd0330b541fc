"""Whether a fault can strike now, and whether its target is at work, so that the strike may hurt."""

from __future__ import annotations

from typing import Final

from noeta.chaos.cluster import Worker
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.schedule import Fault, Kind

WARMED_UP_ANSWERS: Final = 15
"""Answers of the store after which a worker counts as at work. A strike that lies in wait for a new process hits it
otherwise at its first claims, which are model calls: task after task would only ever be struck there."""


def is_possible(arena: Arena, fault: Fault) -> bool:
    """Whether there is something to strike."""
    match fault.kind:
        case Kind.KILL_ALL:
            return bool(arena.cluster.alive())
        case Kind.DB_RESTART | Kind.DB_KILL:
            # One at a time, the look-back at the one before included.
            return not arena.server_struck
        case Kind.SKEW:
            return True
        case Kind.TERMINATE:
            # Before its first answer nobody in it hears the signal: that would be a kill.
            return _is_up(arena, _target(arena, fault)) and bool(arena.cluster.answers(_target(arena, fault)))
        case _:
            return _is_up(arena, _target(arena, fault))


def is_ripe(arena: Arena, fault: Fault) -> bool:
    """Whether a strike now may hurt."""
    if not is_possible(arena, fault):
        return False
    cluster = arena.cluster
    match fault.kind:
        case Kind.KILL | Kind.RESTART_SAME_NAME:
            return _is_at_work(arena, fault.target)
        case Kind.PAUSE:
            # One at a time: the others must have room to take over, behind whatever else is due.
            return _is_at_work(arena, fault.target) and not arena.paused
        case Kind.KILL_ALL:
            everybody = all(worker.is_running for worker in cluster.workers.values())
            at_work = sum(_is_at_work(arena, name) for name in cluster.config.worker_names)
            return everybody and at_work >= cluster.config.workers / 2
        case _:
            return True


def _is_up(arena: Arena, worker: Worker) -> bool:
    return worker.is_running and worker.process not in arena.paused and worker.process not in arena.accounted


def _is_at_work(arena: Arena, name: str) -> bool:
    worker = arena.cluster.workers[name]
    # Its predecessor's claims carry the same names: only one that has been answered holds any itself.
    if not _is_up(arena, worker) or arena.cluster.answers(worker) < WARMED_UP_ANSWERS:
        return False
    return arena.is_at_work(worker)


def _target(arena: Arena, fault: Fault) -> Worker:
    return arena.cluster.workers[fault.target]
