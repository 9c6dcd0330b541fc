"""`noeta sim`: the same workers in one process, under a seeded scheduler and a clock that costs nothing."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final, Generic, TypeVar

import typer

from noeta.core.errors import BadInput

if TYPE_CHECKING:
    from noeta.chaos.sim.run import Result
    from noeta.chaos.sim.scripts import Case

T = TypeVar("T")
HARNESS_ERROR: Final = 3
PROGRESS_SECONDS: Final = 0.2
SEEDS_MAX: Final = 1_000_000


def sim(
    seed: Annotated[int | None, typer.Option(help="Run one execution, in which this seed decides everything.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Run the executions of many seeds: FROM..TO, both included.")
    ] = None,
    script: Annotated[
        list[str] | None, typer.Option(help="Only this script of the exhaustive set; repeatable. '?' lists them.")
    ] = None,
    mode: Annotated[
        list[str] | None, typer.Option(help="Only this kind of strike; repeatable. '?' lists them.")
    ] = None,
    strike: Annotated[
        str | None,
        typer.Option(help="With one --script: run one execution with these strikes, as kill@5 or freeze@5,kill@9."),
    ] = None,
    depth: Annotated[
        int, typer.Option(min=1, max=3, help="Strikes of one execution, each at every point after the one before.")
    ] = 1,
    trace: Annotated[bool, typer.Option(help="Of one execution: print every decision of the scheduler.")] = False,
    jobs: Annotated[
        int, typer.Option(min=0, max=256, help="Processes that share the work. 0: one for each processor.")
    ] = 0,
) -> int:
    """Strike a worker at every point of every script, one execution each, and judge what is left behind.

    Without options: the whole exhaustive set. Exit 0: all valid; 1: a promise was broken; 2: unknown; 3: the
    simulator itself failed; 64: bad usage.
    """
    if find_spec("greenlet") is None:
        raise BadInput("sim", "needs the chaos extra: pip install 'noeta[chaos]'")
    logging.getLogger("noeta").setLevel(logging.CRITICAL + 1)  # what workers log is judged by its evidence
    jobs = jobs or os.cpu_count() or 1
    if (seed is not None) + (seeds is not None) + bool(script or mode or strike) > 1:
        raise BadInput("options", "--seed, --seeds and --script/--mode/--strike exclude each other")
    if trace and seed is None and strike is None and not (script and len(script) == 1):
        raise BadInput("trace", "is of one execution: give --seed, or one --script with or without --strike")
    try:
        if seed is not None:
            return _one_seed(seed, trace)
        if seeds is not None:
            return _many_seeds(*_range(seeds), jobs)
        if "?" in [*(script or ()), *(mode or ())]:
            return _list()
        if strike is not None or trace:
            return _one_execution(_named_cases(script), strike, trace)
        return _exhaustive(script, mode, depth, jobs)
    except BadInput:
        raise
    except Exception:  # the boundary of the process: the harness failed, which says nothing about the runtime
        traceback.print_exc()
        return HARNESS_ERROR


# -- the exhaustive set ------------------------------------------------------------------------------------


def _exhaustive(script: list[str] | None, mode: list[str] | None, depth: int, jobs: int) -> int:
    from noeta.chaos.sim import render
    from noeta.chaos.sim.exhaustive import MODES, Search, search, search_in_parallel

    cases = _named_cases(script)
    for name in mode or ():
        if name not in MODES:
            raise BadInput("mode", f"one of {', '.join(MODES)}, found {name!r}")
    modes = [MODES[name] for name in mode or MODES]
    started = time.monotonic()
    line: _LiveLine[Search] = _LiveLine(lambda found: f"{found.executions:,} executions, {len(found.bad)} not valid")
    if jobs == 1 or len(cases) == 1:
        found = search(cases, modes, depth=depth, progress=line.show)
    else:
        found = search_in_parallel(cases, modes, depth=depth, jobs=jobs, progress=line.show)
    line.clear()
    for part in (render.table(found), render.by_mode(found), render.points(found)):
        typer.echo("\n".join(part) + "\n")
    for row, bad in found.bad[: render.BAD_SHOWN]:
        typer.echo("\n".join(render.story(row, bad)) + "\n")
    whole = not script and not mode
    if found.unseen_laws:
        typer.echo(
            f"laws that saw nothing{'' if whole else ' (in this part of the set)'}: {', '.join(found.unseen_laws)}"
        )
    verdict = found.verdict(whole=whole)
    seconds = time.monotonic() - started
    strikes, valid = (sum(counts) for counts in zip(*((r.strikes, r.valid) for r in found.rows), strict=True))
    typer.echo(
        f"{verdict.value}: {valid:,} of {strikes:,} strikes survived, {found.executions:,} executions, "
        f"{len(cases)} scripts, {seconds:.1f} s ({found.executions / seconds:.0f} a second)"
    )
    return verdict.exit_code


def _named_cases(names: list[str] | None) -> list[Case]:
    from noeta.chaos.sim.scripts import CASES

    for name in names or ():
        if name not in CASES:
            raise BadInput("script", f"one of {', '.join(CASES)}, found {name!r}")
    return [CASES[name] for name in names or CASES]


def _list() -> int:
    from noeta.chaos.sim.exhaustive import MODES
    from noeta.chaos.sim.scripts import CASES

    typer.echo("scripts: " + ", ".join(CASES))
    typer.echo("\n".join(f"mode {mode.name}: {mode.title}" for mode in MODES.values()))
    return 0


# -- one execution -----------------------------------------------------------------------------------------


def _one_execution(cases: list[Case], strike: str | None, trace: bool) -> int:
    from noeta.chaos.sim.exhaustive import strikes_of
    from noeta.chaos.sim.run import Execution, strike_at
    from noeta.chaos.sim.scheduler import Trace

    if len(cases) != 1:
        raise BadInput("strike", "needs one --script")
    try:
        strikes = strikes_of(strike) if strike else ()
    except ValueError as error:
        raise BadInput("strike", str(error)) from error
    execution = Execution(cases[0], strike_at(strikes), trace=Trace(keep=trace))
    result = execution.run()
    if execution.strikes_made < len(strikes):
        raise BadInput("strike", f"{cases[0].name} ended before it was struck {len(strikes)} times")
    return _told(result)


def _one_seed(seed: int, trace: bool) -> int:
    from noeta.chaos.sim.seeded import run_seed

    result = run_seed(seed, keep_trace=trace)
    return _told(result)


def _told(result: Result) -> int:
    from noeta.chaos.sim import render

    for line in result.trace:
        typer.echo(line.encode("utf-8", "backslashreplace").decode())
    for line in render.reasons(result):
        typer.echo(line)
    typer.echo(
        f"struck at: {', '.join(result.struck) or 'nothing'}; {render.listed(result.paths) or 'nothing to recover'}"
    )
    typer.echo(
        f"{result.verdict.value}: {result.case}, {len(result.points):,} yield points, {result.workers} workers, "
        f"{result.seconds:.3f} virtual seconds, trace {result.trace_hash}"
    )
    return result.verdict.exit_code


# -- many seeds --------------------------------------------------------------------------------------------


def _many_seeds(first: int, last: int, jobs: int) -> int:
    from noeta.chaos.sim import render
    from noeta.chaos.sim.seeded import Seeds, run_seeds

    started = time.monotonic()
    line: _LiveLine[Seeds] = _LiveLine(lambda found: f"{found.count:,} seeds, {len(found.bad)} not valid")
    found = run_seeds(first, last, jobs=jobs, progress=line.show)
    line.clear()
    for one in found.bad[: render.BAD_SHOWN]:
        typer.echo(f"seed {one.seed}: {one.verdict.value}")
        typer.echo("\n".join(f"    {why}" for why in one.why[: render.WHY_LINES]))
        typer.echo(f"    reproduce: noeta sim --seed {one.seed} --trace")
    typer.echo(f"struck at: {render.listed(found.struck)}")
    typer.echo(f"recovery paths: {render.listed(found.paths)}")
    seconds = time.monotonic() - started
    verdict = found.verdict
    excused = f", {found.excused} of {found.tasks:,} outcomes excused by faults" if found.excused else ""
    typer.echo(
        f"{verdict.value}: {found.count - len(found.bad):,} of {found.count:,} seeds from {first} to {last}{excused}; "
        f"{seconds:.1f} s; traces {found.trace_hash}"
    )
    return verdict.exit_code


def _range(text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal()) or int(first) > int(last):
        raise BadInput("seeds", f"FROM..TO, two whole numbers in order, found {text!r}")
    if int(last) - int(first) >= SEEDS_MAX:
        raise BadInput("seeds", f"at most {SEEDS_MAX:,} at once, found {text!r}")
    return int(first), int(last)


class _LiveLine(Generic[T]):
    """One line on a terminal that says how far it is; nothing where there is no terminal."""

    def __init__(self, words: Callable[[T], str]) -> None:
        self._words = words
        self._live = sys.stderr.isatty()
        self._said_at = 0.0

    def show(self, found: T) -> None:
        now = time.monotonic()
        if self._live and now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            typer.echo(f"\r{self._words(found)}\033[K", nl=False, err=True)

    def clear(self) -> None:
        if self._live:
            typer.echo("\r\033[K", nl=False, err=True)
