"""Many seeds, on any executor: units of work in any order, every finished one on disk at once, and one verdict.

Whoever runs the units and in whatever order they finish, the seeds, the sums and the hash over all traces are the
same. A sweep that is killed leaves its record (`sweep_record.py`) and the schedules of its failures; the same call
goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from itertools import islice
from pathlib import Path
from typing import Final

from noeta.chaos.sim.sweep_found import Found
from noeta.chaos.sim.sweep_plan import Header, Plan, Unit
from noeta.chaos.sim.sweep_record import Complete, Record
from noeta.chaos.sim.sweep_unit import OtherCode, Ran, run_unit

PENDING_MAX: Final = 1_024
"""Units handed out at once: enough for as many processors, and few enough to hold in memory."""

KEPT_MAX: Final = 1_000
"""Schedules of failures that a sweep writes; whoever has more has one bug many times."""

Progress = Callable[[Found], None]


class SweepStopped(Exception):
    """The executor cannot go on. What is finished is recorded, and the message says how to go on from there."""


def sweep(
    plan: Plan,
    executor: Executor,
    *,
    directory: Path,
    fresh: bool = False,
    progress: Progress = lambda found: None,
) -> Found:
    """Every seed of a plan that its record in ``directory`` does not hold yet.

    ``fresh``: whatever the record holds. ``progress`` is called after every chunk, once it is on disk. Schedules of
    executions that are not valid go to ``<verdict>-<strategy>-<seed>.json`` there.

    Raises:
        BadInput: another process runs this sweep.
        SweepStopped: the executor broke, or runs other code.
    """
    begun = time.monotonic()
    record = Record(record_path(directory, plan), Header.of(plan), fresh=fresh)
    try:
        found = Found(plan, record.began)
        for chunk in record.chunks():
            if not found.has(chunk.first):
                found.add(chunk)
        progress(found)
        left = (unit for unit in plan.units() if not found.has(unit.first))
        for ran in _ran(executor, left, found):
            found.kept += _keep(directory, ran.schedules, KEPT_MAX - found.kept)
            record.add(ran.chunk)
            found.add(ran.chunk)
            found.ran += ran.chunk.last - ran.chunk.first + 1
            found.ran_virtual_micros += ran.chunk.sums.virtual_micros
            found.seconds = time.monotonic() - begun
            progress(found)
        record.add(Complete(found.verdict, found.exit_code, found.trace_hash))
        return found
    finally:
        record.close()


def record_path(directory: Path, plan: Plan) -> Path:
    """Where the record of a plan is."""
    return directory / f"{plan.name}.jsonl"


def _ran(executor: Executor, units: Iterator[Unit], found: Found) -> Iterator[Ran]:
    """What comes of the units, as they finish. Of units that finish together with a failure, all that came to
    something are told before it."""
    waiting: set[Future[Ran]] = set()
    try:
        while True:
            _hand_out(executor, units, waiting)
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done if not _failure(future))
            for error in filter(None, map(_failure, done)):
                raise SweepStopped(_stopped(error, found)) from error
    except BrokenExecutor as error:
        raise SweepStopped(_stopped(error, found)) from error
    finally:
        for future in waiting:
            future.cancel()


def _hand_out(executor: Executor, units: Iterator[Unit], waiting: set[Future[Ran]]) -> None:
    while len(waiting) < PENDING_MAX:
        unit = next(units, None)
        if unit is None:
            return
        waiting.add(executor.submit(run_unit, unit))


def _failure(future: Future[Ran]) -> BaseException | None:
    """What became of a unit instead of a result. A unit catches what executions raise, so it is the executor's."""
    return CancelledUnit("the unit was cancelled") if future.cancelled() else future.exception()


class CancelledUnit(Exception):
    """The executor gave a unit up."""


def _stopped(error: BaseException, found: Found) -> str:
    if isinstance(error, OtherCode):
        return str(error)
    what = "a process that ran seeds was killed" if isinstance(error, BrokenExecutor) else "the executor failed"
    return (
        f"{what} ({type(error).__name__}: {error}); {found.done:,} of {found.plan.seeds:,} seeds are recorded, "
        "and the same command goes on from there"
    )


def _keep(directory: Path, schedules: Mapping[str, str], room: int) -> int:
    """Write schedules, each whole or not at all; says how many."""
    for name, text in islice(schedules.items(), room):
        part = directory / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(directory / f"{name}.json")
    return min(len(schedules), room)
