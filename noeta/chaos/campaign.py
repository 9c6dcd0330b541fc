"""Several runs, one after another, and what happened in each: the table, and the situations over all of them.

What a single run meets only by luck is asked of the campaign as a whole (`profiles.py`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from noeta.chaos.asked import Asked
from noeta.chaos.profiles import STORM
from noeta.chaos.progress import open_progress
from noeta.chaos.run import Ended, run_storm
from noeta.chaos.sites import Site
from noeta.chaos.situations import askable
from noeta.chaos.verdicts import HARNESS_ERROR, INTERRUPTED

COLUMNS: Final = (
    ("seed", 11),
    ("verdict", 8),
    ("kills", 6),
    ("all", 4),
    ("pauses", 7),
    ("takeovers", 10),
    ("look-up", 8),
    ("re-run", 7),
    ("unknown", 8),
    ("model", 6),
    ("refused", 8),
    ("effects", 8),
    ("seconds", 8),
)

WAITING: Final = (
    ("taken", 6, ("message-taken-running", "message-taken-waiting")),
    ("refused", 8, ("message-refused",)),
    ("children", 9, ("child-born",)),
    ("groups", 7, ("group-born",)),
    ("timers", 7, ("timer-fired",)),
    ("again", 6, ("wake-redelivered",)),
    ("pending", 8, ("cancelled-while-pending",)),
    ("running", 8, ("cancelled-while-running",)),
    ("waiting", 8, ("cancelled-while-waiting",)),
    ("for child", 10, ("cancelled-while-waiting-for-child",)),
    ("landed", 7, ("commit-cut-landed",)),
    ("not", 5, ("commit-cut-not-landed",)),
)
"""The second table: messages taken and refused, children, groups, timers, wakes delivered again to another worker,
cancels by what the task was doing, and commits that were cut: landed, and not landed."""

BACKGROUND: Final = (
    ("jobs ended", 11, ("job-ended",)),
    ("lost", 5, ("job-lost",)),
    ("stopped", 8, ("job-stopped",)),
    ("kept", 5, ("kept-resumed",)),
    ("over", 5, ("kept-taken-over",)),
    ("released", 9, ("kept-released",)),
    ("crons", 6, ("cron-fired",)),
    ("approved", 9, ("approval-given",)),
    ("not", 4, ("approval-refused",)),
    ("parked", 7, ("parked",)),
    ("typed", 6, ("resumed-from-park",)),
    ("redriven", 9, ("redriven-under-park",)),
)
"""The third table: how jobs ended; kept claims that were resumed by their owner, taken over, and released by a worker
that stopped; occurrences of cron tables; approvals given and refused; attempts parked, gone on with by a message, and
driven again without one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run in the tables."""

    cells: tuple[str, ...]
    exit_code: int
    situations: Mapping[str, int]
    possible: frozenset[str] = frozenset()
    """Kinds of faults that were planned and that this run could have."""


def run_campaign(base: Asked, seeds: Sequence[int], site: Site, *, is_ci: bool) -> int:
    """Run every seed; print the table; the worst exit code. An interrupt ends the campaign after its run."""
    rows: list[Row] = []
    for number, seed in enumerate(seeds, start=1):
        print(f"== run {number} of {len(seeds)}: seed {seed}", flush=True)
        ended = run_storm(replace(base, seed=seed), site, open_progress(is_ci=is_ci))
        rows.append(row_of(seed, ended))
        if was_interrupted(ended):
            break
    code, lines = verdict_of(rows, STORM.required_together)
    for line in (*table(rows), "", *counts_table(rows, WAITING), "", *counts_table(rows, BACKGROUND), "", *lines):
        print(line)
    sys.stdout.flush()
    return code


def row_of(seed: int, ended: Ended) -> Row:
    """What is shown of one run."""
    judgement = ended.judgement
    if judgement is None:
        return Row((str(seed), "none"), ended.exit_code, {})
    storm, seen = judgement.storm, judgement.situations
    counts = (0, 0, 0) if storm is None else (storm.kills, storm.kill_alls, storm.pauses)
    names = ("taken-over", "recovered-by-lookup", "recovered-by-rerun", "recovered-as-unknown", "model-called-again")
    seconds = sum((judgement.run.get("phases") or {}).values())
    cells = (
        str(seed),
        "error" if ended.exit_code == HARNESS_ERROR else judgement.verdict.value,
        *map(str, counts),
        *(str(seen.get(name, 0)) for name in names),
        str(seen.get("append-refused", 0)),
        str(judgement.figures.get("side effects", 0)),
        f"{seconds:.0f}",
    )
    return Row(cells, ended.exit_code, seen, frozenset() if storm is None else storm.possible)


def was_interrupted(ended: Ended) -> bool:
    """Whether somebody pressed Ctrl-C during the run."""
    return ended.exit_code == INTERRUPTED or (
        ended.judgement is not None and bool(ended.judgement.run.get("interrupted"))
    )


def table(rows: Iterable[Row]) -> Iterator[str]:
    """A line for each run."""
    yield "  ".join(f"{name:>{width}}" for name, width in COLUMNS)
    for row in rows:
        yield "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(row.cells, COLUMNS, strict=False))


def counts_table(rows: Iterable[Row], columns: Sequence[tuple[str, int, tuple[str, ...]]]) -> Iterator[str]:
    """A line for each run: how often the situations of each column were seen."""
    yield "  ".join([f"{'seed':>11}", *(f"{name:>{width}}" for name, width, _ in columns)])
    for row in rows:
        counts = (sum(row.situations.get(one, 0) for one in names) for _, _, names in columns)
        cells = (f"{count:>{width}}" for count, (_, width, _) in zip(counts, columns, strict=True))
        yield "  ".join([f"{row.cells[0]:>11}", *cells])


def verdict_of(rows: Sequence[Row], required_together: Mapping[str, int]) -> tuple[int, list[str]]:
    """The campaign's exit code, and what happened over all runs."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.situations)
    lines = ["over all runs: " + ", ".join(f"{name} {count}" for name, count in sorted(total.items()))]
    possible = frozenset[str]().union(*(row.possible for row in rows))
    missing = [name for name, least in askable(required_together, possible).items() if total[name] < least]
    lines += [f"doubt: never happened in this campaign: {name}" for name in missing]
    code = worst([row.exit_code for row in rows])
    if code == 0 and missing:
        code = 2
    names = {0: "valid", 1: "invalid", 2: "unknown", HARNESS_ERROR: "harness error", INTERRUPTED: "interrupted"}
    by_code = Counter(row.exit_code for row in rows)
    counted = ", ".join(f"{count} {names.get(found, found)}" for found, count in sorted(by_code.items()))
    lines.append(f"campaign: {len(rows)} runs: {counted}; verdict={names.get(code, code)}")
    return code, lines


def worst(codes: Sequence[int]) -> int:
    """Invalid outranks an interrupt, a harness error, unknown, valid. Of no run: unknown."""
    order = (1, INTERRUPTED, HARNESS_ERROR, 2, 0)
    return min(codes, key=order.index, default=2)
