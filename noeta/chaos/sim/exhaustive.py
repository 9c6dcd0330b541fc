"""Strikes at every yield point of every script, one execution each, until a run ends without reaching the strike.

After SQLite's and CrashMonkey's way of testing: not "a crash now and then" but every one there is, counted. The
modes differ in what the strike is. A killed worker never writes again; a frozen one comes back after its lease
and tries to, which is what a fence is for; and a message posted at every point is how a wake would get lost.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from types import MappingProxyType
from typing import Final

from invariants import LAWS, Verdict, merge
from noeta.chaos.sim.run import Execution, Result, Strike, StrikeKind, can_hit, strike_at
from noeta.chaos.sim.scripts import CASES, LEASE_SECONDS, Case
from noeta.chaos.sim.seeded import silence
from noeta.core.texts import MAX_MODEL_ATTEMPTS


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to strike, at the n-th point. ``title`` says it to people. ``after``: strikes that come first, always
    at the same place. ``only``: the cases it is for, if not all."""

    name: str
    title: str
    strike: Callable[[int], Strike]
    after: tuple[Strike, ...] = ()
    only: frozenset[str] = frozenset()

    def fits(self, case: Case) -> bool:
        """Whether there is anything to find in this case."""
        return (case.says or self.name != "say") and (not self.only or case.name in self.only)


def _spoil(kind: StrikeKind, title: str) -> Mode:
    return Mode(kind, title, lambda n: Strike(kind, n))


_MODES: Final = (
    Mode("kill", "SIGKILL", lambda n: Strike("kill", n)),
    Mode("lapse", "SIGSTOP for 1.5 leases, alone", lambda n: Strike("freeze", n, 1.5 * LEASE_SECONDS, spare=False)),
    Mode("freeze", "SIGSTOP for 2.5 leases, taken over", lambda n: Strike("freeze", n, 2.5 * LEASE_SECONDS)),
    _spoil("unavailable", "the store cannot be asked"),
    _spoil("unknown_lost", "connection lost, nothing landed"),
    _spoil("unknown_landed", "connection lost, it landed"),
    _spoil("unknown_later", "connection lost, it lands later"),
    Mode(
        "kill_adopted",
        "SIGKILL, the task adopted after an unknown claim",
        lambda n: Strike("kill", n),
        after=(Strike("unknown_landed", 1),),
        only=frozenset({"plain", "retry-safe"}),
    ),
    Mode("say", "a message comes", lambda n: Strike("say", n)),
)

CALM: Final = "calm"
"""The mode of an execution without a strike."""

KILLS: Final = frozenset({"kill", "kill_adopted"})
"""The modes in which the worker dies."""

MODES: Final = MappingProxyType({mode.name: mode for mode in _MODES})


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
    paths: Counter[str] = field(default_factory=Counter)
    bad: list[Bad] = field(default_factory=list)


@dataclass(slots=True)
class Search:
    """What a whole search found. ``seen``: how much each law saw over all executions."""

    rows: list[Row] = field(default_factory=list)
    executions: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def killed_at(self) -> Counter[str]:
        """How often a worker was killed at each named point."""
        return sum((row.struck for row in self.rows if row.mode in KILLS), Counter[str]())

    @property
    def unseen_laws(self) -> list[str]:
        """Laws that saw nothing in any execution."""
        return [law.key for law in LAWS if not self.seen[law.key]]

    @property
    def bad(self) -> list[tuple[Row, Bad]]:
        """Every execution that was not valid."""
        return [(row, bad) for row in self.rows for bad in row.bad]

    def verdict(self, *, whole: bool) -> Verdict:
        """``whole``: the full set was searched, so a law that saw nothing leaves the answer unknown."""
        verdicts = [bad.result.verdict for _, bad in self.bad]
        if self.executions:
            verdicts.append(Verdict.UNKNOWN if whole and self.unseen_laws else Verdict.VALID)
        return merge(verdicts)

    def add(self, other: Search) -> None:
        """Put in what a search of other cases found."""
        self.rows += other.rows
        self.executions += other.executions
        self.seen.update(other.seen)


Progress = Callable[[Search], None]


