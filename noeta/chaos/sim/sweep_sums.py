"""What executions add up to. A chunk of seeds has sums, and a sweep has the sums of its chunks; bounded memory, however
many there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from invariants import Verdict
from noeta.chaos.schedule import AtPoint, Fault, Kind, Schedule
from noeta.chaos.sim.result import Result
from noeta.core.ids import micros

K = TypeVar("K")


class Sums(msgspec.Struct):
    """Counts over executions.

    ``excused``: outcomes, among those of ``tasks``, that are not what was foretold, and faults excuse it.
    ``strikes``: by kind. ``kills``: the places, as ``point worker#incarnation``, at which a process was killed.
    ``seen``: how much each law saw. ``switches``: how many executions had so many context switches.
    ``activities``, ``choices``: the most of one execution. ``virtual_micros``: simulated time, in whole microseconds,
    so that sums in any order are equal.
    """

    executions: int = 0
    tasks: int = 0
    excused: int = 0
    verdicts: dict[Verdict, int] = {}
    convicted: dict[str, int] = {}
    strikes: dict[Kind, int] = {}
    kills: set[str] = set()
    situations: dict[str, int] = {}
    seen: dict[str, int] = {}
    switches: dict[int, int] = {}
    activities: int = 0
    choices: int = 0
    virtual_micros: int = 0

    def count(self, result: Result) -> None:
        """One more execution."""
        self.absorb(
            Sums(
                executions=1,
                tasks=result.report.tasks,
                excused=result.excused,
                verdicts={result.verdict: 1},
                convicted=dict.fromkeys(result.convicted, 1),
                kills=set(_kills(result)),
                situations=dict(result.situations),
                seen={law.law.key: law.seen for law in result.report.laws},
                switches={result.switches: 1},
                activities=result.activities,
                choices=result.choices,
                virtual_micros=micros(result.seconds),
            )
        )
        for fault in strikes_in(result.schedule):
            self.strikes[fault.kind] = self.strikes.get(fault.kind, 0) + 1

    def absorb(self, other: Sums) -> None:
        """Everything that others add up to."""
        self.executions += other.executions
        self.tasks += other.tasks
        self.excused += other.excused
        self.kills |= other.kills
        self.activities = max(self.activities, other.activities)
        self.choices = max(self.choices, other.choices)
        self.virtual_micros += other.virtual_micros
        _add(self.verdicts, other.verdicts)
        _add(self.convicted, other.convicted)
        _add(self.strikes, other.strikes)
        _add(self.situations, other.situations)
        _add(self.seen, other.seen)
        _add(self.switches, other.switches)

    @property
    def bad(self) -> int:
        """Executions that were not valid."""
        return self.executions - self.verdicts.get(Verdict.VALID, 0)

    def switches_spread(self) -> tuple[int, int, int]:
        """The fewest context switches of an execution, the median (the lower of two), the most; zeros for none."""
        if not self.switches:
            return 0, 0, 0
        ranked = sorted(self.switches.items())
        left = (sum(self.switches.values()) + 1) // 2
        for switches, executions in ranked:
            left -= executions
            if left <= 0:
                return ranked[0][0], switches, ranked[-1][0]
        raise AssertionError("counts add up to more than their sum")


def strikes_in(schedule: Schedule) -> Iterator[Fault]:
    """The faults that struck; wrong clocks are a property of workers, and no strike."""
    return (fault for fault in schedule.faults if fault.kind is not Kind.SKEW)


def _kills(result: Result) -> Iterator[str]:
    for fault in strikes_in(result.schedule):
        match fault.anchor:
            case AtPoint(point=point, incarnation=incarnation) if fault.kind is Kind.KILL:
                yield f"{point} {fault.target}#{incarnation}"
            case _:
                pass


def _add(into: dict[K, int], more: Mapping[K, int]) -> None:
    for name, count in more.items():
        into[name] = into.get(name, 0) + count
