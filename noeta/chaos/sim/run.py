"""One execution: the real worker loop on one store, clients that talk to it, strikes, and the verdict.

A process that dies is replaced by the next of its name, like a supervisor does it; a paused worker gets company, if
the strike says so. The run ends when nothing is left to do and every living worker has looked and found nothing.
Then the laws judge what was left behind, and three findings of the simulator's own join them: a dead process
that reached the store, an activity that ended with an error, a run that came to no end.

Whoever decides (a seed, a search, a schedule), what was decided comes back as a schedule that repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import msgspec

from invariants import RunFacts, check_all, gather
from invariants.evidence import Attempt, FaultSeen, Held, JobLine, LogEntry
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.schedule import CLIENT, After, Fault, Kind, Play, Schedule, Turn
from noeta.chaos.sim import picks
from noeta.chaos.sim.cast import Cast
from noeta.chaos.sim.client import Client
from noeta.chaos.sim.result import Result, situations, verdict_of
from noeta.chaos.sim.scheduler import WALL_START, Pick, Scheduler, SimProcess, Trace
from noeta.chaos.sim.scripts import LEASE_SECONDS
from noeta.chaos.sim.server import MakeStore, Server
from noeta.chaos.sim.simworker import SimWorker, start_worker
from noeta.chaos.sim.strikes import Plan, Strike, can_hit, nothing
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.store import Claim
from scripted_model.script import SUBTASK_DEPTH_MAX
from scripted_model.seeds import Stream

SECONDS_MAX: Final = 100 * LEASE_SECONDS
"""Virtual seconds after which a run that goes on is stuck: a script's own deaths cost a few leases."""

POINTS_MAX: Final = 50_000
"""Yield points after which a run that goes on is looping."""

WORKERS_MAX: Final = 50
"""Processes after which nobody replaces a dead worker: killers need a dozen."""


class Playable(Protocol):
    """What makes a cast anew for every execution."""

    @property
    def name(self) -> str: ...

    def cast(self) -> Cast: ...


