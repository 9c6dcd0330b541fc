"""A schedule played under observation: every point that was passed, and what stood there when a fault struck.

The schedule of a result names the n-th passing of a point, which repeats an execution exactly and drifts as soon as
something before it is left out. Here the same strikes are also named by what they hit (*the append of ToolStarted to
t3*), which is how a person names them, and what survives when other tasks are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from noeta.chaos.schedule import CLIENT, EVERY_WORKER, AtPoint, Fault, Schedule
from noeta.chaos.sim.replay import execution_of
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.strikes import Plan

_NAMING: Final = ("task", "events")
"""The facts by which a passing is named; ``seq`` is left out: it drifts like a count."""


@dataclass(frozen=True, slots=True)
class Passing:
    """A process reached a point. ``at``: virtual microseconds."""

    at: int
    process: str
    point: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that struck, where it did, and the same fault named by what it hit, whichever process of its name
    comes there."""

    fault: Fault
    passing: Passing
    by_facts: Fault

    @property
    def by_anybody(self) -> Fault:
        """Named by what it hit, whichever worker comes there first."""
        anchor = self.by_facts.anchor
        assert isinstance(anchor, AtPoint)
        if anchor.worker == CLIENT or not anchor.where:
            return self.by_facts
        loose = msgspec.structs.replace(anchor, worker=None)
        return msgspec.structs.replace(self.by_facts, target=EVERY_WORKER, anchor=loose)

    @property
    def is_below(self) -> bool:
        """Whether it hit a sub-agent, whose id holds the place of the call that delegated to it."""
        return "." in str(self.passing.facts.get("task", ""))

    @property
    def by_events(self) -> Fault:
        """Of a sub-agent, named by the last of what was written there, whoever comes there and whatever its id, for
        the first time: those below are there before those above."""
        anchor = self.by_anybody.anchor
        assert isinstance(anchor, AtPoint)
        if not self.is_below or anchor.worker == CLIENT or "events" not in anchor.where:
            return self.by_anybody
        last = str(self.passing.facts["events"]).rpartition(",")[2]
        loose = msgspec.structs.replace(anchor, n=1, where={"events": last})
        return msgspec.structs.replace(self.by_anybody, anchor=loose)


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen. ``execution`` has been played: it is read for what it left behind."""

    execution: Execution
    result: Result
    passings: tuple[Passing, ...]
    struck: tuple[Struck, ...]


def watch(schedule: Schedule, *, make_store: MakeStore | None = None) -> Watched:
    """Play a schedule and note everything.

    Raises:
        BadInput: it is a storm's.
    """
    execution = execution_of(schedule, make_store=make_store)
    eyes = _Eyes(execution.plan, [], [])
    execution.plan = eyes.plan
    result = execution.run()
    return Watched(execution, result, tuple(eyes.passings), tuple(eyes.struck))


@dataclass(slots=True)
class _Eyes:
    """A plan that asks another, and looks on."""

    asked: Plan
    passings: list[Passing]
    struck: list[Struck]

    def plan(self, execution: Execution, process: SimProcess, point: str, facts: Mapping[str, object]) -> None:
        passing = Passing(execution.scheduler.now, process.name, point, dict(facts))
        self.passings.append(passing)
        before = len(execution.struck_faults)
        self.asked(execution, process, point, facts)
        for fault in execution.struck_faults[before:]:
            self.struck.append(Struck(fault, passing, self._by_facts(fault, passing)))

    def _by_facts(self, fault: Fault, passing: Passing) -> Fault:
        anchor = fault.anchor
        assert isinstance(anchor, AtPoint)
        where = {name: _first(passing.facts[name]) for name in _NAMING if passing.facts.get(name)}
        if not where:
            return fault
        named = msgspec.structs.replace(anchor, incarnation=0, where=where)
        n = sum(
            one.process == passing.process and one.point == passing.point and named.counts(one.facts)
            for one in self.passings
        )
        return msgspec.structs.replace(fault, anchor=msgspec.structs.replace(named, n=n))


def _first(fact: object) -> str:
    """Of several events in one append the first names it well enough."""
    return str(fact).partition(",")[0]
