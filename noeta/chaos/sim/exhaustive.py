"""Strikes at every yield point of every script, one execution each, until a run ends without reaching the strike.

After SQLite's and CrashMonkey's way of testing: not "a crash now and then" but every one there is, counted. The
modes differ in what the strike is (`modes.py`). A killed worker never writes again; a paused one comes back after its
lease and tries to, which is what a fence is for; and a message posted at every point is how a wake would get lost.
``depth`` 2 strikes again at every point after the first strike, so at every point of every recovery.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from invariants import LAWS, SERVER_LAWS, Verdict, merge
from noeta.chaos.profiles import PAIRS_REQUIRED, SIM_REQUIRED
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.modes import CALM, KILLS, MODES, Mode
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution, Playable
from noeta.chaos.sim.scripts import Case
from noeta.chaos.sim.strikes import Strike, can_hit, in_order
from noeta.core.texts import MAX_MODEL_ATTEMPTS

PAIRS: Final = (
    "plain",
    "retry-safe",
    "recoverable",
    "slow-retry-safe",
    "interactive-short",
    "killer-model",
    "noted-late",
    "errors-refused",
    "unresolved",
    "timer",
    "event-early",
    "agent-fast",
    "cancel-created",
    "cancel-begun",
    "job-outlives",
    "kept-timer",
    "deny",
    "park-and-type",
)
"""The bounded set: scripts short enough for a second strike at every point after the first."""

SKEWS: Final[Mapping[str, float]] = MappingProxyType({"w1": -3600.0, "w2": 3600.0})
"""How wrong the workers' clocks are, in seconds, in every execution of the set: it must not matter."""

PAIR_MODES: Final = ("kill", "freeze", "terminate")
"""What strikes twice there."""


def required_at(depth: int) -> Mapping[str, int]:
    """The situations that the full set of this depth must show."""
    return SIM_REQUIRED if depth == 1 else PAIRS_REQUIRED


@dataclass(frozen=True, slots=True)
class Bad:
    """An execution that was not valid, and the strikes that lead there again."""

    strikes: tuple[Strike, ...]
    result: Result


@dataclass(slots=True)
class Row:
    """One script under one mode. ``points``: yield points of the execution without a strike."""

    case: str
    mode: str
    points: int
    strikes: int = 0
    valid: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    situations: Counter[str] = field(default_factory=Counter)
    bad: list[Bad] = field(default_factory=list)


@dataclass(slots=True)
class Search:
    """What a whole search found. ``seen``: how much each law saw over all executions."""

    rows: list[Row] = field(default_factory=list)
    executions: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def killed_at(self) -> Counter[str]:
        """How often a process was killed at each named point."""
        return sum((row.struck for row in self.rows if row.mode in KILLS), Counter[str]())

    @property
    def situations(self) -> Counter[str]:
        """How often each named situation occurred."""
        return sum((row.situations for row in self.rows), Counter[str]())

    @property
    def unseen_laws(self) -> list[str]:
        """Laws that saw nothing in any execution, though there was something for them."""
        return [law.key for law in LAWS if not self.seen[law.key] and law.key not in SERVER_LAWS]

    def missing(self, required: Mapping[str, int]) -> list[str]:
        """Required situations that did not occur often enough."""
        return [name for name, least in required.items() if self.situations[name] < least]

    @property
    def bad(self) -> list[tuple[Row, Bad]]:
        """Every execution that was not valid."""
        return [(row, bad) for row in self.rows for bad in row.bad]

    def verdict(self, *, required: Mapping[str, int] | None = None) -> Verdict:
        """Nothing struck is unknown. ``required``: a full set was searched, so a law that saw nothing, or one of these
        situations that did not occur, leaves the answer unknown, too."""
        verdicts = [bad.result.verdict for _, bad in self.bad]
        if self.executions:
            too_little = not any(row.strikes for row in self.rows) or (
                required is not None and (self.unseen_laws or self.missing(required))
            )
            verdicts.append(Verdict.UNKNOWN if too_little else Verdict.VALID)
        return merge(verdicts)

    def add(self, other: Search) -> None:
        """Put in what a search of other cases or modes found."""
        self.rows += other.rows
        self.executions += other.executions
        self.seen.update(other.seen)


class NotRepeated(Exception):
    """An execution went another way when its schedule was replayed: something in it is not of the simulator."""


Progress = Callable[[Search], None]


def search(
    cases: Sequence[Case] = tuple(CASES.values()),
    modes: Sequence[Mode] = tuple(MODES.values()),
    *,
    depth: int = 1,
    stop_at_first: bool = False,
    progress: Progress = lambda search: None,
) -> Search:
    """Every strike of every mode on every case. ``depth``: how many strikes an execution takes, each at every
    point after the one before. ``progress`` is called after every execution.

    Raises:
        NotRepeated.
    """
    found = Search()
    for row, one in _executions(cases, modes, depth):
        if row not in found.rows[-1:]:
            found.rows.append(row)
        _count(found, row, one)
        progress(found)
        if stop_at_first and row.bad:
            break
    return found


