"""`noeta sim --seeds A..B`: many seeds on one store, or each seed on several stores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from noeta.chaos.sim import sweep_words
from noeta.chaos.sim.compare import Compared, compare_stores
from noeta.chaos.sim.executors import open_executor
from noeta.chaos.sim.seeded import Strategy
from noeta.chaos.sim.stores import names_of
from noeta.chaos.sim.sweep import SweepStopped, record_path
from noeta.chaos.sim.sweep import sweep as run_sweep
from noeta.chaos.sim.sweep_found import Found
from noeta.chaos.sim.sweep_plan import Plan
from noeta.commands.sim.live_line import LiveLine
from noeta.core.errors import BadInput

SEEDS_MAX: Final = 1_000_000
STOPPED: Final = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """How a sweep is to run. ``mutant``: planted in every process."""

    strategy: Strategy
    pct_depth: int
    verify: bool
    executor: str
    scheduler: str | None
    fresh: bool
    jobs: int
    mutant: str


def sweep(seeds: str, asked: Asked, out: Path) -> int:
    """Run the seeds and print what was found; the verdict's exit code."""
    first, last = range_of(seeds)
    plan = Plan(first, last, asked.strategy, asked.pct_depth, asked.verify)
    if asked.mutant:  # what a planted bug does is no part of the record of the true code
        out = out / asked.mutant.replace(":", "-")
    line: LiveLine[Found] = LiveLine(sweep_words.so_far)
    try:
        with open_executor(asked.executor, asked.jobs, asked.scheduler, asked.mutant) as executor:
            found = run_sweep(plan, executor, directory=out, fresh=asked.fresh, progress=line.show)
    except SweepStopped as error:
        line.clear()
        typer.echo(f"stopped: {error} (record: {record_path(out, plan)})")
        return STOPPED
    except KeyboardInterrupt:
        line.clear()
        typer.echo(f"interrupted: the same command goes on from here (record: {record_path(out, plan)})")
        raise
    line.clear()
    for text in sweep_words.lines(found, out):
        typer.echo(text)
    return found.exit_code


def compare(seeds: str, stores: str, strategy: Strategy) -> int:
    """Run every seed over each store and compare the traces; 0 if all are equal and valid."""
    first, last = range_of(seeds)
    names = names_of(stores)
    started = time.monotonic()
    line: LiveLine[Compared] = LiveLine(lambda found: f"{found.seeds:,} seeds, {len(found.different)} differ")
    found = compare_stores(range(first, last + 1), names, strategy, progress=line.show)
    line.clear()
    for one in found.different[:3]:
        typer.echo(f"seed {one.seed}: {one.store} goes another way than memory:")
        typer.echo(f"    memory: {one.expected}\n    {one.store}: {one.found}")
    for seed, store in found.bad[:3]:
        typer.echo(f"seed {seed}: not valid over {store}: noeta sim --seed {seed} --strategy {strategy}")
    for name in names:
        typer.echo(f"{name:<9} {found.seconds[name]:7.1f} s, {found.calls:,} store calls, traces {found.hash_of(name)}")
    typer.echo(
        f"{found.verdict.value}: {found.seeds:,} seeds over {', '.join(names)}: {len(found.different)} traces differ, "
        f"{len(found.bad)} not valid; {time.monotonic() - started:.1f} s"
    )
    return found.verdict.exit_code


def range_of(text: str) -> tuple[int, int]:
    """The first and the last of some seeds.

    Raises:
        BadInput.
    """
    first, dots, last = text.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal()) or int(first) > int(last):
        raise BadInput("seeds", f"FROM..TO, two whole numbers in order, found {text!r}")
    if int(last) - int(first) >= SEEDS_MAX:
        raise BadInput("seeds", f"at most {SEEDS_MAX:,} at once, found {text!r}")
    return int(first), int(last)
