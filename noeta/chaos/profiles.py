"""What a storm loads and what must happen in it for its verdict to count: data, no code.

``STORM`` is what `make cluster` runs. A short storm cannot be asked for everything, so each requirement names the
storm from which on it holds; a campaign asks over all of its runs together for what a single run meets by luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from noeta.chaos.seeds import child_seed
from scripted_model import Kind, Profile, Workload, workload

RESERVE_SHARE: Final = 2.0
"""Tasks in reserve, for storms that go on until their quotas are met: so many times the tasks asked for."""

KILLERS: Final = (
    Kind.KILLER_PLAIN,
    Kind.KILLER_RETRY_SAFE,
    Kind.KILLER_BOUND,
    Kind.KILLER_RECOVERABLE,
    Kind.KILLER_MODEL,
    Kind.INTERACTIVE_HURT,
    Kind.PARKED_KILLER,
)
"""Kinds that kill workers by themselves: there in every workload, in no reserve. In an order of
their own: draws go through weights in order, and a set's order changes with the hash seed."""

STORM_WEIGHTS: Final[Mapping[Kind, int]] = MappingProxyType(
    {
        **dict.fromkeys(KILLERS, 1),
        Kind.KILLER_RECOVERABLE: 4,
        Kind.PLAIN: 6,
        Kind.RETRY_SAFE: 6,
        Kind.RECOVERABLE: 8,
        Kind.SLOW: 24,
        Kind.SEVERAL_CALLS: 12,
        Kind.ODD_TEXT: 2,
        Kind.LONG_TEXT: 2,
        Kind.NOTED: 10,
        Kind.ERRORS_BELOW: 2,
        Kind.ERRORS_BOUND: 1,
        Kind.CUT_BELOW: 2,
        Kind.CUT_BOUND: 1,
        Kind.EMPTY: 1,
        Kind.INTERACTIVE: 18,
        Kind.TIMER: 4,
        Kind.QUESTION: 4,
        Kind.QUESTION_TIMEOUT: 2,
        Kind.EVENT: 4,
        Kind.AGENT: 6,
        Kind.AGENT_FAST: 3,
        Kind.AGENT_FAILS: 1,
        Kind.GROUP: 4,
        Kind.NESTED: 2,
        Kind.TOO_DEEP: 1,
        Kind.BACKGROUND: 4,
        Kind.HANDBACK: 2,
        Kind.CANCELLED: 6,
        Kind.CLOSED: 3,
        Kind.FLOOD: 1,
        Kind.JOB: 5,
        Kind.JOB_WAKES: 5,
        Kind.JOB_OUTLIVES: 2,
        Kind.JOB_BELOW: 2,
        Kind.JOB_SEVERAL: 2,
        Kind.JOB_CALLS: 3,
        Kind.KEPT: 8,
        Kind.CRON: 4,
        Kind.APPROVAL: 5,
        Kind.GATED: 2,
        Kind.PARKED: 6,
    }
)
"""Mostly work inside slow tools: what is struck there must be recovered by the tool's own promise. A storm over
model calls alone would push task after task into the bound of three, which excuses what it should test."""


STORM_AT_LEAST: Final[Mapping[Kind, int]] = MappingProxyType({Kind.GROUP: 4, Kind.JOB: 4, Kind.JOB_WAKES: 6})
"""What every run must show although much comes in its way: a turn that ends before its group is born, a worker that is
struck before its shell has ended. Once each was not enough: three runs of twenty showed none."""


@dataclass(frozen=True, slots=True)
class StormProfile:
    """``required``: situations that every run of at least ``full_seconds`` and ``full_tasks`` must show, with how
    often; ``required_always``: those of any run; ``required_together``: those of a campaign, over all its runs."""

    name: str
    spread_leases: float
    required_always: Mapping[str, int]
    required: Mapping[str, int]
    required_together: Mapping[str, int]
    full_seconds: float = 40.0
    full_tasks: int = 40
    slow_leases: tuple[float, float] = (0.4, 3.0)
    think_leases: tuple[float, float] = (0.0, 0.03)
    cron_seconds: tuple[float, float] = (10.0, 35.0)
    weights: Mapping[Kind, int] = field(default_factory=lambda: STORM_WEIGHTS)

    def required_of(self, seconds: float, tasks: int) -> Mapping[str, int]:
        """What a run of this size must show."""
        is_full = seconds >= self.full_seconds and tasks >= self.full_tasks
        return {**self.required_always, **(self.required if is_full else {})}

    def loads(self, seed: int, tasks: int, lease_seconds: float, retry_attempts: int) -> tuple[Workload, Workload]:
        """The workload of a seed, and its reserve, whose ids begin with ``x``."""
        drawn = Profile(
            weights=self.weights,
            at_least=STORM_AT_LEAST,
            lease_seconds=lease_seconds,
            retry_attempts=retry_attempts,
            slow_leases=self.slow_leases,
            think_leases=self.think_leases,
            spread_leases=self.spread_leases,
            cron_seconds=self.cron_seconds,
        )
        base = workload(seed, tasks, drawn)
        spare = max(1, round(RESERVE_SHARE * tasks))
        calm: dict[Kind, int] = {kind: weight for kind, weight in self.weights.items() if kind not in KILLERS}
        return base, workload(child_seed(seed, "reserve"), spare, replace(drawn, weights=calm), prefix="x")


