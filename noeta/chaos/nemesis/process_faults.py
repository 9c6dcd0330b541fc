"""Faults of processes: killed, killed all together, stopped and resumed, told to end, with a clock that is off."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from invariants.evidence import Attempt
from noeta.chaos.cluster import EXIT_SECONDS, Worker
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.record import FaultLine
from noeta.chaos.orders import SelfStrike
from noeta.chaos.schedule import Fault, Kind
from noeta.core.ids import MICROS_PER_SECOND

OVERDUE_SECONDS: Final = 2.0
"""So long after its end at the latest, a pause is ended by a clock that asks nobody."""

STOP_SECONDS_MAX: Final = 2.0
"""How long the kernel may take to have a process stopped or dead."""

LOOK_SECONDS: Final = 0.005

SKEW_LOOK_SECONDS: Final = 0.3
SKEW_SIGHTINGS: Final = 2
"""Lines that show a clock off. One alone could be of a process that was stopped between its look and its write."""

SKEW_SLACK_SECONDS: Final = 0.5
"""Between a process's look at its clock and its write, on a machine under load."""

SKEW_TAIL_BYTES: Final = 1 << 16


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
    """A process that is stopped until somebody has taken a claim of it over, and then goes on as if nothing were.

    One that was stopped in the middle of a commit may keep everybody else out of a store in a file: then all workers
    are hit, nobody can take over, and there is nothing to wait for. It may even keep the nemesis itself waiting, where
    a store's wait for its lock has no bound: so a timer of its own ends every pause.
    """

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
        self._keeps_out = False
        arena.paused.add(worker.process)
        overdue = self._until_max - self._since + OVERDUE_SECONDS
        self._alarm = threading.Timer(overdue, worker.signal, (signal.SIGCONT,))
        self._alarm.daemon = True
        self._alarm.start()
        self.tick(self._since)

    def tick(self, now: float) -> bool:
        """Resume it in time; over once it has had one answer of the store since, or is gone."""
        if self._answers_before is not None:
            answered = self._arena.cluster.answers(self._worker) > self._answers_before
            return answered or not self._worker.is_running
        victim = self._victim
        victim.look(self._arena.claims, now)
        self._look_who_is_kept_out()
        held = _ordered(victim.held.union(self._line.held))
        self._write(held=held, taken_over=_ordered(victim.taken))
        nothing_to_wait_for = self._keeps_out or (victim.cut is not None and (not victim.cut or bool(victim.taken)))
        if not self._worker.is_running or (now >= self._until and (nothing_to_wait_for or now >= self._until_max)):
            self.heal(now)
        return False

    def _look_who_is_kept_out(self) -> None:
        """All workers, with all they hold, once it is seen to hold the lock of the store."""
        arena = self._arena
        if not self._keeps_out and arena.keeps_out(self._worker.pid):
            self._keeps_out = True
            facts = {**self._line.facts, "keeps_out": "everybody: it holds the lock of the store"}
            held = _ordered(arena.held_by_all().union(self._line.held))
            self._write(workers=arena.all_loops(), held=held, facts=facts)

    def heal(self, now: float) -> None:
        """SIGCONT."""
        if self._answers_before is not None:
            return
        self._answers_before = self._arena.cluster.answers(self._worker)
        effective = self._worker.is_running and bool(self._victim.taken)
        self._write(ended_at=self._arena.wall(), effective=effective)
        self._alarm.cancel()
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
    """A worker whose clock is off for the whole storm. Effective once its own record shows it: lines that it dated
    as far off as it was told."""

    def __init__(self, arena: Arena, fault: Fault) -> None:
        self._arena, self._name, self._seconds = arena, fault.target, fault.seconds("seconds")
        self._sightings: set[int] = set()
        self._look_at = 0.0
        arena.skew(self._name, self._seconds)
        self._line = arena.line(
            Kind.SKEW, arena.cluster.workers[self._name], fault=fault.id, facts={"seconds": self._seconds}
        )
        arena.record.write(self._line)

    def tick(self, now: float) -> bool:
        """Over when it is healed; until then its record is looked at now and then."""
        if self._line.ended_at is not None:
            return True
        if not self._is_seen and now >= self._look_at:
            self._look_at = now + SKEW_LOOK_SECONDS
            self._look()
        return False

    def heal(self, now: float) -> None:
        """Set the clock right."""
        if self._line.ended_at is None:
            self._arena.skew(self._name, 0.0)
            self._write(ended_at=self._arena.wall(), effective=self._is_seen)

    def _write(self, **changes: Any) -> None:
        self._line = msgspec.structs.replace(self._line, **changes)
        self._arena.record.write(self._line)

    @property
    def _is_seen(self) -> bool:
        return len(self._sightings) >= SKEW_SIGHTINGS

    def _look(self) -> None:
        found = clock_off(self._arena.attempts(self._arena.cluster.workers[self._name]))
        if found is not None and abs(found[1] - self._seconds) < min(SKEW_SLACK_SECONDS, abs(self._seconds) / 2):
            self._sightings.add(found[0])
            if self._is_seen:
                self._write(effective=True)


def clock_off(attempts: Path) -> tuple[int, float] | None:
    """How many seconds the clock of a process was off when it wrote the last line of its record, after the instant
    (nanoseconds) at which this machine says that the file was written. None: no whole line, or one came meanwhile."""
    try:
        with attempts.open("rb") as file:
            before = os.fstat(file.fileno())
            file.seek(max(0, before.st_size - SKEW_TAIL_BYTES))
            *_, last, rest = b"\n", *file.read().split(b"\n")
            after = os.fstat(file.fileno())
        attempt = msgspec.json.decode(last, type=Attempt)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    if rest or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return None
    dated = attempt.sent_at if attempt.answered_at is None else attempt.answered_at
    return after.st_mtime_ns, dated / MICROS_PER_SECOND - after.st_mtime_ns / 1e9


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


def pause(arena: Arena, worker: Worker, fault: Fault, *, may_keep_out: bool) -> Paused | None:
    """SIGSTOP; None if it is dead, or if it went on at once because it would have kept everybody out and may not."""
    if not worker.signal(signal.SIGSTOP) or not await_stop(worker):
        return None
    if not may_keep_out and arena.keeps_out(worker.pid):
        worker.signal(signal.SIGCONT)
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
