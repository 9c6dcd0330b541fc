"""Greenlets under virtual time: which activity of which process goes on next, and what the clock says then.

One operating system thread, one activity at a time, control passed only at yield points: so the order of
everything is a function of the picker and of the strikes. Every yield point moves the clock by ``STEP`` and is
one line of the trace. Time otherwise passes only when nobody can go on. The picker is asked which of the ready
activities continues, and what it decided otherwise than first-come-first-served is kept as ``turns``, which repeat
it; the ``on_point`` hook sees every yield point first and may kill or freeze its process.

Assumes that what runs inside never blocks the thread. After FoundationDB's simulation and TigerBeetle's VOPR.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from noeta.chaos.schedule import Turn
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.world import ProcessDied

STEP: Final = 1_000
"""Microseconds that a yield point takes: entries get different times, and nothing takes no time at all."""

WALL_START: Final = 1_700_000_035 * MICROS_PER_SECOND
"""The store's time when the simulation begins, in microseconds since the Unix epoch: five seconds before a full
minute, which is the soonest that a cron table can be due."""

_THROWS_MAX: Final = 100
"""How often a dead activity is told to end before it counts as one that will not."""

Pick = Callable[[Sequence["Activity"]], int]
OnPoint = Callable[["SimProcess", str, Mapping[str, object]], None]


def first_come(ready: Sequence[Activity]) -> int:
    """The picker without chance: who became ready first goes on first."""
    return 0


@dataclass(slots=True)
class Trace:
    """One line per yield point, and the SHA-256 over all of them. ``keep``: the lines themselves, too."""

    keep: bool = False
    lines: list[str] = field(default_factory=list)
    count: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, now: int, process: str, what: str, facts: Mapping[str, object]) -> None:
        """Append a line: time in seconds, process, point, facts."""
        told = "".join(f" {name}={value}" for name, value in facts.items())
        line = f"{now // MICROS_PER_SECOND}.{now % MICROS_PER_SECOND:06d} {process} {what}{told}\n"
        self._hash.update(line.encode("utf-8", "backslashreplace"))
        self.count += 1
        if self.keep:
            self.lines.append(line.rstrip("\n"))

    @property
    def hash(self) -> str:
        """Equal for equal executions."""
        return self._hash.hexdigest()


@dataclass(slots=True, eq=False)
class Activity:
    """A greenlet of a process. ``ticket`` counts its waits, so that an old timer does not end a new wait.

    ``key``: its process and name. ``resumed``: how often activities of this key have gone on. ``passed``: how often
    it was ready since and another was picked.
    """

    name: str
    process: SimProcess
    greenlet: greenlet
    key: str
    ticket: int = 0
    waiting: bool = False
    passed: int = 0


@dataclass(frozen=True, slots=True)
class Crash:
    """An activity that ended with an error nobody caught."""

    process: str
    activity: str
    error: Exception


class SimProcess:
    """One simulated operating system process: what a kill or a freeze hits as a whole.

    ``slot`` is the name that its successors get, too, ``incarnation`` (from 1) tells them apart. ``on_death`` is
    called by the scheduler once the process is dead and its activities are gone, ``at_death`` at the instant at which
    it dies, for what the kernel would tell other processes then. ``wall_offset`` (microseconds) is how wrong its wall
    clock is.
    """

    def __init__(self, scheduler: Scheduler, slot: str, incarnation: int, number: int, wall_offset: int = 0) -> None:
        self.scheduler = scheduler
        self.slot = slot
        self.incarnation = incarnation
        self.name = f"{slot}#{incarnation}"
        self.number = number
        self.wall_offset = wall_offset
        self.alive = True
        self.frozen = False
        self.activities: list[Activity] = []
        self.on_death: Callable[[SimProcess], None] | None = None
        self.at_death: list[Callable[[], None]] = []

    def check(self) -> None:
        """The cut: whatever a dead process still does through its handles has no effect.

        Raises:
            ProcessDied.
        """
        if not self.alive:
            raise ProcessDied(f"the simulated process {self.name} is dead")

    def kill(self) -> None:
        """SIGKILL: cut at once; its activities are ended before anybody else goes on."""
        if self.alive:
            self.alive = False
            self.scheduler.bury(self)
            for call in self.at_death:
                call()

    def die(self) -> None:
        """``kill`` by one of its own activities, which goes no further."""
        self.check()
        self.scheduler.note(self.name, "dies", {})
        self.kill()
        self.scheduler.leave()

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT so many seconds later: its clock goes on, its activities do not."""
        self.frozen = True
        self.scheduler.at(seconds, self._thaw)

    def _thaw(self) -> None:
        self.frozen = False
        self.scheduler.note(self.name, "thaws", {})

    def random(self, name: str) -> Random:
        """A stream that only the seed and the names of process and stream decide."""
        digest = hashlib.sha256(f"{self.scheduler.seed}/{self.name}/{name}".encode()).digest()
        return Random(int.from_bytes(digest, "big"))

    def start(self, name: str, run: Callable[[], None]) -> Activity:
        """A new activity, ready to go; no yield point. See ``SimWorld.spawn`` for what code inside uses."""
        return self.scheduler.start(self, name, run)


