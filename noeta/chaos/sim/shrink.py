"""Makes a failing schedule smaller while it still breaks the same law, within a time, and goes on another day.

Passes leave things out (`shrink_passes.py`), searches strike anew (`shrink_search.py`); whatever fails and is smaller
(`shrink_order.py`) becomes the one to go on from, as its execution recorded it. When every pass has looked at the same
schedule and found nothing, it is a fixed point: no smaller one is known to these passes, which is not to say that
there is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final

from invariants import LAWS
from noeta.chaos.schedule import Schedule, to_json
from noeta.chaos.sim import shrink_passes as passes
from noeta.chaos.sim import shrink_search as searches
from noeta.chaos.sim.replay import execution_of, replay
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.shrink_order import Size, size_of
from noeta.chaos.sim.shrink_scripts import is_playable
from noeta.chaos.sim.shrink_search import Found
from noeta.chaos.sim.shrink_state import State, name_of, read_state, write_state
from noeta.chaos.sim.watch import Watched, watch
from noeta.core.errors import BadInput

Tell = Callable[[str], None]
"""Hears of every improvement, in a line."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What came of it. ``before``: of the schedule as given, ``after``: of this one. ``executions`` and ``seconds``
    count this call alone. ``is_fixed_point``: it cannot be made smaller by these passes."""

    schedule: Schedule
    law: str
    before: Size
    after: Size
    executions: int
    seconds: float
    is_fixed_point: bool

    def told(self) -> str:
        """In a line."""
        end = "cannot be made smaller by these passes" if self.is_fixed_point else "out of time: may get smaller yet"
        return (
            f"{self.law}: {self.before.told()} -> {self.after.told()} "
            f"({self.executions} executions, {self.seconds:.1f} s; {end})"
        )


def shrink(
    schedule: Schedule,
    law: str | None = None,
    *,
    seconds: float,
    progress: Tell = lambda line: None,
    state: Path | None = None,
    make_store: MakeStore | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Shrunk:
    """A schedule that breaks the same law and is smaller, or this one.

    Args:
        law: the key of what must stay broken; None: the first that is, laws before the simulator's own findings.
        seconds: how long to look. A pass that is under way is left.
        state: the file in which progress is kept, see ``state_beside``; a second call goes on from it.

    Raises:
        BadInput: the schedule is a storm's, or breaks nothing (or not this law) when it is played; or the file of the
            state holds something else.
    """
    began = clock()
    result = replay(schedule, make_store=make_store)
    chosen = _law_of(result, law)
    earlier = read_state(state) if state is not None else None
    hunt = _Hunt(chosen, schedule, result.schedule, make_store, began + seconds, progress, clock, state)
    hunt.executions = 1
    if earlier is not None and (earlier.of, earlier.law) == (hunt.of, chosen):
        hunt.resume(earlier)
    is_fixed_point = hunt.run()
    return Shrunk(
        hunt.best,
        chosen,
        size_of(schedule),
        size_of(hunt.best),
        hunt.executions,
        round(clock() - began, 3),
        is_fixed_point,
    )


class _OutOfTime(Exception):
    """The time is over."""


@dataclass
class _Hunt:
    """Implements ``shrink_passes.Hunt`` and ``shrink_search.Ground``."""

    law: str
    given: Schedule
    best: Schedule
    make_store: MakeStore | None
    deadline: float
    progress: Tell
    clock: Callable[[], float]
    state: Path | None
    executions: int = 0
    settled: set[str] = field(default_factory=set)
    memory: dict[str, Found] = field(default_factory=dict)
    before: State | None = None
    _seen: set[str] = field(default_factory=set)
    _watched: Watched | None = None
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = size_of(self.best)
        self._began = self.clock()

    @cached_property
    def of(self) -> str:
        """The schedule that is shrunk, by its hash."""
        return name_of(self.given)

    @property
    def watched(self) -> Watched:
        """The best one, played under observation."""
        if self._watched is None:
            self.executions += 1
            self._watched = watch(self.best, make_store=self.make_store)
        return self._watched

    def resume(self, earlier: State) -> None:
        """Go on from here, if it still fails: the code may have changed."""
        result, is_best = self._judged(execution_of(earlier.best, make_store=self.make_store))
        if is_best or result.schedule == self.best:
            self.settled = set(earlier.settled)
            self.before = earlier
            self._write()

    def run(self) -> bool:
        """All passes until none finds anything, or the time is over. Whether it is a fixed point."""
        try:
            while left := [name for name in PASSES if name not in self.settled]:
                size = self.size
                PASSES[left[0]](self)
                if self.size == size:
                    self.settled.add(left[0])
                self._write()
        except _OutOfTime:
            self._write()
            return False
        return True

    def tries(self, candidate: Schedule) -> bool:
        """Play it, unless it was played before or cannot be foretold."""
        assert candidate.play is not None
        name = to_json(candidate)
        if name in self._seen or not is_playable(candidate.play):
            return False
        self._seen.add(name)
        return self.judges(execution_of(candidate, make_store=self.make_store))[1]

    def judges(self, execution: Execution) -> tuple[Result, bool]:
        """Play it; whether it breaks the law and is smaller, so that it is the best now."""
        if self.clock() > self.deadline:
            raise _OutOfTime
        return self._judged(execution)

    def _judged(self, execution: Execution) -> tuple[Result, bool]:
        self.executions += 1
        result = execution.run()
        if self.law not in result.convicted:
            return result, False
        size = size_of(result.schedule)
        if size >= self.size:
            return result, False
        self.best, self.size, self._watched = result.schedule, size, None
        self.settled.clear()
        self._write()
        self.progress(f"{size.told()} ({self.executions} executions)")
        return result, True

    def _write(self) -> None:
        if self.state is not None:
            before = self.before
            write_state(
                self.state,
                State(
                    self.of,
                    self.law,
                    self.best,
                    tuple(sorted(self.settled)),
                    self.executions + (before.executions if before is not None else 0),
                    round(self.clock() - self._began + (before.seconds if before is not None else 0.0), 3),
                ),
            )


PASSES: Final[Mapping[str, Callable[[_Hunt], None]]] = MappingProxyType(
    {
        "no turns": passes.no_turns,
        "fewer faults": passes.fewer_faults,
        "fewer tasks": passes.fewer_tasks,
        "fewer messages": passes.fewer_messages,
        "fewer workers": passes.fewer_workers,
        "some strikes on the small scripts": searches.some_strikes,
        "smaller scripts": passes.smaller_scripts,
        "fewer turns": passes.fewer_turns,
        "plainer faults": passes.plainer_faults,
        "true clocks": passes.true_clocks,
        "strictly": passes.strictly,
        "short names": passes.short_names,
        "one strike anew": searches.again_one,
        "one strike on the small scripts": searches.small_scripts_one,
        "two strikes anew": searches.again_two,
        "two strikes on the small scripts": searches.small_scripts_two,
    }
)
"""Every pass and search: what takes most away for the least time comes first."""


def _law_of(result: Result, law: str | None) -> str:
    convicted = result.convicted
    if not convicted:
        raise BadInput("schedule", f"expected one that breaks a law, found {result.verdict.value} when it was played")
    if law is None:
        return next((one.key for one in LAWS if one.key in convicted), min(convicted))
    if law not in convicted:
        raise BadInput("law", f"expected one of {', '.join(sorted(convicted))}, found {law!r}")
    return law
