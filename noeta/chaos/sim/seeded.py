"""One seed, one execution: several workers, a drawn workload, and everything else left to chance that a seed repeats.

Chance picks who goes on at every yield point, when processes are killed or paused or lose a call, how long calls
take, how wrong clocks are, and what the tasks are. Exhaustion finds what one strike can do; this looks for what
several do together. Two strategies: ``random`` asks at every choice and at every point; ``pct`` gives every activity
a priority, lets it fall at few places drawn beforehand, and strikes at points drawn beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from noeta.chaos.schedule import CLIENT, Kind
from noeta.chaos.sim import picks
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution, skews_of
from noeta.chaos.sim.scheduler import Pick, SimProcess, Trace
from noeta.chaos.sim.scripts import LEASE_SECONDS, RETRY_ATTEMPTS, Case
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.strikes import Plan, Strike, can_hit, nothing
from noeta.core.ids import micros
from scripted_model import Kind as ScriptKind
from scripted_model import Profile, workload
from scripted_model.seeds import Stream, child_seed

STRIKES_WITHIN: Final = micros(20 * LEASE_SECONDS)
"""Nothing strikes later than this: every run has its calm end."""

STRIKES_MAX: Final = 8
"""Strikes of one run; many more and every outcome is one that faults excuse."""

CLOCK_SKEW_SECONDS: Final = 3600.0
"""How wrong a worker's wall clock may be, both ways: it must not matter."""

PCT_DEPTH: Final = 3
"""Bugs of this depth are what ``pct`` is promised to meet: so many ordering constraints make them happen."""

KINDS: Final[Mapping[Kind, int]] = MappingProxyType(
    {
        Kind.KILL: 3,
        Kind.PAUSE: 4,
        Kind.TERMINATE: 1,
        Kind.STORE_UNAVAILABLE: 1,
        Kind.UNKNOWN_LOST: 1,
        Kind.UNKNOWN_LANDED: 2,
        Kind.UNKNOWN_LATER: 2,
        Kind.SLOW: 3,
    }
)
"""What strikes a worker, by weight. The client is only ever killed."""


class Strategy(StrEnum):
    """How a seed decides."""

    RANDOM = "random"
    PCT = "pct"


@dataclass(slots=True)
class _Chance:
    """Strikes at random: at each point with the same chance, until none is left."""

    draws: Stream
    left: int
    chance: float

    def plan(self, execution: Execution, process: SimProcess, point: str, facts: Mapping[str, object]) -> None:
        """Perhaps hit this process here."""
        if not self.left or execution.scheduler.now > STRIKES_WITHIN or not self.draws.chance(self.chance):
            return
        strike = _drawn(self.draws, process)
        if can_hit(strike.kind, point) and execution.strike(process, point, strike):
            self.left -= 1


@dataclass(slots=True)
class _Places:
    """Strikes at points drawn beforehand among so many; where one cannot hit, it waits for the next that it can."""

    draws: Stream
    places: list[int]
    passed: int = 0

    def plan(self, execution: Execution, process: SimProcess, point: str, facts: Mapping[str, object]) -> None:
        """Hit this process here if it is the place."""
        self.passed += 1
        if self.places and self.passed >= self.places[0]:
            strike = _drawn(self.draws, process)
            if can_hit(strike.kind, point) and execution.strike(process, point, strike):
                self.places.pop(0)


def _drawn(draws: Stream, process: SimProcess) -> Strike:
    kind = Kind.KILL if process.slot == CLIENT else draws.weighted(KINDS)
    match kind:
        case Kind.PAUSE:
            seconds = draws.seconds(0.05, 3.0) * LEASE_SECONDS
            return Strike(kind, seconds=round(seconds, 3), spare=draws.chance(0.2))
        case Kind.UNKNOWN_LATER:
            return Strike(kind, seconds=round(draws.seconds(0.05, 1.5) * LEASE_SECONDS, 3))
        case Kind.SLOW:
            return Strike(kind, seconds=round(draws.seconds(0.01, 1.5) * LEASE_SECONDS, 3))
        case Kind.KILL:
            return Strike(kind, respawn=draws.choice((0.0, 0.0, draws.seconds(0.1, 2.0) * LEASE_SECONDS)))
        case _:
            return Strike(kind)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a seed plays, before chance has its way."""

    case: Case
    workers: int
    strikes: int
    chance: float


def shape_of(seed: int) -> Shape:
    """The workload and the size of a seed."""
    shape = Stream(seed, "shape")
    profile = Profile(
        lease_seconds=LEASE_SECONDS,
        retry_attempts=RETRY_ATTEMPTS,
        spread_leases=shape.choice((0.0, 0.5, 2.0)),
    )
    load = workload(child_seed(seed, "workload"), shape.between(1, 5), profile)
    hurt = {task.id for task in load.tasks if task.script.kind == ScriptKind.INTERACTIVE_HURT.value}
    # A note that comes after a turn that fails makes it fail again, which nobody foretells.
    said = tuple(message for message in load.messages if message.kind == "turn" or message.task not in hurt)
    strikes, chance = shape.between(1, STRIKES_MAX), shape.choice((0.005, 0.02, 0.06))
    unresolved = shape.choice((0, 0, 0, 0, 1))
    return Shape(Case(f"seed {seed}", load.tasks, said, unresolved=unresolved), shape.between(1, 3), strikes, chance)


def run_seed(
    seed: int,
    *,
    strategy: Strategy = Strategy.RANDOM,
    pct_depth: int = PCT_DEPTH,
    keep_trace: bool = False,
    make_store: MakeStore | None = None,
) -> Result:
    """The execution of a seed: the same in every process, under every Python."""
    shape = shape_of(seed)
    skew = skews_of(seed, CLOCK_SKEW_SECONDS)
    skews = {f"w{number}": skew(f"w{number}") for number in range(1, STRIKES_MAX + shape.workers + 1)}

    def execution(plan: Plan, pick: Pick) -> Execution:
        return Execution(
            shape.case,
            plan,
            seed=seed,
            pick=pick,
            workers=shape.workers,
            excuses=True,
            trace=Trace(keep=keep_trace),
            skews=skews,
            make_store=make_store,
        )

    strikes = Stream(seed, "strikes")
    if strategy is Strategy.RANDOM:
        chance = _Chance(strikes, shape.strikes, shape.chance)
        return execution(chance.plan, picks.at_random(Stream(seed, "pick"))).run()
    # A calm execution says how many choices and points there are to draw from.
    measured = picks.ByPriority(Stream(seed, "pick"), depth=1, choices=1)
    calm = execution(nothing, measured).run()
    points = len(calm.points) + len(calm.client_points)
    places = sorted(strikes.between(1, points) for _ in range(shape.strikes))
    pick = picks.ByPriority(Stream(seed, "pick"), depth=pct_depth, choices=measured.choices)
    return execution(_Places(strikes, places).plan, pick).run()