def search(
    cases: Sequence[Case] = tuple(CASES.values()),
    modes: Sequence[Mode] = _MODES,
    *,
    depth: int = 1,
    stop_at_first: bool = False,
    progress: Progress = lambda search: None,
) -> Search:
    """Every strike of every mode on every case. ``depth``: how many strikes an execution takes, each at every
    point after the one before. ``progress`` is called after every execution."""
    found = Search()
    for row, one in _executions(cases, modes, depth):
        if row not in found.rows[-1:]:
            found.rows.append(row)
        _count(found, row, one)
        progress(found)
        if stop_at_first and row.bad:
            break
    return found


def _executions(cases: Sequence[Case], modes: Sequence[Mode], depth: int) -> Iterator[tuple[Row, Bad]]:
    """Every case without a strike first, in the row of a mode that does nothing; then the strikes."""
    calm: dict[str, Result] = {}
    for case in cases:
        calm[case.name] = Execution(case).run()
        yield Row(case.name, CALM, len(calm[case.name].points)), Bad((), calm[case.name])
    for case in cases:
        for mode in modes:
            if mode.fits(case):
                row = Row(case.name, mode.name, len(calm[case.name].points))
                begun = Execution(case, strike_at(mode.after)).run() if mode.after else calm[case.name]
                points = begun.points[sum(strike.after for strike in mode.after) :]
                for one in struck_everywhere(case, mode, depth, points, mode.after):
                    yield row, one


def search_in_parallel(
    cases: Sequence[Case], modes: Sequence[Mode], *, depth: int, jobs: int, progress: Progress
) -> Search:
    """``search``, its cases shared among so many processes. ``progress`` is called after every case."""
    found = Search()
    # Fresh interpreters: a fork would copy whatever threads the caller has.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=silence) as pool:
        names = tuple(mode.name for mode in modes)
        for part in pool.map(
            _search_one, [case.name for case in cases], itertools.repeat(names), itertools.repeat(depth)
        ):
            found.add(part)
            progress(found)
    return found


def strikes_of(text: str) -> tuple[Strike, ...]:
    """The strikes that ``kill@5,freeze@7`` spells.

    Raises:
        ValueError: it spells none; says what would.
    """
    strikes: list[Strike] = []
    for part in text.split(","):
        name, _, n = part.strip().partition("@")
        if name not in MODES or not n.isdecimal() or int(n) < 1:
            raise ValueError(
                f"expected MODE@POINT with a mode of {', '.join(MODES)} and a point from 1, found {part!r}"
            )
        mode = MODES[name]
        strikes += [*(mode.after if not strikes else ()), mode.strike(int(n))]
    return tuple(strikes)


def _search_one(case: str, modes: tuple[str, ...], depth: int) -> Search:
    return search([CASES[case]], [MODES[mode] for mode in modes], depth=depth)


def struck_everywhere(
    case: Case, mode: Mode, depth: int, points: Sequence[str], before: tuple[Strike, ...] = ()
) -> Iterator[Bad]:
    """The executions of a case with one more strike than ``before``, at point 1, 2, 3, … until one is not reached;
    after each, if there is depth left, those with yet another.

    ``points``: the names of those to come, from an execution without the strike. Until it strikes, an execution is
    the same, so a point where there is nothing to hit need not be played.
    """
    for n in itertools.count(1):
        strikes = (*before, mode.strike(n))
        if n <= len(points) and not can_hit(strikes[-1].kind, points[n - 1]):
            continue
        execution = Execution(case, strike_at(strikes), excuses=len(strikes) >= MAX_MODEL_ATTEMPTS)
        result = execution.run()
        if execution.strikes_made < len(strikes):
            return
        if len(result.struck) < len(strikes):
            continue  # nothing was left to say
        yield Bad(strikes, result)
        if depth > 1:
            reached = sum(strike.after for strike in strikes)
            yield from struck_everywhere(case, mode, depth - 1, result.points[reached:], strikes)


def _count(found: Search, row: Row, one: Bad) -> None:
    result = one.result
    found.executions += 1
    for law in result.report.laws:
        found.seen[law.law.key] += law.seen
    if one.strikes:
        row.strikes += 1
        row.valid += result.verdict is Verdict.VALID
        row.struck.update(result.struck)
        row.paths.update(result.paths)
    if result.verdict is not Verdict.VALID:
        row.bad.append(one)
