"""Figures, their targets, and the three ways they are told: a table, lines of verdict, one JSON line a run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Side = Literal["at most", "at least"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure's median must be. The range is told beside it, for the reader to judge."""

    side: Side
    bound: float

    def holds(self, found: float) -> bool:
        return found <= self.bound if self.side == "at most" else found >= self.bound

    def __str__(self) -> str:
        return f"{self.side} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with its range over ``samples`` values. Without a target it is only told."""

    bench: str
    name: str
    unit: str
    median: float
    low: float
    high: float
    samples: int
    target: Target | None = None

    @property
    def holds(self) -> bool:
        return self.target is None or self.target.holds(self.median)

    def as_json(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "name": self.name,
            "unit": self.unit,
            "median": round(self.median, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "samples": self.samples,
            "target": None if self.target is None else str(self.target),
            "holds": self.holds,
        }


@dataclass(frozen=True, slots=True)
class Run:
    """Where and when the figures come from."""

    date: str
    commit: str
    python: str
    postgres: str
    cpus: int
    quick: bool


def figure(bench: str, name: str, unit: str, values: Sequence[float], target: Target | None = None) -> Figure:
    """Sum up samples.

    Raises:
        ValueError: there is none; a figure of nothing would hold every target.
    """
    if not values:
        raise ValueError(f"{bench}/{name}: nothing was measured")
    return Figure(bench, name, unit, statistics.median(values), min(values), max(values), len(values), target)


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round, so that a slow round slows both sides.

    Raises:
        ValueError: the two did not run in the same rounds.
    """
    return [a / b for a, b in zip(above, below, strict=True)]


def table(figures: Iterable[Figure]) -> str:
    """Every figure with its range, aligned."""
    head = ("bench", "figure", "median", "range", "unit", "n")
    rows = [
        (f.bench, f.name, _number(f.median), f"{_number(f.low)}..{_number(f.high)}", f.unit, str(f.samples))
        for f in figures
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = (
            cell.rjust(width) if column in (2, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def verdicts(figures: Iterable[Figure]) -> list[str]:
    """A line for each target."""
    return [
        f"{'holds' if f.holds else 'FAILS'}  {f.bench}/{f.name}: {_number(f.median)} {f.unit}, target {f.target}"
        for f in figures
        if f.target is not None
    ]


def json_line(run: Run, figures: Sequence[Figure]) -> str:
    """The run as one line of `results.jsonl`."""
    return json.dumps(
        {
            "date": run.date,
            "commit": run.commit,
            "python": run.python,
            "postgres": run.postgres,
            "cpus": run.cpus,
            "quick": run.quick,
            "holds": all(f.holds for f in figures),
            "figures": [f.as_json() for f in figures],
        }
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.2f}"
