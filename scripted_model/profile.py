"""Which kinds of tasks a workload mixes, how often, and in which measure of time: data, to be replaced by a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from noeta.core.limits import GROUP_MEMBERS_MAX, LEASE_SECONDS_MAX
from noeta.core.retry import DEFAULT_MAX_ATTEMPTS


class Kind(Enum):
    """What a task is about; beside it every task makes a few ordinary calls."""

    PLAIN = "plain"
    RETRY_SAFE = "retry-safe"
    RECOVERABLE = "recoverable"
    SLOW = "slow"
    SEVERAL_CALLS = "several-calls"
    ODD_TEXT = "odd-text"
    LONG_TEXT = "long-text"
    NOTED = "noted"
    """One-shot, with a note that may come too late."""
    KILLER_PLAIN = "killer-plain"
    KILLER_RETRY_SAFE = "killer-retry-safe"
    """Dies below the bound of starts, and goes on."""
    KILLER_BOUND = "killer-bound"
    """Dies at every start, until the bound."""
    KILLER_RECOVERABLE = "killer-recoverable"
    KILLER_MODEL = "killer-model"
    ERRORS_BELOW = "errors-below"
    ERRORS_BOUND = "errors-bound"
    """The provider fails until the last attempt, or for ever."""
    CUT_BELOW = "cut-below"
    CUT_BOUND = "cut-bound"
    EMPTY = "empty"
    """Below the bound in one place, and at it in the end."""
    INTERACTIVE = "interactive"
    INTERACTIVE_HURT = "interactive-hurt"
    """Turns that fail, and a next turn all the same."""
    TIMER = "timer"
    QUESTION = "question"
    QUESTION_TIMEOUT = "question-timeout"
    """Nobody answers, or perhaps too late."""
    EVENT = "event"
    """Early, late, twice, with and without payload, and not at all within the time."""
    AGENT = "agent"
    AGENT_FAST = "agent-fast"
    """Sub-agents that end at once."""
    AGENT_FAILS = "agent-fails"
    GROUP = "group"
    NESTED = "nested"
    """Sub-agents of sub-agents."""
    TOO_DEEP = "too-deep"
    """Delegates down to the budget, and once more."""
    BACKGROUND = "background"
    """Sub-agents that nobody waits for, of a task that ends and of one that does not."""
    HANDBACK = "handback"
    CANCELLED = "cancelled"
    """Ended from outside: while nobody has it, while it works, while it waits."""
    CLOSED = "closed"
    """A turn that is stopped, and a next turn all the same."""
    FLOOD = "flood"
    """Many events that nobody waits for, while it ends."""
    JOB = "job"
    """A background shell ends, well or badly, while the task works."""
    JOB_WAKES = "job-wakes"
    """One ends while the task rests between turns."""
    JOB_OUTLIVES = "job-outlives"
    """The task ends before its shell does."""
    JOB_BELOW = "job-below"
    """A sub-agent starts one and ends at once, or goes on."""
    JOB_SEVERAL = "job-several"
    JOB_CALLS = "job-calls"
    """Its shell is read and stopped by later calls."""
    KEPT = "kept"
    """Waits for a person, a timer, an event or a child while its worker keeps the claim for a shell."""
    CRON = "cron"
    """Woken by its table, until that is removed. At least once, if ``cron_seconds`` are a minute or more."""
    APPROVAL = "approval"
    """A person approves a call, or does not."""
    GATED = "gated"
    """A gate denies or rewrites a call."""
    PARKED = "parked"
    """Work that a person decides about, if somebody's fault leaves its outcome unknown."""
    PARKED_KILLER = "parked-killer"
    """The same, by its own doing."""


