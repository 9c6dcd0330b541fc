"""One execution: the real worker loop on a memory store, clients that talk to it, strikes, and the verdict.

A worker that dies is replaced by the next (`w1`, `w2`, …), like a supervisor does it; so is a frozen one, if the
strike says so. The run ends when nothing is left to do and every living worker has looked and found nothing.
Then the laws judge what was left behind, and three findings of the simulator's own join them: a dead process
that reached the store, an activity that ended with an error, a run that came to no end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from invariants import Report, RunFacts, Verdict, check_all, gather, merge
from invariants.evidence import Attempt, FaultSeen, Held
from noeta.backends.stores.around import READ_VERBS, WRITE_VERBS
from noeta.chaos.evidence_reader import as_foretold, journal_line, tool_kinds
from noeta.chaos.sim.client import Client
from noeta.chaos.sim.evidence import paths_taken
from noeta.chaos.sim.scheduler import Pick, Scheduler, SimProcess, Trace, first_come
from noeta.chaos.sim.scripts import LEASE_SECONDS, Case
from noeta.chaos.sim.server import Server
from noeta.chaos.sim.simworker import start_worker
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.store import Claim
from scripted_model.journal import JournalBook

SECONDS_MAX: Final = 100 * LEASE_SECONDS
"""Virtual seconds after which a run that goes on is stuck: a script's own deaths cost a few leases."""

POINTS_MAX: Final = 50_000
"""Yield points after which a run that goes on is looping."""

WORKERS_MAX: Final = 50
"""Replacements after which nobody replaces a dead worker: killers need a dozen."""

CLIENT: Final = "client"

LATER_SECONDS: Final = LEASE_SECONDS / 4
"""When a call that lands later does: before its lease is over, and after its sender has gone on."""

StrikeKind = Literal["kill", "freeze", "say", "unavailable", "unknown_lost", "unknown_landed", "unknown_later"]


@dataclass(frozen=True, slots=True)
class Strike:
    """Hit the worker that reaches the ``after``-th yield point since the strike before (from 1).

    ``kill``: SIGKILL. ``freeze``: SIGSTOP for ``seconds``; ``spare``: with another worker at once. ``say``: the
    client posts its next message at that very moment. The others spoil the store call that is about to be sent:
    it is refused, or its outcome is unknown and it did not land, did, or will; at other points they do nothing.
    """

    kind: StrikeKind
    after: int
    seconds: float = 0.0
    spare: bool = True


def can_hit(kind: StrikeKind, point: str) -> bool:
    """Whether such a strike can do anything at this point: only a call can be spoiled, and only a write's outcome
    can be unknown."""
    if kind in ("kill", "freeze", "say"):
        return True
    verb, _, side = point.partition(".")
    return side == "before" and (verb in WRITE_VERBS or (verb in READ_VERBS and kind == "unavailable"))


Plan = Callable[["Execution", SimProcess, str], None]
"""Called at every yield point of a worker; may hit it through the execution."""


def strike_at(strikes: Sequence[Strike]) -> Plan:
    """The plan of these strikes, in order."""
    left = list(strikes)
    since = 0

    def plan(execution: Execution, process: SimProcess, point: str) -> None:
        nonlocal since
        since += 1
        if left and since == left[0].after:
            since = 0
            execution.strikes_made += 1
            execution.strike(process, point, left.pop(0))

    return plan


@dataclass(frozen=True, slots=True)
class Result:
    """What one execution was and what the laws say of it.

    ``points``: the yield points of workers, in order. ``struck``: the names of the points that were struck.
    ``paths``: which ways out of trouble were taken. ``ended``: how the scheduler came to its end.
    ``trace``: the lines, if they were kept.
    """

    case: str
    verdict: Verdict
    report: Report
    findings: tuple[str, ...]
    points: Sequence[str]
    struck: tuple[str, ...]
    paths: Mapping[str, int]
    workers: int
    seconds: float
    ended: str
    trace_hash: str
    trace: tuple[str, ...]

    @property
    def excused(self) -> int:
        """How many outcomes are not what was foretold, and faults excuse it."""
        return sum(law.counts.get("excused", 0) for law in self.report.laws)

    def why(self) -> list[str]:
        """The reasons for a verdict that is not valid, a line each."""
        lines = list(self.findings)
        for law in self.report.laws:
            if law.verdict is Verdict.INVALID or law.doubts or law.crash:
                lines.append(f"{law.law.key}: {law.why()}")
        lines += [f"  {anomaly.law}/{anomaly.code}: {anomaly.text}" for anomaly in self.report.anomalies()]
        return lines


