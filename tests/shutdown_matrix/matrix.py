"""Tries all cells, and shows them as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.shutdown_matrix.cell import NotInPlace, try_cell
from tests.shutdown_matrix.places import Place
from tests.shutdown_matrix.rows import (
    GRACE_SECONDS,
    LEASE_SECONDS,
    QUICK,
    ROWS,
    STRIKES,
    Cell,
    Row,
    Strike,
    broken,
)

LEGEND: Final = (
    f"Each cell: seconds from the signal to the end of the process (grace {GRACE_SECONDS:g} s), exit code, when "
    f"another worker can claim the task (lease {LEASE_SECONDS:g} s), lines journalled after that."
)


@dataclass(frozen=True)
class Outcome:
    """A cell, where it stands, and the rules it breaks."""

    place: Place
    row: Row
    strike: Strike
    cell: Cell | None
    broken: Sequence[str]


def try_all(
    places: Sequence[Place], folder: Path, *, quick: bool = False, tell: Callable[[str], None] = lambda line: None
) -> list[Outcome]:
    """Every cell (``quick``: a few) over these stores, in directories below this one."""
    outcomes: list[Outcome] = []
    for place in places:
        for row in ROWS:
            for strike in STRIKES:
                if quick and (row.store != "works" or (row.name, strike.name) not in QUICK):
                    continue
                if row.store != "works" and not place.can_go_away:
                    continue
                outcome = _try(place, row, strike, folder / f"{place.name.lower()}-{len(outcomes)}")
                outcomes.append(outcome)
                shown = "not tried" if outcome.cell is None else outcome.cell.shown()
                tell(f"{place.name}, {row.title}, {strike.name}: {shown}{_blame(outcome)}")
    return outcomes


def _try(place: Place, row: Row, strike: Strike, folder: Path) -> Outcome:
    try:
        cell = try_cell(place, row, strike, folder)
    except NotInPlace as error:
        return Outcome(place, row, strike, None, [str(error)])
    return Outcome(place, row, strike, cell, broken(row, strike, cell))


def _blame(outcome: Outcome) -> str:
    return f" BROKEN: {'; '.join(outcome.broken)}" if outcome.broken else ""


def tables(outcomes: Sequence[Outcome]) -> str:
    """Markdown: a table for each store, and what is broken."""
    parts = [LEGEND]
    for place in dict.fromkeys(outcome.place for outcome in outcomes):
        here = [outcome for outcome in outcomes if outcome.place is place]
        strikes = [strike for strike in STRIKES if any(outcome.strike is strike for outcome in here)]
        lines = [
            f"| {place.name}: the worker is in | " + " | ".join(strike.name for strike in strikes) + " |",
            "|---" * (len(strikes) + 1) + "|",
        ]
        for row in dict.fromkeys(outcome.row for outcome in here):
            found = {outcome.strike: outcome for outcome in here if outcome.row is row}
            lines.append(f"| {row.title} | " + " | ".join(_cell(found.get(strike)) for strike in strikes) + " |")
        parts.append("\n".join(lines))
    blamed = [
        f"- {outcome.place.name}, {outcome.row.title}, {outcome.strike.name}: {'; '.join(outcome.broken)}"
        for outcome in outcomes
        if outcome.broken
    ]
    if blamed:
        parts.append("Broken:\n\n" + "\n".join(blamed))
    return "\n\n".join(parts)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None or outcome.cell is None:
        return "not tried"
    return f"**{outcome.cell.shown()}**" if outcome.broken else outcome.cell.shown()
