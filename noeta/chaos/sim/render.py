"""What a search found, as text for people: a table, the points it struck and those it never did, the situations that
occurred, and the story of each execution that was not valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from noeta.chaos.sim.exhaustive import Bad, Row, Search
from noeta.chaos.sim.modes import CALM, KILLS, MODES
from noeta.chaos.sim.points import REGISTERED, UNUSED
from noeta.chaos.sim.result import Result

BAD_SHOWN: Final = 3
"""Executions told in full; the others are counted."""

WHY_LINES: Final = 12
"""Lines of one execution's reasons."""


def table(found: Search) -> Iterator[str]:
    """A line per script."""
    width = max((len(row.case) for row in found.rows), default=0)
    yield f"{'script':<{width}}  {'points':>6}  {'kills':>11}  {'names':>5}  {'other strikes':>13}"
    for case in dict.fromkeys(row.case for row in found.rows):
        rows = [row for row in found.rows if row.case == case]
        kills = [row for row in rows if row.mode in KILLS]
        others = [row for row in rows if row.mode not in KILLS and row.mode != CALM]
        names = len({name for row in kills for name in row.struck})
        yield f"{case:<{width}}  {rows[0].points:>6}  {share(kills):>11}  {names:>5}  {share(others):>13}"


def share(rows: Sequence[Row]) -> str:
    """How many of the strikes were survived."""
    return f"{sum(row.valid for row in rows)}/{sum(row.strikes for row in rows)}"


def listed(counts: Mapping[str, int]) -> str:
    """Names with their counts, the most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ranked)


def by_mode(found: Search) -> Iterator[str]:
    """A line per kind of strike."""
    for mode in MODES.values():
        rows = [row for row in found.rows if row.mode == mode.name]
        if rows:
            yield f"{mode.name:<14}  {share(rows):>13} valid  {mode.title}"


def points(found: Search) -> Iterator[str]:
    """Where processes were killed, by name, and the registered names where none ever was."""
    killed = found.killed_at
    reachable = [name for name in REGISTERED if name not in UNUSED]
    reached = sum(name in killed for name in reachable)
    yield f"killed at {reached} of {len(reachable)} registered points: {listed(killed)}"
    never = [name for name in reachable if name not in killed]
    yield f"never killed at: {', '.join(never) or 'none'}"
    yield f"registered, and passed by no process of this version: {', '.join(UNUSED)}"


def happened(situations: Mapping[str, int], required: Mapping[str, int]) -> Iterator[str]:
    """The situations that occurred, and the required ones that did not; none is required of a part of the set."""
    yield f"situations: {listed(situations)}"
    if not required:
        return
    missing = [name for name, least in required.items() if situations.get(name, 0) < least]
    yield f"required and never seen: {', '.join(missing) or 'none'}"


def story(row: Row, bad: Bad, file: Path | None, mutant: str = "") -> Iterator[str]:
    """One execution that was not valid: why, and how to have it again. ``mutant``: the bug that was planted."""
    where = "; ".join(bad.result.struck) or "no strike"
    yield f"{row.case}, {row.mode} at {where}: {bad.result.verdict.value}"
    for line in reasons(bad.result):
        yield f"    {line}"
    if file is not None:
        planted = f" --mutant {mutant}" if mutant else ""
        yield f"    reproduce: noeta sim replay {file}{planted}    smaller: noeta sim shrink {file}{planted}"


def reasons(result: Result) -> list[str]:
    """The first lines of why an execution is not valid."""
    why = result.why()
    more = [f"({len(why) - WHY_LINES} more lines)"] if len(why) > WHY_LINES else []
    return why[:WHY_LINES] + more