@dataclass(slots=True)
class Execution:
    """One run of a case.

    ``workers``: how many run from the beginning. ``turns``: switches to repeat, instead of ``pick``. ``skews``: how
    wrong the wall clock of a worker name is, in seconds. ``excuses``: enough strikes can come to push a task into a
    bound; without, every outcome must be the one foretold.
    """

    case: Playable
    plan: Plan = nothing
    seed: int | str = 0
    pick: Pick | None = None
    turns: Sequence[Turn] = ()
    workers: int = 1
    trace: Trace = field(default_factory=Trace)
    skews: Mapping[str, float] = field(default_factory=dict)
    excuses: bool = False
    make_store: MakeStore | None = None
    scheduler: Scheduler = field(init=False)
    server: Server = field(init=False)
    cast: Cast = field(init=False)
    client: Client = field(init=False)
    points: list[str] = field(init=False, default_factory=list)
    client_points: list[str] = field(init=False, default_factory=list)
    strikes_made: int = field(init=False, default=0)
    struck: list[str] = field(init=False, default_factory=list)
    struck_faults: list[Fault] = field(init=False, default_factory=list)
    faults: list[FaultSeen] = field(init=False, default_factory=list)
    log: tuple[LogEntry, ...] = field(init=False, default=())
    _clients: list[Client] = field(init=False, default_factory=list)
    _claiming: dict[str, int | None] = field(init=False, default_factory=dict)
    _alive: list[SimProcess] = field(init=False, default_factory=list)
    _started: dict[str, int] = field(init=False, default_factory=dict)
    _respawns: dict[str, float] = field(init=False, default_factory=dict)
    _passed: dict[tuple[str, str], int] = field(init=False, default_factory=dict)
    _idle_since: dict[str, int] = field(init=False, default_factory=dict)
    _looked: set[str] = field(init=False, default_factory=set)
    _workers: dict[str, SimWorker] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed, trace=self.trace)
        self.scheduler.pick = self.pick or picks.replay(self.turns, self.scheduler)
        self.scheduler.on_point = self._on_point
        self.server = Server(self.scheduler, self.make_store or MemoryStore)
        self.server.on_empty_claim = self._found_nothing
        self.server.on_work = self._worked
        self.server.on_grant = self._granted
        self.cast = self.case.cast()

    def run(self) -> Result:
        """Play, judge, and end every process."""
        try:
            self._start_client(1)
            for number in range(1, self.workers + 1):
                self._start_worker(f"w{number}")
            ended = self.scheduler.run(seconds_max=SECONDS_MAX, points_max=POINTS_MAX)
            return self._judged(ended)
        finally:
            self.scheduler.close()
            self.server.store.close()

    # -- what may happen to processes ----------------------------------------------------------------------

    def strike(self, process: SimProcess, point: str, strike: Strike) -> bool:
        """Hit this process at this point, and note what it held; False if there was nothing to hit."""
        if not can_hit(strike.kind, point) or (strike.kind is Kind.SAY and not self.client.may_say):
            return False
        self.struck.append(point)
        n = self._passed[process.name, point]
        self.struck_faults.append(strike.fault(len(self.struck_faults) + 1, process, point, n))
        self.scheduler.note(process.name, f"STRUCK {strike.kind}", {"seconds": strike.seconds})
        if strike.kind is not Kind.SAY:
            ends = None if strike.kind is Kind.KILL else self.server.now + micros(strike.seconds)
            self._fault(process, strike.kind, ends)
            if process.name in self._claiming:
                self._claiming[process.name] = len(self.faults) - 1
        match strike.kind:
            case Kind.SAY:
                self.client.say_next()
            case Kind.KILL:
                self._respawns[process.name] = strike.respawn
                process.kill()
            case Kind.TERMINATE:
                self._workers[process.name].stop()
            case Kind.PAUSE:
                self._looked.clear()
                process.freeze(strike.seconds)
                if strike.spare:
                    self._start_worker(f"w{len(self._started) + 1}")
            case _:
                self.server.spoil(strike.kind, strike.seconds)
        return True

    def _start_client(self, incarnation: int) -> None:
        process = self.scheduler.process(CLIENT, incarnation)
        process.on_death = lambda dead: self._start_client(incarnation + 1)
        self.client = Client(process, self.server, self.cast)
        self._clients.append(self.client)
        self.client.start()

    def _start_worker(self, slot: str) -> None:
        """The next worker process of this name."""
        if sum(self._started.values()) == WORKERS_MAX:
            return
        incarnation = self._started.get(slot, 0) + 1
        self._started[slot] = incarnation
        process = self.scheduler.process(slot, incarnation, wall_offset_seconds=self.skews.get(slot, 0.0))
        process.on_death = self._died
        self._alive.append(process)
        self._workers[process.name] = start_worker(
            process, self.server, self.cast, die=lambda: self._script_kills(process)
        )

    def _script_kills(self, process: SimProcess) -> None:
        """A script's own death may take along a task that the script does not know of: its claim was lost, its
        step went on, and the worker had taken another one."""
        self._fault(process, "script", None)
        process.die()

    def _fault(self, process: SimProcess, kind: str, ended_at: int | None) -> None:
        held = tuple(Held(row.id, row.epoch) for row in self.server.held_by(process))
        self.faults.append(FaultSeen(self.server.now, str(kind), process.name, ended_at, (process.slot,), held))

    def _died(self, process: SimProcess) -> None:
        self._alive.remove(process)
        self._idle_since.pop(process.name, None)
        if len(self._alive) >= self.workers:
            return
        pause = self._respawns.get(process.name, 0.0)
        if pause:
            self.scheduler.at(pause, lambda: self._start_worker(process.slot))
        else:
            self._start_worker(process.slot)

    # -- what the execution sees ---------------------------------------------------------------------------

    def _on_point(self, process: SimProcess, name: str, facts: Mapping[str, object]) -> None:
        if not process.alive:
            return
        self._passed[process.name, name] = self._passed.get((process.name, name), 0) + 1
        if process.slot == CLIENT:
            self.client_points.append(name)
        else:
            self.points.append(name)
            if name == "claim.before":
                self._claiming[process.name] = None
            elif name == "claim.after":
                self._claiming.pop(process.name, None)
        self.plan(self, process, name, facts)

    def _granted(self, process: SimProcess, claims: Sequence[Claim]) -> None:
        """A process that was struck with a claim under way was struck as the holder of what that claim takes: a
        good part of its lease may be over before it hears of it."""
        index = self._claiming.get(process.name)
        if index is not None:
            fault = self.faults[index]
            held = tuple(Held(claim.task_id, claim.epoch) for claim in claims)
            self.faults[index] = replace(fault, held=fault.held + held)

    def _worked(self, process: SimProcess) -> None:
        self._looked.clear()
        self._idle_since.pop(process.name, None)

    def _found_nothing(self, process: SimProcess) -> None:
        """A worker polled in vain. Once all have, with nothing left to do, the run is over."""
        self._idle_since.setdefault(process.name, self.server.now)
        self._looked.add(process.name)
        everybody = all(one.name in self._looked and not one.frozen for one in self._alive)
        if everybody and self.client.done and self.server.rests():
            self.scheduler.halt()

    # -- what comes of it ----------------------------------------------------------------------------------

    def _judged(self, ended: str) -> Result:
        facts = RunFacts(
            faults=tuple(self.faults),
            tools=self.cast.tools,
            idle_since={"default": min(self._idle_since.values())} if self._idle_since else {},
            renewals_recorded=True,
            lease=micros(LEASE_SECONDS),
            depth_max=SUBTASK_DEPTH_MAX if self.cast.play.app is None else None,
            still=True,
        )
        for worker in self._workers.values():
            worker.jobs.last_lines()
        log = self.log = tuple(self.server.logs())
        foretold = list(self.cast.foretold(log))
        for entry in log:  # equal traces are equal logs
            self.scheduler.note("log", entry.task, {"seq": entry.seq, "epoch": entry.epoch, "body": entry.body_hash})
        evidence = gather(
            facts,
            log=log,
            attempts=self._attempts(),
            samples=self.server.samples,
            finals=self.server.finals(),
            journal=self.cast.journal(),
            job_lines=self._job_lines(),
            sent=[one for client in self._clients for one in client.sent],
            foretold=foretold if self.excuses else [replace(words, excusable=frozenset()) for words in foretold],
        )
        report = check_all(evidence)
        findings = [f"killed-is-silent: {leak}" for leak in self.server.leaks]
        for crash in self.scheduler.crashes:
            findings.append(f"loop-outlives: {crash.process}/{crash.activity} ended with {crash.error!r}")
        if ended != "halted":
            findings.append(
                f"comes-to-an-end: {ended} after {self.scheduler.now / MICROS_PER_SECOND:g} virtual seconds"
            )
        else:
            findings += self.cast.findings(self.server.store)
        return Result(
            case=self.case.name,
            verdict=verdict_of(report, findings),
            report=report,
            findings=tuple(findings),
            schedule=self._schedule(),
            points=self.points,
            client_points=self.client_points,
            struck=tuple(self.struck),
            situations=situations(evidence, self.points),
            workers=sum(self._started.values()),
            activities=len(self.scheduler.resumed),
            switches=self.scheduler.switches,
            choices=self.scheduler.choices,
            seconds=self.scheduler.now / MICROS_PER_SECOND,
            ended=ended,
            trace_hash=self.trace.hash,
            trace=tuple(self.trace.lines),
        )

    def _job_lines(self) -> Iterable[JobLine]:
        """What background shells wrote, by the store's clock: there is only one."""
        for line in self.cast.book.jobs:
            yield JobLine(line.task, line.job, WALL_START + micros(line.time), pid=line.pid)

    def _attempts(self) -> Iterable[Attempt]:
        for client in self._clients:
            yield from client.attempts
        for worker in self._workers.values():
            yield from worker.attempts()

    def _schedule(self) -> Schedule:
        skews = tuple(
            Fault(f"skew-{slot}", Kind.SKEW, slot, After(0.0), {"seconds": seconds})
            for slot, seconds in self.skews.items()
            if slot in self._started
        )
        play: Play = msgspec.structs.replace(
            self.cast.play, workers=self.workers, turns=tuple(self.scheduler.turns), lenient=self.excuses
        )
        return Schedule(str(self.seed), skews + tuple(self.struck_faults), play=play)


def skews_of(seed: int | str, seconds: float) -> Callable[[str], float]:
    """How wrong the clock of a worker name is: a draw of the seed and the name alone, up to so much either way."""
    return lambda slot: Stream(seed, f"skew/{slot}").seconds(-seconds, seconds)
