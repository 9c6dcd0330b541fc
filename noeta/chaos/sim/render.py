"""What a search found, as text for people: a table, the points it struck and those it never did, the story of each
execution that was not valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from noeta.chaos.sim.exhaustive import KILLS, MODES, Bad, Row, Search
from noeta.chaos.sim.points import REGISTERED
from noeta.chaos.sim.run import Result, Strike

BAD_SHOWN: Final = 3
"""Executions told in full; the others are counted."""

WHY_LINES: Final = 12
"""Lines of one execution's reasons."""


def table(found: Search) -> Iterator[str]:
    """A line per script."""
    width = max((len(row.case) for row in found.rows), default=0)
    yield (
        f"{'script':<{width}}  {'points':>6}  {'kills':>9}  {'names':>5}  {'other strikes':>13}  "
        "recovery paths (all strikes)"
    )
    for case in dict.fromkeys(row.case for row in found.rows):
        rows = [row for row in found.rows if row.case == case]
        kills = [row for row in rows if row.mode in KILLS]
        others = [row for row in rows if row.mode not in KILLS]
        names = len({name for row in kills for name in row.struck})
        paths: Counter[str] = sum((row.paths for row in rows), Counter())
        yield (
            f"{case:<{width}}  {rows[0].points:>6}  {share(kills):>9}  {names:>5}  {share(others):>13}  {listed(paths)}"
        )


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
            yield f"{mode.name:<14}  {share(rows):>11} valid  {mode.title}"


def points(found: Search) -> Iterator[str]:
    """Where workers were killed, by name, and the registered names where none ever was."""
    killed = found.killed_at
    yield f"killed at {len(killed)} of {len(REGISTERED)} registered points: {listed(killed)}"
    never = [name for name in REGISTERED if name not in killed]
    pairs = {name.rpartition(".")[0] for name in never if name.endswith(".before") and f"{name[:-7]}.after" in never}
    single = [name for name in never if name.rpartition(".")[0] not in pairs]
    whole = [f"{verb}.before/.after" for verb in sorted(pairs)]
    yield f"never killed at: {', '.join(whole + single) or 'none'}"


def story(row: Row, bad: Bad) -> Iterator[str]:
    """One execution that was not valid: why, and how to have it again."""
    yield f"{row.case}, {spell(row, bad.strikes)}: {bad.result.verdict.value}"
    for line in reasons(bad.result):
        yield f"    {line}"
    strikes = f" --strike {spell(row, bad.strikes)}" if bad.strikes else ""
    yield f"    reproduce: noeta sim --script {row.case}{strikes} --trace"


def reasons(result: Result) -> list[str]:
    """The first lines of why an execution is not valid."""
    why = result.why()
    more = [f"({len(why) - WHY_LINES} more lines)"] if len(why) > WHY_LINES else []
    return why[:WHY_LINES] + more


def spell(row: Row, strikes: Sequence[Strike]) -> str:
    """Strikes as ``--strike`` takes them: kinds, each with the point it comes at since the one before."""
    own = strikes[len(MODES[row.mode].after) :] if strikes else ()
    return ",".join(f"{row.mode}@{strike.after}" for strike in own) or "no strike"