SIM_REQUIRED: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(
        (
            "taken-over",
            "recovered-by-lookup",
            "recovered-by-rerun",
            "recovered-as-unknown",
            "model-called-again",
            "three-starts-bound",
            "three-model-calls-bound",
            "attempt-sealed",
            "append-refused",
            "append-refused-after-pause",
            "renewal-lost",
            "commit-unknown-landed",
            "commit-unknown-not-landed",
            "answer-lost",
            "claim-released",
            "claim-adopted",
            "message-taken-running",
            "message-taken-waiting",
            "message-repeat-dropped",
            "message-refused",
            "message-taken-after-takeover",
            "wake-redelivered",
            "create-repeated",
            "failure-retried",
            "bounded-failure",
            "child-born",
            "group-born",
            "child-faster-than-park",
            "child-failed-arrived",
            "child-cancelled-arrived",
            "background-result-told",
            "handback-told",
            "timer-fired",
            "timer-fired-by-claim",
            "timer-fired-by-sweep",
            "wait-timed-out",
            "early-wake-kept",
            "wake-repeat-dropped",
            "question-answered",
            "event-received",
            "cancelled-while-pending",
            "cancelled-while-running",
            "cancelled-while-waiting",
            "cancelled-while-waiting-for-child",
            "cancel-cascaded",
            "cancel-refused",
            "closed-and-reopened",
            "depth-refused",
            "job-ended",
            "job-failed",
            "job-stopped",
            "job-killed",
            "job-lost",
            "job-lost-after-freeze",
            "job-of-a-child",
            "job-woke-its-task",
            "kept-resumed",
            "kept-taken-over",
            "kept-released",
            "cron-fired",
            "cron-caught-up",
            "approval-given",
            "approval-refused",
            "approval-given-after-takeover",
            "approval-refused-after-takeover",
            "denied-by-gate",
            "call-rewritten",
            "parked",
            "resumed-from-park",
            "redriven-under-park",
        ),
        1,
    )
)
"""Situations that the exhaustive set of the simulator must show for its verdict to count."""

PAIRS_REQUIRED: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(
        (
            "taken-over",
            "recovered-by-lookup",
            "recovered-by-rerun",
            "recovered-as-unknown",
            "model-called-again",
            "three-model-calls-bound",
            "attempt-sealed",
            "append-refused",
            "append-refused-after-pause",
            "renewal-lost",
            "claim-released",
            "message-taken-waiting",
            "message-repeat-dropped",
            "message-refused",
            "wake-redelivered",
            "failure-retried",
            "bounded-failure",
            "child-born",
            "child-faster-than-park",
            "timer-fired",
            "event-received",
            "early-wake-kept",
            "cancelled-while-running",
            "job-stopped",
            "job-lost",
            "job-lost-after-freeze",
            "kept-resumed",
            "kept-taken-over",
            "kept-released",
            "approval-refused",
            "approval-refused-after-takeover",
            "parked",
            "resumed-from-park",
        ),
        1,
    )
)
"""Those that the set of pairs must show: its scripts are short, its strikes end or stop a worker."""

SWEEP_FULL_SEEDS: Final = 1_000
"""A sweep of so many seeds is asked for ``SWEEP_REQUIRED``."""

RARE: Final = frozenset(
    {"answer-lost", "job-killed", "kept-taken-over", "cron-caught-up", "approval-refused-after-takeover"}
)
"""Left to exhaustion: chance meets each of them once in hundreds of seeds, such as a worker that is killed with its
append on the way, or one that is away for several occurrences of a cron table."""

SWEEP_REQUIRED: Final[Mapping[str, int]] = MappingProxyType(
    {name: least for name, least in SIM_REQUIRED.items() if name not in RARE}
)
"""What a sweep of so many seeds must show."""

STORM: Final = StormProfile(
    name="storm",
    spread_leases=2.0,
    required_always=MappingProxyType({"taken-over": 1}),
    required=MappingProxyType(
        {
            "taken-over": 10,
            "recovered-by-lookup": 1,
            "recovered-by-rerun": 1,
            "recovered-as-unknown": 1,
            "model-called-again": 1,
            "attempt-sealed": 1,
            "message-taken-running": 1,
            "message-taken-waiting": 1,
            "message-repeat-dropped": 1,
            "child-born": 10,
            "group-born": 1,
            "timer-fired": 1,
            "question-answered": 1,
            "commit-cut-landed": 1,
            "commit-cut-not-landed": 1,
            "job-ended": 1,
            "job-lost": 1,
        }
    ),
    required_together=MappingProxyType(
        {
            "three-starts-bound": 1,
            "three-model-calls-bound": 1,
            "append-refused-after-pause": 1,
            "claim-released": 1,
            "append-unavailable": 1,
            "commit-unknown-landed": 1,
            "commit-unknown-not-landed": 1,
            "commit-cut-landed": 1,
            "commit-cut-not-landed": 1,
            "child-failed-arrived": 1,
            "background-result-told": 1,
            "handback-told": 1,
            "wait-timed-out": 1,
            "event-received": 1,
            "early-wake-kept": 1,
            "wake-redelivered": 1,
            "wake-repeat-dropped": 1,
            "cancelled-while-running": 1,
            "cancelled-while-waiting": 1,
            "cancelled-while-waiting-for-child": 1,
            "cancel-cascaded": 1,
            "closed-and-reopened": 1,
            "depth-refused": 1,
            "job-failed": 1,
            "job-stopped": 1,
            "job-lost-after-freeze": 1,
            "job-of-a-child": 1,
            "job-woke-its-task": 1,
            "kept-resumed": 1,
            "kept-taken-over": 1,
            "kept-released": 1,
            "cron-fired": 1,
            "approval-given": 1,
            "approval-refused": 1,
            "denied-by-gate": 1,
            "call-rewritten": 1,
            "parked": 1,
            "resumed-from-park": 1,
            "redriven-under-park": 1,
        }
    ),
)
"""The storm of `make cluster`."""
