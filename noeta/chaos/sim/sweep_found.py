"""What a sweep found so far: the sums of its chunks, in whatever order they came, and the verdict over all of them."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass, field
from typing import Final

from invariants import Verdict, merge
from invariants.laws.script_finished import EXCUSED_MAX
from noeta.chaos.profiles import SWEEP_FULL_SEEDS, SWEEP_REQUIRED
from noeta.chaos.sim.picks import chance_of_missing
from noeta.chaos.sim.seeded import Strategy
from noeta.chaos.sim.sweep_plan import Plan
from noeta.chaos.sim.sweep_sums import Sums
from noeta.chaos.sim.sweep_unit import Bad, Chunk, Trouble
from noeta.core.ids import MICROS_PER_SECOND

HARNESS_ERROR: Final = 3
"""The exit code that says that the simulator failed, which outranks what it says of the runtime."""

TOLD_MAX: Final = 1_000
"""Bad seeds, and seeds in trouble, that are held to be told; all of them are counted."""


@dataclass(slots=True)
class Found:
    """What came of a sweep.

    ``bad``, ``troubles``: the first of them. ``repeated``: seeds that were run twice and compared. ``kept``: schedules
    written. ``ran``: executions of this process's time; the others were in the record. ``ran_virtual_micros``: their
    simulated time. ``seconds``: how long this process has been at it. ``began``: how it found the record.
    """

    plan: Plan
    began: str = "new"
    sums: Sums = field(default_factory=Sums)
    bad: list[Bad] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    troubled: int = 0
    repeated: int = 0
    kept: int = 0
    done: int = 0
    ran: int = 0
    ran_virtual_micros: int = 0
    seconds: float = 0.0
    _digests: dict[int, bytes] = field(default_factory=dict)
    _traces: array[int] = field(default_factory=lambda: array("Q"))
    _schedules: array[int] = field(default_factory=lambda: array("Q"))

    def has(self, first: int) -> bool:
        """Whether the chunk that begins with this seed is in."""
        return first in self._digests

    def add(self, chunk: Chunk) -> None:
        """Count a chunk, which no earlier one holds."""
        assert not self.has(chunk.first), f"seeds {chunk.first}..{chunk.last} came twice"
        self._digests[chunk.first] = bytes.fromhex(chunk.digest)
        self._traces.extend(chunk.traces)
        self._schedules.extend(chunk.schedules)
        self.sums.absorb(chunk.sums)
        self.done += chunk.last - chunk.first + 1
        self.repeated += chunk.repeated
        self.troubled += len(chunk.troubles)
        self.bad += chunk.bad[: TOLD_MAX - len(self.bad)]
        self.troubles += chunk.troubles[: TOLD_MAX - len(self.troubles)]

    @property
    def complete(self) -> bool:
        """Whether every seed is in."""
        return self.done == self.plan.seeds

    @property
    def verdict(self) -> Verdict:
        """Excused outcomes are fine one by one; where they are many, where nothing was struck, or where a required
        situation never occurred, too little was tested."""
        few_excused = self.sums.excused <= EXCUSED_MAX * self.sums.tasks
        enough = Verdict.VALID if few_excused and self.sums.strikes and not self.missing else Verdict.UNKNOWN
        return merge([enough, *self.sums.verdicts])

    @property
    def missing(self) -> list[str]:
        """Required situations that did not occur often enough; none is required of few seeds."""
        if self.plan.seeds < SWEEP_FULL_SEEDS:
            return []
        return [name for name, least in SWEEP_REQUIRED.items() if self.sums.situations.get(name, 0) < least]

    @property
    def exit_code(self) -> int:
        """That of the verdict, or of a simulator that failed."""
        return HARNESS_ERROR if self.troubled else self.verdict.exit_code

    @property
    def trace_hash(self) -> str:
        """One hash over the traces of all, in order of their seeds, whoever ran them and when."""
        whole = hashlib.sha256()
        for first in sorted(self._digests):
            whole.update(self._digests[first])
        return whole.hexdigest()

    @property
    def distinct_traces(self) -> int:
        """How many executions there were that differ in anything."""
        return len(set(self._traces))

    @property
    def distinct_schedules(self) -> int:
        """How many there were that differ in what was decided: switches and strikes, not tasks and clocks."""
        return len(set(self._schedules))

    @property
    def seeds_a_minute(self) -> float:
        """Of this process's time."""
        return 60 * self.ran / self.seconds if self.seconds else 0.0

    @property
    def virtual_seconds_a_second(self) -> float:
        """How much faster than the clock, all processes together."""
        return self.ran_virtual_micros / MICROS_PER_SECOND / self.seconds if self.seconds else 0.0

    @property
    def chance_of_missing(self) -> float | None:
        """An upper bound of the chance that the whole sweep missed a bug of depth ``plan.pct_depth`` that every
        one of its workloads can show, within as many choices as it has without strikes (falls are drawn among
        these); None: the strategy promises none."""
        if self.plan.strategy is not Strategy.PCT:
            return None
        return chance_of_missing(
            activities=self.sums.activities,
            choices=self.sums.choices,
            depth=self.plan.pct_depth,
            executions=self.sums.executions,
        )