class Scheduler:
    """Runs activities until ``halt`` is called, nothing is left to wait for, or a limit is reached."""

    def __init__(self, seed: int | str, *, pick: Pick = first_come, trace: Trace | None = None) -> None:
        self.seed = seed
        self.pick = pick
        self.now = 0
        self.trace = trace if trace is not None else Trace()
        self.on_point: OnPoint = lambda process, name, facts: None
        self.running: Activity | None = None
        self.crashes: list[Crash] = []
        self.halted = False
        self.processes: list[SimProcess] = []
        self.turns: list[Turn] = []
        self.switches = 0
        """How often another activity went on than the one before."""
        self.choices = 0
        """How often more than one activity was ready."""
        self.resumed: Counter[str] = Counter()
        """How often activities of each key have gone on."""
        self._last: Activity | None = None
        self._hub = getcurrent()
        self._ready: list[Activity] = []
        self._timers: list[tuple[int, int, int, Activity | None, Callable[[], None] | None]] = []
        self._timer_count = 0
        self._dead: list[SimProcess] = []

    # -- from outside --------------------------------------------------------------------------------------

    def process(self, slot: str, incarnation: int = 1, *, wall_offset_seconds: float = 0.0) -> SimProcess:
        """A new process without activities."""
        process = SimProcess(self, slot, incarnation, len(self.processes) + 1, micros(wall_offset_seconds))
        self.processes.append(process)
        return process

    def halt(self) -> None:
        """Let nobody go on."""
        self.halted = True

    def run(self, *, seconds_max: float, points_max: int) -> str:
        """Go on until something ends it: ``halted``, ``quiet`` (nobody waits for a time), ``deadline`` (virtual
        seconds) or ``exhausted`` (yield points)."""
        deadline = micros(seconds_max)
        while not self.halted:
            if self.now > deadline:
                return "deadline"
            if self.trace.count > points_max:
                return "exhausted"
            self._fire_due()
            self._end_dead()
            ready = self._eligible()
            if ready:
                self._switch_to(self._chosen(ready))
            elif self._timers:
                self.now = max(self.now, self._timers[0][0])
            else:
                return "quiet"
        return "halted"

    def close(self) -> None:
        """End every process; nothing of the simulation runs afterwards."""
        for process in self.processes:
            process.on_death = None
            process.kill()
        self._end_dead()

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call this when so many seconds have passed, whoever is frozen or dead then."""
        self._timer_count += 1
        heapq.heappush(self._timers, (self.now + micros(seconds), self._timer_count, 0, None, call))

    def note(self, process: str, what: str, facts: Mapping[str, object]) -> None:
        """A line of the trace that is no yield point."""
        self.trace.add(self.now, process, what, facts)

    # -- for worlds ----------------------------------------------------------------------------------------

    def reach(self, process: SimProcess, name: str, facts: Mapping[str, object]) -> Activity:
        """One yield point, reached by the running activity; it comes back alive and not frozen."""
        me = self.running
        assert me is not None and me.process is process, f"{process.name} reached {name} from outside its activities"
        self.now += STEP
        self.trace.add(self.now, process.name, f"{me.name} {name}", facts)
        was_alive = process.alive
        self.on_point(process, name, facts)
        if was_alive and not process.alive:
            self.leave()
        if process.frozen:
            self._pause(me)
        return me

    def pass_on(self, me: Activity) -> None:
        """Let others go first, if there are any."""
        due = self._timers and self._timers[0][0] <= self.now
        if self._ready or due or self._dead or self.halted:
            self._pause(me)

    def block(self, me: Activity, waits: Sequence[list[tuple[Activity, int]]], timeout: float | None) -> None:
        """Go on when ``wake`` is called with what was put into one of these lists, or the time is over."""
        me.ticket += 1
        me.waiting = True
        for waiters in waits:
            waiters.append((me, me.ticket))
        if timeout is not None:
            self._timer_count += 1
            entry = (self.now + max(0, micros(timeout)), self._timer_count, me.ticket, me, None)
            heapq.heappush(self._timers, entry)
        self.leave()

    def wake(self, activity: Activity, ticket: int) -> None:
        """End this wait, if it has not ended."""
        if activity.waiting and activity.ticket == ticket and activity.process.alive:
            activity.waiting = False
            self._ready.append(activity)

    def start(self, process: SimProcess, name: str, run: Callable[[], None]) -> Activity:
        """See ``SimProcess.start``."""

        def body() -> None:
            try:
                run()
            except (ProcessDied, SystemExit):
                pass  # who exits from a thread ends that thread alone, in a real process, too
            except Exception as error:
                if process.alive:
                    self.crashes.append(Crash(process.name, name, error))
            process.activities.remove(activity)

        activity = Activity(name, process, greenlet(body, parent=self._hub), f"{process.name}/{name}")
        process.activities.append(activity)
        self._ready.append(activity)
        return activity

    def bury(self, process: SimProcess) -> None:
        """Take a dead process's activities out of the schedule."""
        self._dead.append(process)
        self._ready = [activity for activity in self._ready if activity.process is not process]

    def leave(self) -> None:
        """Give control back without being ready."""
        self._hub.switch()

    # -- the hub -------------------------------------------------------------------------------------------

    def _pause(self, me: Activity) -> None:
        self._ready.append(me)
        self.leave()

    def _eligible(self) -> list[Activity]:
        return [activity for activity in self._ready if not activity.process.frozen]

    def _chosen(self, ready: Sequence[Activity]) -> Activity:
        if len(ready) == 1:
            return ready[0]
        self.choices += 1
        place = self.pick(ready)
        chosen = ready[place]
        if place:
            self.turns.append(Turn(chosen.key, self.resumed[chosen.key] + 1, chosen.passed))
        for other in ready:
            other.passed += 1
        return chosen

    def _switch_to(self, activity: Activity) -> None:
        self._ready.remove(activity)
        self.resumed[activity.key] += 1
        activity.passed = 0
        if activity is not self._last:
            self.switches += 1
            self._last = activity
        self.running = activity
        activity.greenlet.switch()
        self.running = None

    def _fire_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            _, _, ticket, activity, call = heapq.heappop(self._timers)
            if activity is not None:
                self.wake(activity, ticket)
            elif call is not None:
                call()

    def _end_dead(self) -> None:
        """Unwind what is left of dead processes. Their handles are cut, so no ``finally`` reaches anything."""
        while self._dead:
            process = self._dead.pop(0)
            for activity in list(process.activities):
                self._unwind(activity)
            process.activities.clear()
            if process.on_death is not None:
                process.on_death(process)

    def _unwind(self, activity: Activity) -> None:
        """An activity that was never begun has nothing to unwind, and is dropped."""
        self.running = activity
        for _ in range(_THROWS_MAX):
            if not activity.greenlet:
                break
            activity.greenlet.throw(ProcessDied("killed"))
        else:
            raise AssertionError(f"{activity.process.name}/{activity.name} does not end although its process is dead")
        self.running = None
