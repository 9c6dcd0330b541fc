"""Faults of processes: killed, killed all together, stopped and resumed, told to end, with a clock that is off."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from noeta.chaos.cluster import EXIT_SECONDS, Worker
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.record import FaultLine
from noeta.chaos.orders import SelfStrike
from noeta.chaos.schedule import Fault, Kind

STOP_SECONDS_MAX: Final = 2.0
"""How long the kernel may take to have a process stopped or dead."""

LOOK_SECONDS: Final = 0.005


class Down:
    """A process that is dead, however it died: what it held, its successor, and who took its claims over."""

    def __init__(
        self,
        arena: Arena,
        worker: Worker,
        kind: str,
        *,
        respawn_seconds: float,
        fault: str | None = None,
        by_itself: SelfStrike | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._arena, self._worker = arena, worker
        self._victim = arena.victim(worker)
        self._respawn_at = time.monotonic() + respawn_seconds
        self._line = arena.line(kind, worker, fault=fault, facts=facts or {})
        if by_itself is not None:
            self._line = msgspec.structs.replace(self._line, point=by_itself.point, facts=by_itself.facts)
        arena.accounted.add(worker.process)
        arena.cluster.reap(worker)
        self.tick(time.monotonic())

    def tick(self, now: float) -> bool:
        """Learn what it held; start its successor; learn who took over."""
        victim = self._victim
        was_seen = victim.is_seen
        victim.look(self._arena.claims, now)
        if not was_seen and victim.is_seen:
            self._arena.remember(self._worker, victim.held)
        if self._line.ended_at is None and now >= self._respawn_at:
            self._respawn()
        effective = True if victim.taken else False if victim.cut is not None and not victim.cut else None
        self._write(held=_ordered(victim.held), taken_over=_ordered(victim.taken), effective=effective)
        return victim.is_settled and self._line.ended_at is not None

    def heal(self, now: float) -> None:
        """Let it live again."""
        self._respawn_at = now

    def _respawn(self) -> None:
        name = self._worker.name
        if self._arena.cluster.workers[name] is self._worker:
            self._arena.cluster.spawn(name)
        self._write(ended_at=self._arena.wall())

    def _write(self, **changes: Any) -> None:
        self._line = msgspec.structs.replace(self._line, **changes)
        self._arena.record.write(self._line)


class Paused:
    """A process that is stopped until somebody has taken a claim of it over, and then goes on as if nothing were."""

    def __init__(
        self,
        arena: Arena,
        worker: Worker,
        *,
        seconds: float,
        seconds_max: float,
        fault: str | None = None,
        by_itself: SelfStrike | None = None,
    ) -> None:
        self._arena, self._worker = arena, worker
        self._victim = arena.victim(worker)
        self._since = time.monotonic()
        self._until, self._until_max = self._since + seconds, self._since + max(seconds, seconds_max)
        self._line = arena.line(Kind.PAUSE, worker, fault=fault)
        if by_itself is not None:
            self._line = msgspec.structs.replace(self._line, point=by_itself.point, facts=by_itself.facts)
        self._answers_before: int | None = None
        arena.paused.add(worker.process)
        self.tick(self._since)

    def tick(self, now: float) -> bool:
        """Resume it in time; over once it has had one answer of the store since, or is gone."""
        if self._answers_before is not None:
            answered = self._arena.cluster.answers(self._worker) > self._answers_before
            return answered or not self._worker.is_running
        victim = self._victim
        victim.look(self._arena.claims, now)
        self._write(held=_ordered(victim.held), taken_over=_ordered(victim.taken))
        nothing_to_wait_for = victim.cut is not None and (not victim.cut or bool(victim.taken))
        if not self._worker.is_running or (now >= self._until and (nothing_to_wait_for or now >= self._until_max)):
            self.heal(now)
        return False

    def heal(self, now: float) -> None:
        """SIGCONT."""
        if self._answers_before is not None:
            return
        self._answers_before = self._arena.cluster.answers(self._worker)
        effective = self._worker.is_running and bool(self._victim.taken)
        self._write(ended_at=self._arena.wall(), effective=effective)
        self._worker.signal(signal.SIGCONT)
        self._arena.paused.discard(self._worker.process)

    def _write(self, **changes: Any) -> None:
        self._line = msgspec.structs.replace(self._line, **changes)
        self._arena.record.write(self._line)


class Told:
    """A process that was told to end: it gives its tasks back, and its successor begins once it is gone."""

    def __init__(self, arena: Arena, worker: Worker, *, fault: str | None = None) -> None:
        self._arena, self._worker = arena, worker
        self._victim = arena.victim(worker)
        self._victim.look(arena.claims, time.monotonic())
        self._line = arena.line(Kind.TERMINATE, worker, fault=fault, held=_ordered(self._victim.held))
        arena.record.write(self._line)
        arena.accounted.add(worker.process)
        self._deadline = time.monotonic() + arena.cluster.config.grace_seconds + EXIT_SECONDS
        self._was_killed = False
        worker.signal(signal.SIGTERM)

    def tick(self, now: float) -> bool:
        """Wait for its end, at most a bound; over once its successor runs."""
        if self._worker.is_running:
            if now >= self._deadline:
                self._was_killed = True
                self._worker.signal(signal.SIGKILL)
            return False
        cluster = self._arena.cluster
        cluster.reap(self._worker)
        self._arena.remember(self._worker, self._victim.held)
        if cluster.workers[self._worker.name] is self._worker:
            cluster.spawn(self._worker.name)
        code = self._worker.child.returncode
        ended = not self._was_killed and code in (0, 1)
        self._line = msgspec.structs.replace(
            self._line, ended_at=self._arena.wall(), effective=ended, facts={"exit_code": code}
        )
        self._arena.record.write(self._line)
        return True

    def heal(self, now: float) -> None:
        """It ends by itself, or at its bound."""


class Skewed:
    """A worker whose clock is off for the whole storm."""

    def __init__(self, arena: Arena, fault: Fault) -> None:
        self._arena, self._name = arena, fault.target
        arena.skew(fault.target, fault.seconds("seconds"))
        self._line = arena.line(
            Kind.SKEW, arena.cluster.workers[fault.target], fault=fault.id, facts={"seconds": fault.seconds("seconds")}
        )
        arena.record.write(self._line)

    def tick(self, now: float) -> bool:
        """Over when it is healed."""
        return self._line.ended_at is not None

    def heal(self, now: float) -> None:
        """Set the clock right."""
        if self._line.ended_at is None:
            self._arena.skew(self._name, 0.0)
            self._line = msgspec.structs.replace(self._line, ended_at=self._arena.wall(), effective=True)
            self._arena.record.write(self._line)


def kill(arena: Arena, worker: Worker, kind: str, *, fault: str, respawn_seconds: float) -> Down | None:
    """SIGKILL; None if it was dead already."""
    if not _send(worker, signal.SIGKILL):
        return None
    arena.paused.discard(worker.process)
    return Down(arena, worker, kind, fault=fault, respawn_seconds=respawn_seconds)


def kill_all(arena: Arena, *, fault: str, respawn_seconds: float) -> list[Down]:
    """SIGKILL to every worker before anybody's end is looked at."""
    workers = [worker for worker in arena.cluster.workers.values() if worker.is_running]
    struck = [worker for worker in workers if worker.signal(signal.SIGKILL)]
    for worker in struck:
        _await_end(worker)
        arena.paused.discard(worker.process)
    return [Down(arena, worker, Kind.KILL_ALL, fault=fault, respawn_seconds=respawn_seconds) for worker in struck]


def pause(arena: Arena, worker: Worker, fault: Fault) -> Paused | None:
    """SIGSTOP; None if it is dead."""
    if not worker.signal(signal.SIGSTOP) or not await_stop(worker):
        return None
    return Paused(
        arena, worker, seconds=fault.seconds("seconds"), seconds_max=fault.seconds("seconds_max"), fault=fault.id
    )


def await_stop(worker: Worker) -> bool:
    """Wait until the kernel has it stopped; False if it is dead instead."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while worker.is_running and time.monotonic() < deadline:
        if worker.is_stopped:
            return True
        time.sleep(LOOK_SECONDS)
    return False


def _send(worker: Worker, number: signal.Signals) -> bool:
    return worker.signal(number) and _await_end(worker)


def _await_end(worker: Worker) -> bool:
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while worker.is_running:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{worker.process} (process {worker.pid}) does not end on SIGKILL")
        time.sleep(LOOK_SECONDS)
    return True


def _ordered(held: Any) -> tuple[Any, ...]:
    return tuple(sorted(held, key=lambda claim: (claim.task, claim.epoch)))


__all__ = ["Down", "FaultLine", "Paused", "Skewed", "Told", "await_stop", "kill", "kill_all", "pause"]
