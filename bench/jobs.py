"""Background jobs of a worker that is struck: how soon their trees are gone, and what they wrote after they were lost.

Ten jobs, each a shell with descendants of every kind that is hard to end, under a real worker over each store; it is
killed, killed together with its guard, frozen for three leases and resumed, or told to end, and another worker takes
the task over. Targets are what is promised: nothing is left of a job, and it has written its last line, when the log
says that it is lost; each loss is told once; a resumed worker writes nothing; a worker that was told to end gives its
task back at once. How long a tree lives is only told: this machine's speed is in it.

Lines, files and entries carry the same clock, the machine's: lines and entries to the microsecond (a line says when it
was about to be written), files to a clock tick (a journal that was changed after the loss counts as a line), the ends
of processes to about a millisecond.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.job_stage import Address, JobStage, Struck, job_stage
from bench.report import Figure, Target, figure
from bench.site import Places
from noeta.core.ids import MICROS_PER_SECOND

NAME: Final = "jobs"
JOBS: Final = 10
MICROS_PER_MILLI: Final = 1000
ROUNDS: Final = 3
ROUNDS_QUICK: Final = 1
LEASE_SECONDS: Final = 3.0
LONG_LEASE_SECONDS: Final = 30.0
"""Of a worker that is told to end: nobody takes the task over because this lease is over."""

NONE: Final = Target("at most", 0)
BEFORE: Final = Target("at most", 0)
AT_ONCE: Final = Target("at most", 0.1)
"""Of the long lease: an idle worker looks ten times a second."""

KILLED: Final = "kill -9"
GUARD_TOO: Final = "kill -9, also of the guard"
FROZEN: Final = "frozen for 3 leases"
TOLD: Final = "SIGTERM"
WAYS: Final[Mapping[str, tuple[float, Callable[[JobStage], Struck]]]] = {
    KILLED: (LEASE_SECONDS, lambda stage: stage.kill()),
    GUARD_TOO: (LEASE_SECONDS, lambda stage: stage.kill(guard_too=True)),
    FROZEN: (LEASE_SECONDS, lambda stage: stage.freeze()),
    TOLD: (LONG_LEASE_SECONDS, lambda stage: stage.terminate()),
}


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Every way to strike over every store."""
    found: list[Figure] = []
    rounds = ROUNDS_QUICK if quick else ROUNDS
    for store, addresses in (("Postgres", _on_postgres), ("SQLite", _on_sqlite)):
        for way, (lease, strike) in WAYS.items():
            seen = []
            for _ in range(rounds):
                with addresses(places) as (address, folder):
                    with job_stage(address, folder, jobs=JOBS, lease_seconds=lease) as stage:
                        seen.append(strike(stage))
            found += figures(f"{store}, {way}", way, seen, lease)
    return found


def figures(title: str, way: str, seen: Sequence[Struck], lease_seconds: float) -> list[Figure]:
    """What a way to strike came to, over its rounds. Counts are those of the worst round."""

    def times(name: str, micros: Sequence[int], target: Target | None = None) -> Figure:
        return figure(NAME, f"{title}: {name}", "ms", [one / MICROS_PER_MILLI for one in micros], target)

    def worst(name: str, unit: str, counts: Sequence[int]) -> Figure:
        return figure(NAME, f"{title}: {name}", unit, [max(counts)], NONE)

    found = [
        times("last process gone after", [one.gone_at - one.at for one in seen]),
        times("from there until it is lost", [min(one.lost_at) - one.gone_at for one in seen]),
        worst("lines after it is lost", "lines", [one.lines_after + one.changed_after for one in seen]),
        worst("processes left when it is lost", "processes", [one.left for one in seen]),
        worst("losses not told exactly once", "jobs", [not_once(one) for one in seen]),
    ]
    if way == FROZEN:
        found += [
            times("last process gone after the lease's end", [one.gone_at - one.lease_until for one in seen], BEFORE),
            worst("entries of the resumed worker", "entries", [one.late_writes for one in seen]),
        ]
    if way == TOLD:
        lease = lease_seconds * MICROS_PER_SECOND
        taken = [(one.was_claimed_at - one.released_at) / lease for one in seen if one.released_at is not None]
        found += [
            figure(NAME, f"{title}: taken over after it was given back", "leases", taken, AT_ONCE),
            worst("lines after it was given back", "lines", [one.lines_after_release for one in seen]),
        ]
    return found


def not_once(seen: Struck) -> int:
    """Jobs whose loss the next owner's model was not told of exactly once, and those that are said to have ended."""
    return sum(times != 1 for times in seen.told) + seen.ended


@contextmanager
def _on_postgres(places: Places) -> Iterator[tuple[Address, Path]]:
    with places() as place, tempfile.TemporaryDirectory() as folder:
        yield Address(place.dsn, place.schema), Path(folder)


@contextmanager
def _on_sqlite(places: Places) -> Iterator[tuple[Address, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        yield Address.of_file(Path(folder) / "tasks.db"), Path(folder)
