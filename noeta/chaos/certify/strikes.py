"""The real worker over the candidate, in the simulator: struck at every point of some scripts, judged by every law.

``crash``: processes die, stop, and come back. ``faults``: calls are refused, or nobody hears their answer. A bounded
set, because a script is played anew for every point and a store on a disk takes its time; `make sim` plays them all
over the memory store.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from invariants import Verdict, merge
from noeta.chaos.certify.asked import SUBJECTS, Order
from noeta.chaos.certify.candidate import Places, SimulatedStores, load
from noeta.chaos.certify.card import Line
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.modes import MODES, Mode
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scripts import Case
from noeta.chaos.sim.strikes import Strike, can_hit, in_order
from noeta.core.texts import MAX_MODEL_ATTEMPTS

CASES_OF: Final = ("plain", "interactive-short")
"""One that works and ends, one that waits and is woken: between them every verb that a worker uses."""

QUICK_CASES: Final = ("interactive-short",)
LONG: Final = frozenset({"replaced", "in_flight"})
"""Modes of two strikes: the square of the points. Not in a quick run."""

NAMED_MAX: Final = 4


@dataclass(slots=True)
class Struck:
    """What the executions of one mode came to."""

    executions: int = 0
    at: Counter[str] = field(default_factory=Counter)
    verdicts: list[Verdict] = field(default_factory=list)
    bad: Result | None = None
    bad_strikes: str = ""


def strike_everywhere(order: Order) -> Iterator[Line]:
    """A line for each mode of the part."""
    candidate = load(order.store)
    stores = SimulatedStores(candidate, Places(candidate, Path(order.root)))
    cases = [CASES[name] for name in (QUICK_CASES if order.quick else CASES_OF)]
    calm: dict[str, Result] = {}
    for name in SUBJECTS[order.part]:
        if not order.wants(name) or (order.quick and name in LONG):
            continue
        began = time.monotonic()
        struck = Struck()
        for case in cases:
            if MODES[name].fits(case):
                if case.name not in calm:
                    calm[case.name] = Execution(case, make_store=stores).run()
                for strikes, result in _executions(case, MODES[name], stores, calm[case.name]):
                    _count(struck, case, MODES[name], strikes, result)
        yield _line(order.part, MODES[name], struck, time.monotonic() - began)
    stores.close()


def _executions(
    case: Case, mode: Mode, stores: SimulatedStores, calm: Result
) -> Iterator[tuple[Sequence[Strike], Result]]:
    """Every strike of a mode on a case, until one is not reached; the execution without a strike first."""
    yield (), calm
    for prefix in mode.prefixes(calm.points):
        begun = Execution(case, in_order(prefix), make_store=stores).run() if prefix else calm
        points = (begun.client_points if mode.client else begun.points)[sum(one.after for one in prefix) :]
        for n in itertools.count(1) if mode.within is None else range(1, mode.within + 1):
            strikes = (*prefix, mode.strike(n))
            if n <= len(points) and not can_hit(strikes[-1].kind, points[n - 1]):
                continue
            plan = in_order(strikes, client=mode.client)
            excuses = len(strikes) >= MAX_MODEL_ATTEMPTS
            execution = Execution(case, plan, excuses=excuses, make_store=stores)
            result = execution.run()
            if execution.strikes_made < len(strikes):
                break
            if len(result.struck) == len(strikes):
                yield strikes, result


def _count(struck: Struck, case: Case, mode: Mode, strikes: Sequence[Strike], result: Result) -> None:
    struck.executions += 1
    struck.at.update(result.struck[-1:])
    struck.verdicts.append(result.verdict)
    if struck.bad is None and result.verdict is not Verdict.VALID:
        struck.bad = result
        where = ", ".join(
            f"{one.kind} at point {one.after} ({at})" for one, at in zip(strikes, result.struck, strict=True)
        )
        struck.bad_strikes = f"script {case.name}, {where or 'without any strike'}"


def _line(part: str, mode: Mode, struck: Struck, seconds: float) -> Line:
    verdict = merge(struck.verdicts) if struck.at else merge([*struck.verdicts, Verdict.UNKNOWN])
    title = f"{mode.title}: {struck.at.total()} places"
    why = "" if struck.at else "nothing was struck"
    detail = ""
    if struck.bad is not None:
        keys = ", ".join(sorted(struck.bad.convicted)) or "not judged"
        story = struck.bad.why()
        count = sum(one is not Verdict.VALID for one in struck.verdicts)
        why = f"breaks {keys}: {struck.bad_strikes}; {count} of {struck.executions} executions"
        detail = "\n".join(story[: NAMED_MAX * 3])
    return Line(part, mode.name, title, verdict, struck.executions, seconds, why, detail)
