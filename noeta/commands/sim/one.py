"""One execution: of a seed, of a script with strikes, of a schedule in a file."""

from __future__ import annotations

from pathlib import Path

import typer

from invariants import Verdict
from noeta.chaos.schedule import AtPoint, Schedule, from_json, to_json
from noeta.chaos.sim import render
from noeta.chaos.sim.exhaustive import strikes_of
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scheduler import Trace
from noeta.chaos.sim.scripts import Case
from noeta.chaos.sim.seeded import Strategy, run_seed
from noeta.chaos.sim.strikes import in_order
from noeta.core.errors import BadInput


def one_seed(seed: int, strategy: Strategy, pct_depth: int, trace: bool, save: Path | None, out: Path) -> int:
    """Run one seed; the verdict's exit code."""
    result = run_seed(seed, strategy=strategy, pct_depth=pct_depth, keep_trace=trace)
    return told(result, save or kept(result, f"{strategy}-{seed}", out))


def one_script(cases: list[Case], strike: str | None, trace: bool, save: Path | None, out: Path) -> int:
    """Run one script with the strikes spelled; the verdict's exit code.

    Raises:
        BadInput: the script ended before it was struck so often, or a strike can hit nothing where it stands.
    """
    if len(cases) != 1:
        raise BadInput("strike", "needs one --script")
    try:
        strikes = strikes_of(strike) if strike else ()
    except ValueError as error:
        raise BadInput("strike", str(error)) from error
    execution = Execution(cases[0], in_order(strikes), trace=Trace(keep=trace))
    result = execution.run()
    if execution.strikes_made < len(strikes):
        raise BadInput("strike", f"{cases[0].name} ended before it was struck {len(strikes)} times")
    if len(result.struck) < len(strikes):
        raise BadInput("strike", f"only {len(result.struck)} of {strike} found something to hit: another point, please")
    return told(result, save or kept(result, cases[0].name, out))


def kept(result: Result, name: str, out: Path) -> Path | None:
    """Where the schedule goes, unless the caller says: that of every execution but a valid one is kept."""
    return None if result.verdict is Verdict.VALID else out / f"{result.verdict}-{name}.json"


def one_file(schedule: Schedule, trace: bool) -> int:
    """Play a schedule again; the verdict's exit code. Survived without any of its strikes is unknown."""
    result = replay(schedule, keep_trace=trace)
    planned = sum(isinstance(fault.anchor, AtPoint) for fault in schedule.faults)
    if len(result.struck) < planned:
        typer.echo(f"of {planned} faults at points, {len(result.struck)} struck: the code has changed since")
    code = told(result, None)
    if planned and not result.struck and result.verdict is Verdict.VALID:
        typer.echo("unknown: none of its strikes came about, so this schedule shows nothing any more")
        return Verdict.UNKNOWN.exit_code
    return code


def read_file(path: Path) -> Schedule:
    """The schedule in a file.

    Raises:
        BadInput: it cannot be read, or holds none.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadInput("file", f"cannot read {path}: {error.strerror}") from error
    try:
        return from_json(text)
    except BadInput as error:
        raise BadInput("file", f"{path} holds no schedule: {error}") from error


def told(result: Result, save: Path | None) -> int:
    """Print an execution; the verdict's exit code."""
    for line in result.trace:
        typer.echo(line.encode("utf-8", "backslashreplace").decode())
    for line in render.reasons(result):
        typer.echo(line)
    typer.echo(
        f"struck at: {', '.join(result.struck) or 'nothing'}; "
        f"{render.listed(result.situations) or 'nothing out of the ordinary'}"
    )
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(to_json(result.schedule))
        typer.echo(f"schedule: {save}")
    typer.echo(
        f"{result.verdict.value}: {result.case}, {len(result.points):,} yield points, {result.switches:,} context "
        f"switches, {result.workers} workers, {result.seconds:.3f} virtual seconds, trace {result.trace_hash}"
    )
    return result.verdict.exit_code