def search_with(
    executor: Executor, cases: Sequence[Case], modes: Sequence[Mode], *, depth: int, progress: Progress
) -> Search:
    """``search``, shared among the workers of an executor, a case and a mode at a time; the rows come in the order of
    ``search``."""
    pairs: list[tuple[str, tuple[str, ...]]] = [(case.name, ()) for case in cases]
    pairs += [(case.name, (mode.name,)) for case in cases for mode in modes if mode.fits(case)]
    found = Search()
    for part in executor.map(_search_one, *zip(*pairs, strict=True), itertools.repeat(depth)):
        found.add(part)
        progress(found)
    return found


def _search_one(case: str, modes: tuple[str, ...], depth: int) -> Search:
    found = search([CASES[case]], [MODES[mode] for mode in modes], depth=depth)
    if modes:  # the calm execution is a unit of its own
        found.rows.pop(0)
        found.executions -= 1
    return found


def _executions(cases: Sequence[Case], modes: Sequence[Mode], depth: int) -> Iterator[tuple[Row, Bad]]:
    """Every case without a strike first, in the row of a mode that does nothing; then the strikes."""
    calm: dict[str, Result] = {}
    for case in cases:
        calm[case.name] = Execution(case, skews=SKEWS).run()
        yield Row(case.name, CALM, len(calm[case.name].points)), Bad((), calm[case.name])
    for case in cases:
        for mode in modes:
            if mode.fits(case):
                row = Row(case.name, mode.name, len(calm[case.name].points))
                for one in mode_executions(case, mode, depth, calm[case.name]):
                    yield row, one


def mode_executions(case: Playable, mode: Mode, depth: int, calm: Result) -> Iterator[Bad]:
    """Every execution of one mode on one case, the last of them repeated. ``calm``: the one without a strike.

    Raises:
        NotRepeated.
    """
    last: Bad | None = None
    for prefix in mode.prefixes(calm.points):
        begun = Execution(case, in_order(prefix), skews=SKEWS).run() if prefix else calm
        points = begun.client_points if mode.client else begun.points
        left = points[sum(strike.after for strike in prefix) :]
        for last in struck_everywhere(case, mode, depth, left, prefix):
            yield last
    if last is not None and replay(last.result.schedule).trace_hash != last.result.trace_hash:
        raise NotRepeated(
            f"{case.name}, {mode.name} at {', '.join(last.result.struck)}: another execution when it was replayed, so "
            "nothing that was found can be relied on"
        )


def struck_everywhere(
    case: Playable, mode: Mode, depth: int, points: Sequence[str], before: tuple[Strike, ...] = ()
) -> Iterator[Bad]:
    """The executions of a case with one more strike than ``before``, at point 1, 2, 3, … until one is not reached;
    after each, if there is depth left, those with yet another.

    ``points``: the names of those to come, from an execution without the strike. Until it strikes, an execution is
    the same, so a point where there is nothing to hit need not be played.
    """
    for n in itertools.count(1):
        if mode.within is not None and n > mode.within:
            return
        strikes = (*before, mode.strike(n))
        if n <= len(points) and not can_hit(strikes[-1].kind, points[n - 1]):
            continue
        plan = in_order(strikes, client=mode.client)
        execution = Execution(case, plan, skews=SKEWS, excuses=len(strikes) >= MAX_MODEL_ATTEMPTS)
        result = execution.run()
        if execution.strikes_made < len(strikes):
            return
        if len(result.struck) < len(strikes):
            continue  # nothing was left to say
        yield Bad(strikes, result)
        if depth > 1:
            reached = sum(strike.after for strike in strikes)
            left = (result.client_points if mode.client else result.points)[reached:]
            yield from struck_everywhere(case, mode, depth - 1, left, strikes)


def strikes_of(text: str) -> tuple[Strike, ...]:
    """The strikes that ``kill@5,freeze@7`` spells.

    Raises:
        ValueError: it spells none; says what would.
    """
    strikes: list[Strike] = []
    for part in text.split(","):
        name, _, n = part.strip().partition("@")
        if name not in MODES or MODES[name].client or not n.isdecimal() or int(n) < 1:
            spoken = ", ".join(mode.name for mode in MODES.values() if not mode.client)
            raise ValueError(f"expected MODE@POINT with a mode of {spoken} and a point from 1, found {part!r}")
        strikes.append(MODES[name].strike(int(n)))
    return tuple(strikes)


def _count(found: Search, row: Row, one: Bad) -> None:
    result = one.result
    found.executions += 1
    for law in result.report.laws:
        found.seen[law.law.key] += law.seen
    row.situations.update(result.situations)
    if one.strikes:
        row.strikes += 1
        row.valid += result.verdict is Verdict.VALID
        row.struck.update(result.struck[-1:])
    if result.verdict is not Verdict.VALID:
        row.bad.append(one)
