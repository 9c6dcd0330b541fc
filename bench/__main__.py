"""`python -m bench`: takes the figures, prints them, adds a line to `results.jsonl`.

Exit code 0: every target holds; 1: one does not; 3: nothing could be measured.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from bench import (
    buffers,
    family,
    family_cost,
    fan_in,
    hot,
    jobs,
    jobs_cost,
    late_row,
    old_plans,
    rates,
    round_trips,
    timers,
    waiting,
)
from bench.report import Figure, Run, json_line, table, verdicts
from bench.site import Places, own_server, place
from bench.workers import WorkerFailed
from noeta.testing.postgres import NoPostgres, ServerFailed

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.jsonl"

HOLDS: Final = 0
FAILS: Final = 1
NOTHING_MEASURED: Final = 3


class Measure(Protocol):
    """One bench: figures from places of its own."""

    def __call__(self, places: Places, *, quick: bool) -> list[Figure]: ...


BENCHES: Final[Mapping[str, Measure]] = {
    round_trips.NAME: round_trips.measure,
    buffers.NAME: buffers.measure,
    hot.NAME: hot.measure,
    late_row.NAME: late_row.measure,
    rates.NAME: rates.measure,
    waiting.NAME: waiting.measure,
    timers.NAME: timers.measure,
    fan_in.NAME: fan_in.measure,
    family.NAME: family.measure,
    family_cost.NAME: family_cost.measure,
    jobs.NAME: jobs.measure,
    jobs_cost.NAME: jobs_cost.measure,
    old_plans.NAME: old_plans.measure,
}


def main(arguments: Sequence[str]) -> int:
    asked = parse(arguments)
    names = asked.only or list(BENCHES)
    try:
        with own_server() as server:
            print(f"{server.source}, fsync on{', quick' if asked.quick else ''}", file=sys.stderr)
            run = describe(server.source.version, quick=asked.quick)
            places = functools.partial(place, server)
            figures: list[Figure] = []
            for name in names:
                print(f"{name} …", file=sys.stderr)
                figures += BENCHES[name](places, quick=asked.quick)
    except (NoPostgres, ServerFailed, WorkerFailed) as error:
        print(f"nothing measured: {error}", file=sys.stderr)
        return NOTHING_MEASURED
    line = json_line(run, figures)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(line + "\n")
    print(line if asked.json else "\n".join([table(figures), "", *verdicts(figures)]))
    return HOLDS if all(figure.holds for figure in figures) else FAILS


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """``only`` (a list or None), ``quick`` and ``json``."""
    parser = argparse.ArgumentParser("python -m bench", description="What the Postgres store costs.")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="this one; may be given again")
    parser.add_argument("--json", action="store_true", help="print the line of results.jsonl instead of the table")
    return parser.parse_args(arguments)


def describe(postgres: str, *, quick: bool) -> Run:
    """Where and when."""
    return Run(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_commit(),
        python=platform.python_version(),
        postgres=postgres,
        cpus=os.cpu_count() or 0,
        quick=quick,
    )


def _commit() -> str:
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
        )
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
