"""One seed, one execution: several workers, a drawn workload, and everything else left to chance that a seed repeats.

Chance picks who goes on at every yield point, when workers are killed or frozen or lose a call, how wrong their
clocks are, and what the tasks are. Exhaustion finds what one strike can do; this looks for what several do
together.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from types import MappingProxyType
from typing import Final

from invariants import Verdict, merge
from invariants.laws.script_finished import EXCUSED_MAX
from noeta.chaos.sim.run import Execution, Result, Strike, StrikeKind, can_hit
from noeta.chaos.sim.scheduler import Activity, SimProcess, Trace
from noeta.chaos.sim.scripts import LEASE_SECONDS, RETRY_ATTEMPTS, Case
from noeta.core.ids import micros
from scripted_model import Kind, Profile, workload
from scripted_model.seeds import Stream, child_seed

STRIKES_WITHIN: Final = micros(20 * LEASE_SECONDS)
"""Nothing strikes later than this: every run has its calm end."""

STRIKES_MAX: Final = 8
"""Strikes of one run; many more and every outcome is one that faults excuse."""

CLOCK_SKEW_SECONDS: Final = 3600.0
"""How wrong a worker's wall clock may be, both ways: it must not matter."""

KINDS: Final[MappingProxyType[StrikeKind, int]] = MappingProxyType(
    {"kill": 3, "freeze": 4, "unavailable": 1, "unknown_lost": 1, "unknown_landed": 2, "unknown_later": 2}
)
"""What strikes, by weight."""


SEEDS_PER_CHUNK: Final = 10
"""Seeds handed to a process at once."""


@dataclass(slots=True)
class _Chance:
    """The draws of one run."""

    pick: Stream
    strikes: Stream
    left: int
    chance: float

    def picks(self, ready: Sequence[Activity]) -> int:
        """Any of the ready ones, each as likely."""
        return self.pick.below(len(ready)) if len(ready) > 1 else 0

    def plan(self, execution: Execution, process: SimProcess, point: str) -> None:
        """Perhaps hit this worker here."""
        if not self.left or execution.scheduler.now > STRIKES_WITHIN or not self.strikes.chance(self.chance):
            return
        kind = self.strikes.weighted(KINDS)
        seconds = self.strikes.seconds(0.05, 3.0) * LEASE_SECONDS if kind == "freeze" else 0.0
        if can_hit(kind, point) and execution.strike(process, point, Strike(kind, 0, seconds, spare=False)):
            self.left -= 1


@dataclass(frozen=True, slots=True)
class Seed:
    """What the execution of one seed came to. ``outcomes``: how many tasks it had."""

    seed: int
    verdict: Verdict
    why: tuple[str, ...]
    trace_hash: str
    outcomes: int
    excused: int
    struck: Counter[str]
    paths: Counter[str]


@dataclass(slots=True)
class Seeds:
    """What many seeds came to. ``bad``: those that are not valid."""

    count: int = 0
    tasks: int = 0
    excused: int = 0
    bad: list[Seed] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def verdict(self) -> Verdict:
        """Excused outcomes are fine one by one; where they are many, too little was tested."""
        enough = Verdict.VALID if self.excused <= EXCUSED_MAX * self.tasks else Verdict.UNKNOWN
        return merge([one.verdict for one in self.bad] + [enough] * bool(self.count))

    @property
    def trace_hash(self) -> str:
        """One hash over the traces of all, in order of their seeds."""
        return self._hash.hexdigest()

    def add(self, one: Seed) -> None:
        """Count the next seed."""
        self.count += 1
        self.tasks += one.outcomes
        self.excused += one.excused
        self.struck.update(one.struck)
        self.paths.update(one.paths)
        self._hash.update(f"{one.seed} {one.trace_hash}\n".encode())
        if one.verdict is not Verdict.VALID:
            self.bad.append(one)


def run_seeds(first: int, last: int, *, jobs: int, progress: Callable[[Seeds], None]) -> Seeds:
    """The seeds from ``first`` to ``last``, shared among so many processes."""
    found = Seeds()
    seeds = range(first, last + 1)
    if jobs == 1 or len(seeds) < SEEDS_PER_CHUNK:
        for seed in seeds:
            found.add(summary(seed))
            progress(found)
        return found
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=silence) as pool:
        for one in pool.map(summary, seeds, chunksize=SEEDS_PER_CHUNK):
            found.add(one)
            progress(found)
    return found


def summary(seed: int) -> Seed:
    """The execution of a seed, without what only its own teller needs."""
    result = run_seed(seed)
    why = () if result.verdict is Verdict.VALID else tuple(result.why())
    return Seed(
        seed,
        result.verdict,
        why,
        result.trace_hash,
        result.report.tasks,
        result.excused,
        Counter(result.struck),
        Counter(result.paths),
    )


def silence() -> None:
    """What workers log goes to nobody: an execution is judged by its evidence."""
    logging.getLogger("noeta").setLevel(logging.CRITICAL + 1)


def run_seed(seed: int, *, keep_trace: bool = False) -> Result:
    """The execution of a seed: the same in every process."""
    shape = Stream(seed, "shape")
    profile = Profile(
        lease_seconds=LEASE_SECONDS,
        retry_attempts=RETRY_ATTEMPTS,
        spread_leases=shape.choice((0.0, 0.5, 2.0)),
    )
    load = workload(child_seed(seed, "workload"), shape.between(1, 5), profile)
    hurt = {task.id for task in load.tasks if task.script.kind == Kind.INTERACTIVE_HURT.value}
    # A note that comes after a turn that fails makes it fail again, which nobody foretells.
    said = tuple(message for message in load.messages if message.kind == "turn" or message.task not in hurt)
    case = Case(f"seed {seed}", load.tasks, said)
    chance = _Chance(
        Stream(seed, "pick"),
        Stream(seed, "strikes"),
        shape.between(1, STRIKES_MAX),
        shape.choice((0.005, 0.02, 0.06)),
    )
    skew = Stream(seed, "skew")
    return Execution(
        case,
        chance.plan,
        seed=seed,
        pick=chance.picks,
        workers=shape.between(1, 3),
        excuses=True,
        trace=Trace(keep=keep_trace),
        skew=lambda: skew.seconds(-CLOCK_SKEW_SECONDS, CLOCK_SKEW_SECONDS),
    ).run()
