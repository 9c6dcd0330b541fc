"""`noeta sim [--exhaustive]`: a strike at every point of every script."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import typer

from noeta.chaos.schedule import to_json
from noeta.chaos.sim import render
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.executors import open_executor
from noeta.chaos.sim.exhaustive import PAIR_MODES, PAIRS, Bad, Row, Search, required_at, search, search_with
from noeta.chaos.sim.modes import MODES
from noeta.chaos.sim.scripts import Case
from noeta.commands.sim.live_line import LiveLine
from noeta.core.errors import BadInput


def everywhere(script: list[str] | None, mode: list[str] | None, depth: int, jobs: int, out: Path, mutant: str) -> int:
    """Search, print what was found, and answer the verdict's exit code. ``mutant``: planted here, and to be planted
    in every process that shares the work."""
    bounded = depth > 1 and not script
    cases = named_cases(script or (list(PAIRS) if bounded else None))
    names = mode or (list(PAIR_MODES) if depth > 1 else list(MODES))
    for name in names:
        if name not in MODES:
            raise BadInput("mode", f"one of {', '.join(MODES)}, found {name!r}")
    modes = [MODES[name] for name in names]
    started = time.monotonic()
    line: LiveLine[Search] = LiveLine(lambda found: f"{found.executions:,} executions, {len(found.bad)} not valid")
    kept: list[Path] = []

    def progress(found: Search) -> None:
        kept.extend(_keep(row, bad, place, out) for place, (row, bad) in enumerate(found.bad) if place >= len(kept))
        line.show(found)

    try:
        if jobs == 1:
            found = search(cases, modes, depth=depth, progress=progress)
        else:
            with open_executor("processes", jobs, mutant=mutant) as executor:
                found = search_with(executor, cases, modes, depth=depth, progress=progress)
    except KeyboardInterrupt:
        line.clear()
        typer.echo(f"interrupted; {len(kept)} failing schedules were written to {out}, nothing else is kept", err=True)
        raise
    line.clear()
    required = None if script or mode else required_at(depth)
    _print(found, kept, required or {}, mutant)
    verdict = found.verdict(required=required)
    if found.unseen_laws:
        part = " (in this part of the set)" if required is None else ""
        typer.echo(f"laws that saw nothing{part}: {', '.join(found.unseen_laws)}")
    seconds = time.monotonic() - started
    strikes, valid = (sum(counts) for counts in zip(*((r.strikes, r.valid) for r in found.rows), strict=True))
    typer.echo(
        f"{verdict.value}: {valid:,} of {strikes:,} {'strikes' if depth == 1 else 'chains of strikes'} survived, "
        f"depth {depth}, {found.executions:,} executions, {len(cases)} scripts, {seconds:.1f} s "
        f"({found.executions / seconds:.0f} a second)"
    )
    return verdict.exit_code


def named_cases(names: list[str] | None) -> list[Case]:
    """The scripts of these names; all of them if there is none.

    Raises:
        BadInput.
    """
    for name in names or ():
        if name not in CASES:
            raise BadInput("script", f"one of {', '.join(CASES)}, found {name!r}")
    return [CASES[name] for name in names or CASES]


def what_there_is() -> int:
    """Print the scripts and the modes."""
    typer.echo("scripts: " + ", ".join(CASES))
    typer.echo("\n".join(f"mode {mode.name}: {mode.title}" for mode in MODES.values()))
    return 0


def _print(found: Search, kept: list[Path], required: Mapping[str, int], mutant: str) -> None:
    happened = render.happened(found.situations, required)
    for part in (render.table(found), render.by_mode(found), render.points(found), happened):
        typer.echo("\n".join(part) + "\n")
    for (row, bad), file in list(zip(found.bad, kept, strict=True))[: render.BAD_SHOWN]:
        typer.echo("\n".join(render.story(row, bad, file, mutant)) + "\n")


def _keep(row: Row, bad: Bad, place: int, out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{bad.result.verdict.value}-{row.case}-{row.mode}-{place + 1}.json"
    file.write_text(to_json(bad.result.schedule))
    return file