@dataclass(slots=True)
class Execution:
    """One run of a case.

    ``workers``: how many run from the beginning. ``skew``: how wrong the wall clock of the next worker is, in
    seconds. ``excuses``: enough strikes can come to push a task into a bound; without, every outcome must be the
    one foretold.
    """

    case: Case
    plan: Plan = field(default_factory=lambda: strike_at(()))
    seed: int = 0
    pick: Pick = first_come
    workers: int = 1
    trace: Trace = field(default_factory=Trace)
    skew: Callable[[], float] = lambda: 0.0
    excuses: bool = False
    scheduler: Scheduler = field(init=False)
    server: Server = field(init=False)
    client: Client = field(init=False)
    book: JournalBook = field(init=False, default_factory=JournalBook)
    points: list[str] = field(init=False, default_factory=list)
    strikes_made: int = field(init=False, default=0)
    struck: list[str] = field(init=False, default_factory=list)
    faults: list[FaultSeen] = field(init=False, default_factory=list)
    _claiming: dict[str, int | None] = field(init=False, default_factory=dict)
    _alive: list[SimProcess] = field(init=False, default_factory=list)
    _started: int = field(init=False, default=0)
    _idle_since: dict[str, int] = field(init=False, default_factory=dict)
    _looked: set[str] = field(init=False, default_factory=set)
    _attempts: list[Callable[[], Iterable[Attempt]]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed, pick=self.pick, trace=self.trace)
        self.scheduler.on_point = self._on_point
        self.server = Server(self.scheduler)
        self.server.on_empty_claim = self._found_nothing
        self.server.on_work = self._worked
        self.server.on_grant = self._granted

    def run(self) -> Result:
        """Play, judge, and end every process."""
        self.client = Client(self.scheduler.process(CLIENT), self.server, self.case)
        self.client.start()
        for _ in range(self.workers):
            self.add_worker()
        try:
            ended = self.scheduler.run(seconds_max=SECONDS_MAX, points_max=POINTS_MAX)
            return self._judged(ended)
        finally:
            self.scheduler.close()

    # -- what may happen to workers ------------------------------------------------------------------------

    def add_worker(self) -> None:
        """One more worker process, under a name of its own."""
        if self._started == WORKERS_MAX:
            return
        self._started += 1
        process = self.scheduler.process(f"w{self._started}", wall_offset_seconds=self.skew())
        process.on_death = self._died
        self._alive.append(process)
        self._attempts.append(start_worker(process, self.server, self.book, die=lambda: self._script_kills(process)))

    def strike(self, process: SimProcess, point: str, strike: Strike) -> bool:
        """Hit this worker at this point, and note what it held; False if there was nothing to hit."""
        if not can_hit(strike.kind, point) or (strike.kind == "say" and not self.client.may_say):
            return False
        self.struck.append(point)
        self.scheduler.note(process.name, f"STRUCK {strike.kind}", {"seconds": strike.seconds})
        if strike.kind != "say":
            ends = None if strike.kind == "kill" else self.server.now + micros(strike.seconds)
            self._fault(process, strike.kind, ends)
            if process.name in self._claiming:
                self._claiming[process.name] = len(self.faults) - 1
        match strike.kind:
            case "say":
                self.client.say_next()
            case "kill":
                process.kill()
            case "freeze":
                self._looked.clear()
                process.freeze(strike.seconds)
                if strike.spare:
                    self.add_worker()
            case spoiled:
                self.server.spoil(process, spoiled, LATER_SECONDS)
        return True

    def _script_kills(self, process: SimProcess) -> None:
        """A script's own death may take along a task that the script does not know of: its claim was lost, its
        step went on, and the worker had taken another one."""
        self._fault(process, "script", None)
        process.die()

    def _fault(self, process: SimProcess, kind: str, ended_at: int | None) -> None:
        held = tuple(Held(row.id, row.epoch) for row in self.server.held_by(process.name))
        self.faults.append(FaultSeen(self.server.now, kind, process.name, ended_at, (process.name,), held))

    def _died(self, process: SimProcess) -> None:
        self._alive.remove(process)
        self._idle_since.pop(process.name, None)
        if len(self._alive) < self.workers:
            self.add_worker()

    # -- what the execution sees ---------------------------------------------------------------------------

    def _on_point(self, process: SimProcess, name: str, facts: Mapping[str, object]) -> None:
        if process.name != CLIENT and process.alive:
            self.points.append(name)
            if name == "claim.before":
                self._claiming[process.name] = None
            elif name == "claim.after":
                self._claiming.pop(process.name, None)
            self.plan(self, process, name)

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

    def _judged(self, ended: str) -> Result:
        log = tuple(self.server.logs())
        attempts = [attempt for attempts in self._attempts for attempt in attempts()]
        facts = RunFacts(
            faults=tuple(self.faults),
            tools=tool_kinds(),
            idle_since={"default": min(self._idle_since.values())} if self._idle_since else {},
            renewals_recorded=True,
            lease=micros(LEASE_SECONDS),
            keeps_claims=False,
        )
        foretold = [as_foretold(words) for words in self.case.foretold()]
        evidence = gather(
            facts,
            log=log,
            attempts=[*self.client.attempts, *attempts],
            samples=self.server.samples,
            finals=self.server.finals(),
            journal=map(journal_line, self.book.effects),
            sent=self.client.sent,
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
        return Result(
            self.case.name,
            Verdict.INVALID if findings else _judged(report),
            report,
            tuple(findings),
            self.points,
            tuple(self.struck),
            paths_taken(log, attempts),
            self._started,
            self.scheduler.now / MICROS_PER_SECOND,
            ended,
            self.trace.hash,
            tuple(self.trace.lines),
        )


def _judged(report: Report) -> Verdict:
    """The verdict over one small execution. It need not give every law something to see, and an outcome that
    faults excuse is no doubt about it: a whole search is asked for both."""
    verdicts = [Verdict.VALID]
    for law in report.laws:
        excused = law.counts.get("excused", 0) > 0 and law.doubts_total == 1
        if law.verdict is Verdict.INVALID or law.crash or (law.doubts_total and not excused):
            verdicts.append(law.verdict)
    return merge(verdicts)


__all__ = ["Execution", "Plan", "Result", "Strike", "StrikeKind", "can_hit", "strike_at"]
