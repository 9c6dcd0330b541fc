"""What a tool is, and what it promises about being run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, runtime_checkable

from noeta.core.jobs import Jobs, JobSpec
from noeta.core.store import Post
from noeta.core.wake import ExternalEvent, HumanResponseReceived, TimerFired

MAX_ATTEMPTS: Final = 3
"""Starts of a ``retry_safe`` call in all, so a call that kills its worker is not run forever. Keeps: bounded."""


OUTPUT_BYTES_MAX: Final = 2 * 1024 * 1024
"""What is kept of a tool's output, in bytes of its encoded form; the rest is cut, and the output says so."""


class StepCancelled(Exception):
    """A tool raises this when ``ctx.cancelled`` made it stop half way: nothing is recorded, and the next owner
    of the task decides about the call as about any interrupted one."""


class OnUnknown(Enum):
    """What happens to a call whose outcome nobody can tell."""

    TELL = "tell"
    """The call gets an error result that says so, and the model looks for itself."""
    PARK = "park"
    """The attempt is sealed and the task rests until a person says how to go on."""


@dataclass(frozen=True, slots=True)
class ToolFlags:
    """``retry_safe``: running the tool again changes nothing outside the call."""

    retry_safe: bool = False


@dataclass(frozen=True, slots=True)
class ChildAsked:
    """A sub-agent that a call wants: which agent, and what is asked of it."""

    agent: str
    goal: str


@dataclass(frozen=True, slots=True)
class CronAsked:
    """A table entry that wakes the task: ``expression`` (five fields) by the clock of ``zone`` (an IANA name). Each
    time it is due, a turn begins with ``prompt``."""

    expression: str
    zone: str
    prompt: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model is told. An error is a result like any other: the model reads it.

    ``children`` are born with the result and run in the background: they belong to the root of the tree, which is told
    what comes of them. ``posts`` reach other tasks with the result. ``job`` is started once the result is durable.
    ``crons`` are added to the task's table, ``crons_removed`` (their ids) taken from it. A tool names all of them as
    data and does nothing itself, so that a crash before the append leaves none. Keeps: children-once, jobs-told-once.
    """

    output: str
    is_error: bool = False
    children: tuple[ChildAsked, ...] = ()
    posts: tuple[Post, ...] = ()
    job: JobSpec | None = None
    crons: tuple[CronAsked, ...] = ()
    crons_removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parked:
    """The call has no result yet; the task rests until it comes.

    Either it waits for ``wake_on``, or for the results of these ``children``, which are born with the park: one child,
    or a group of which all must end.
    """

    wake_on: HumanResponseReceived | ExternalEvent | TimerFired | None = None
    children: tuple[ChildAsked, ...] = ()


ToolOutcome = ToolResult | Parked


class CronState(Protocol):
    """One entry of a task's cron table. ``last``: the occurrence it fired for last, or when it was made, in seconds
    since the epoch."""

    @property
    def expression(self) -> str: ...

    @property
    def zone(self) -> str: ...

    @property
    def prompt(self) -> str: ...

    @property
    def last(self) -> float: ...


class ToolContext(Protocol):
    """What a running tool can see and do."""

    @property
    def task_id(self) -> str: ...

    @property
    def call_id(self) -> str: ...

    @property
    def start(self) -> int:
        """Which start of this call this is, from 1; in ``recover``, the last one made."""
        ...

    @property
    def idempotency_key(self) -> str:
        """``<task id>:<call id>``: the same on every worker and at every start."""
        ...

    @property
    def started_at(self) -> float:
        """When this start was recorded, by the store's clock, in seconds since the epoch: the same for whoever asks
        later, and the only instant from which a timer may count. Keeps: timers-once."""
        ...

    @property
    def parent_task_id(self) -> str | None:
        """Who gets this task's result."""
        ...

    @property
    def root_task_id(self) -> str:
        """The top of the tree this task stands in: it owns what outlives a step."""
        ...

    @property
    def subtask_depth(self) -> int:
        """How deep in the tree this task stands; 0 at the root."""
        ...

    @property
    def interactive(self) -> bool:
        """Whether the task rests between turns, and does not end with one."""
        ...

    @property
    def jobs(self) -> Jobs | None:
        """The background jobs of this claim; None: this worker runs none."""
        ...

    @property
    def crons(self) -> Mapping[str, CronState]:
        """The task's cron table, by id."""
        ...

    @property
    def cancelled(self) -> bool:
        """The claim is lost, the worker stops, or the task is to end: return soon, or raise ``StepCancelled``. What you
        return is recorded if the claim still holds."""
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep through the world; True if the step was cancelled meanwhile."""
        ...

    def point(self, name: str, **facts: object) -> None:
        """A named crash point inside the tool."""
        ...


class Tool(Protocol):
    """A tool the model may call."""

    @property
    def name(self) -> str: ...

    @property
    def flags(self) -> ToolFlags: ...

    def run(self, input: Any, ctx: ToolContext) -> ToolOutcome:
        """Do it. An exception becomes an error result."""
        ...


@runtime_checkable
class Recovers(Protocol):
    """A tool that can look up what an interrupted call did."""

    def recover(self, input: Any, ctx: ToolContext) -> ToolOutcome | None:
        """The result, if it can tell what happened; None if it cannot. A tool that does nothing by itself, and only
        names children, posts or a wait, simply runs again."""
        ...
