"""One unit of a sweep: some seeds, run by whoever has time, summed up as plain data that any process can read.

Running it again gives the same, so a unit that was lost with its process is simply run again. In every unit one seed,
drawn by the unit's name, is repeated from its schedule, event by event: a simulator that does not repeat proves
nothing, and says so.
"""

from __future__ import annotations

import hashlib
import traceback
from itertools import zip_longest
from typing import Final

import msgspec

from invariants import Verdict
from noeta.chaos.schedule import Schedule, from_json, to_json
from noeta.chaos.sim.fingerprint import code_fingerprint
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.seeded import run_seed
from noeta.chaos.sim.sweep_plan import Plan, Unit
from noeta.chaos.sim.sweep_sums import Sums, strikes_in
from scripted_model.seeds import Stream

WHY_LINES: Final = 12
"""Lines of one execution's reasons that are kept; all of them come back with its schedule."""

DIFFERS: Final = "differs"
"""What the schedule of an execution that did not repeat is called, instead of a verdict."""


class OtherCode(Exception):
    """This process would run other code than the one who asked: their executions are not comparable."""


class Bad(msgspec.Struct, frozen=True):
    """A seed whose execution is not valid, and the first lines of why."""

    seed: int
    verdict: Verdict
    why: tuple[str, ...]


class Trouble(msgspec.Struct, frozen=True):
    """A seed that the simulator itself failed at: it says nothing about the runtime, and what the sweep says
    otherwise cannot be trusted."""

    seed: int
    what: str
    lines: tuple[str, ...]


class Chunk(msgspec.Struct, frozen=True, tag="chunk"):
    """What a unit came to. ``digest``: over the traces, in order of the seeds. ``traces``, ``schedules``: 64 bits of
    the hash of each, to count the different ones. ``repeated``: seeds that were run twice and compared."""

    first: int
    last: int
    digest: str
    traces: tuple[int, ...]
    schedules: tuple[int, ...]
    repeated: int
    sums: Sums
    bad: tuple[Bad, ...]
    troubles: tuple[Trouble, ...]


class Ran(msgspec.Struct, frozen=True):
    """A chunk, and the schedules worth keeping: JSON by ``<verdict>-<strategy>-<seed>``."""

    chunk: Chunk
    schedules: dict[str, str]


def run_unit(unit: Unit) -> Ran:
    """Run the seeds of a unit. An error of the simulator is told as trouble, and the next seed goes on.

    Raises:
        OtherCode.
    """
    if code_fingerprint() != unit.code:
        raise OtherCode(
            "a process that should run seeds has other source files than the one that started the sweep: "
            "install the same noeta everywhere, and do not change it while a sweep runs"
        )
    doing = _Doing(unit.plan)
    drawn = unit.first + Stream(unit.first, "self-check").below(unit.last - unit.first + 1)
    for seed in range(unit.first, unit.last + 1):
        doing.seed(seed, repeat=seed == drawn)
    return Ran(doing.chunk(unit), doing.kept)


class _Doing:
    """A unit under way."""

    def __init__(self, plan: Plan) -> None:
        self.kept: dict[str, str] = {}
        self._plan = plan
        self._sums = Sums()
        self._digest = hashlib.sha256()
        self._traces: list[int] = []
        self._schedules: list[int] = []
        self._repeated = 0
        self._bad: list[Bad] = []
        self._troubles: list[Trouble] = []

    def seed(self, seed: int, *, repeat: bool) -> None:
        """Run it; ``repeat``: also from its schedule."""
        try:
            result = self._run(seed, keep_trace=repeat or self._plan.verify)
            self._count(seed, result)
            if repeat:
                again = replay(from_json(to_json(result.schedule)), keep_trace=True)
                self._compare(seed, result, again, "is another execution when its schedule is replayed")
            if self._plan.verify:
                self._compare(seed, result, self._run(seed, keep_trace=True), "is another execution when run again")
            self._repeated += repeat or self._plan.verify
        except Exception:  # the boundary of one execution: the harness failed here, and other seeds still count
            self._digest.update(f"{seed} crashed\n".encode())
            self._troubles.append(Trouble(seed, "crashed the simulator", tuple(traceback.format_exc().splitlines())))

    def chunk(self, unit: Unit) -> Chunk:
        """What it came to."""
        return Chunk(
            unit.first,
            unit.last,
            self._digest.hexdigest(),
            tuple(self._traces),
            tuple(self._schedules),
            self._repeated,
            self._sums,
            tuple(self._bad),
            tuple(self._troubles),
        )

    def _run(self, seed: int, *, keep_trace: bool) -> Result:
        plan = self._plan
        return run_seed(seed, strategy=plan.strategy, pct_depth=plan.pct_depth, keep_trace=keep_trace)

    def _count(self, seed: int, result: Result) -> None:
        self._sums.count(result)
        self._digest.update(f"{seed} {result.trace_hash}\n".encode())
        self._traces.append(int(result.trace_hash[:16], 16))
        self._schedules.append(decisions_hash(result.schedule))
        if result.verdict is not Verdict.VALID:
            self._bad.append(Bad(seed, result.verdict, tuple(result.why()[:WHY_LINES])))
            self._keep(result.verdict, seed, result.schedule)

    def _compare(self, seed: int, first: Result, again: Result, what: str) -> None:
        lines = first_difference(first, again)
        if lines:
            self._troubles.append(Trouble(seed, what, lines))
            self._keep(DIFFERS, seed, first.schedule)

    def _keep(self, what: str, seed: int, schedule: Schedule) -> None:
        self.kept[f"{what}-{self._plan.strategy}-{seed}"] = to_json(schedule)


def first_difference(first: Result, again: Result) -> tuple[str, ...]:
    """Where two executions that should be one part, by their kept traces; nothing if they do not."""
    pairs = enumerate(zip_longest(first.trace, again.trace, fillvalue="(ended)"), start=1)
    for number, (one, other) in pairs:
        if one != other:
            return (f"line {number} of the trace", f"first: {one}", f"again: {other}")
    if first.trace_hash != again.trace_hash:
        return (f"equal lines, but the hash was {first.trace_hash} and then {again.trace_hash}",)
    if first.verdict is not again.verdict:
        return (f"equal traces, but the verdict was {first.verdict} and then {again.verdict}",)
    return ()


def decisions_hash(schedule: Schedule) -> int:
    """64 bits over what was decided: turns and strikes, without seed, workload and clocks."""
    assert schedule.play is not None, "the simulator's schedules have a play"
    decisions = msgspec.json.encode((schedule.play.turns, tuple(strikes_in(schedule))), order="deterministic")
    return int.from_bytes(hashlib.sha256(decisions).digest()[:8], "big")