DEFAULT_WEIGHTS: Final[Mapping[Kind, int]] = MappingProxyType(
    {
        Kind.PLAIN: 10,
        Kind.RETRY_SAFE: 8,
        Kind.RECOVERABLE: 8,
        Kind.SLOW: 14,
        Kind.SEVERAL_CALLS: 8,
        Kind.ODD_TEXT: 3,
        Kind.LONG_TEXT: 2,
        Kind.NOTED: 5,
        Kind.KILLER_PLAIN: 2,
        Kind.KILLER_RETRY_SAFE: 2,
        Kind.KILLER_BOUND: 1,
        Kind.KILLER_RECOVERABLE: 2,
        Kind.KILLER_MODEL: 1,
        Kind.ERRORS_BELOW: 3,
        Kind.ERRORS_BOUND: 2,
        Kind.CUT_BELOW: 3,
        Kind.CUT_BOUND: 1,
        Kind.EMPTY: 2,
        Kind.INTERACTIVE: 14,
        Kind.INTERACTIVE_HURT: 5,
        Kind.TIMER: 5,
        Kind.QUESTION: 5,
        Kind.QUESTION_TIMEOUT: 3,
        Kind.EVENT: 5,
        Kind.AGENT: 7,
        Kind.AGENT_FAST: 4,
        Kind.AGENT_FAILS: 3,
        Kind.GROUP: 5,
        Kind.NESTED: 4,
        Kind.TOO_DEEP: 2,
        Kind.BACKGROUND: 5,
        Kind.HANDBACK: 3,
        Kind.CANCELLED: 5,
        Kind.CLOSED: 4,
        Kind.FLOOD: 2,
        Kind.JOB: 4,
        Kind.JOB_WAKES: 4,
        Kind.JOB_OUTLIVES: 3,
        Kind.JOB_BELOW: 3,
        Kind.JOB_SEVERAL: 2,
        Kind.JOB_CALLS: 3,
        Kind.KEPT: 6,
        Kind.CRON: 2,
        Kind.APPROVAL: 4,
        Kind.GATED: 2,
        Kind.PARKED: 5,
        Kind.PARKED_KILLER: 2,
    }
)
"""Mostly work that takes time and can be hurt; killers are few, because each takes its neighbours along."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How a workload is drawn.

    ``at_least``: how often a kind is there in any workload that has room for all of them; others are there once.
    ``slow_leases``, ``think_leases`` and ``wait_leases`` (timers, and the time limits of other waits): from and to, in
    leases. ``spread_leases``: tasks become due over this span. ``huge``: long texts have about a million
    characters instead of tens of thousands. ``group_members`` at the most, ``flood_events`` in all. ``shell_leases``:
    between two lines of a background shell. ``cron_seconds``: from and to, after how long a cron table is removed: it
    knows nothing finer than minutes.
    """

    weights: Mapping[Kind, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    at_least: Mapping[Kind, int] = field(default_factory=lambda: MappingProxyType({}))
    lease_seconds: float = 1.0
    retry_attempts: int = DEFAULT_MAX_ATTEMPTS
    slow_leases: tuple[float, float] = (0.2, 2.5)
    think_leases: tuple[float, float] = (0.0, 0.3)
    spread_leases: float = 5.0
    huge: bool = False
    wait_leases: tuple[float, float] = (0.5, 3.0)
    group_members: int = 5
    flood_events: int = 12
    shell_leases: tuple[float, float] = (0.05, 0.3)
    cron_seconds: tuple[float, float] = (61.0, 75.0)

    def __post_init__(self) -> None:
        if not 0 < self.lease_seconds <= LEASE_SECONDS_MAX:
            raise ValueError(f"lease_seconds: above 0 and at most {LEASE_SECONDS_MAX:g}, found {self.lease_seconds}")
        if self.retry_attempts < 2:
            raise ValueError(f"retry_attempts: at least 2, or no failure can pass, found {self.retry_attempts}")
        if not self.weights or any(weight < 1 for weight in self.weights.values()):
            raise ValueError(f"weights: at least one kind, each at least 1, found {dict(self.weights)}")
        for kind, times in self.at_least.items():
            if kind not in self.weights or times < 1:
                raise ValueError(f"at_least: at least 1, of a kind that has a weight, found {times} of {kind.value}")
        spans = (
            ("slow_leases", self.slow_leases),
            ("think_leases", self.think_leases),
            ("cron_seconds", self.cron_seconds),
        )
        for name, (low, high) in spans:
            if not 0 <= low <= high:
                raise ValueError(f"{name}: from at least 0 up to no less, found {low} to {high}")
        for name, (low, high) in (("wait_leases", self.wait_leases), ("shell_leases", self.shell_leases)):
            if not 0 < low <= high:
                raise ValueError(f"{name}: from above 0 up to no less, found {(low, high)}")
        if not 1 <= self.group_members <= GROUP_MEMBERS_MAX:
            raise ValueError(f"group_members: from 1 to {GROUP_MEMBERS_MAX}, found {self.group_members}")
        if self.flood_events < 1:
            raise ValueError(f"flood_events: at least 1, found {self.flood_events}")
        if self.spread_leases < 0:
            raise ValueError(f"spread_leases: at least 0, found {self.spread_leases}")
