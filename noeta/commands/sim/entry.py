"""The options of `noeta sim`, checked before anything runs, and the commands under it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from noeta.core.errors import BadInput

HARNESS_ERROR: Final = 3
JOBS_MAX: Final = 256
PCT_DEPTH_MAX: Final = 10

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
    help="Real workers in one process, under a seeded scheduler and virtual time: search, repeat, shrink.",
)

Trace = Annotated[bool, typer.Option("--trace", help="Of one execution: print every decision of the scheduler.")]
Out = Annotated[Path, typer.Option(help="Where failing schedules and the records of sweeps are written.")]
File = Annotated[Path, typer.Argument(help="A schedule of the simulator, as JSON.")]


@app.callback()
def sim(
    context: typer.Context,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Strike at every point of every script. The default.")
    ] = False,
    depth: Annotated[
        int,
        typer.Option(
            min=1,
            max=3,
            help="Strikes of one execution, each at every point after the one before; from 2 on over a bounded set.",
        ),
    ] = 1,
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
    seed: Annotated[int | None, typer.Option(help="Run one execution, in which this seed decides everything.")] = None,
    seeds: Annotated[str | None, typer.Option(help="A sweep over many seeds: FROM..TO, both included.")] = None,
    strategy: Annotated[
        str, typer.Option(help="How a seed decides: random at every choice, or pct (priorities that fall).")
    ] = "random",
    pct_depth: Annotated[
        int, typer.Option(min=1, max=PCT_DEPTH_MAX, help="The depth of the bugs that pct promises to meet.")
    ] = 3,
    verify_determinism: Annotated[
        bool, typer.Option("--verify-determinism", help="Run every seed of the sweep twice and compare the traces.")
    ] = False,
    stores: Annotated[
        str | None,
        typer.Option(help="Run each seed over these stores and compare the traces: memory,sqlite,postgres."),
    ] = None,
    executor: Annotated[str, typer.Option(help="Who runs a sweep: processes, or dask (extra noeta[dask]).")] = (
        "processes"
    ),
    scheduler: Annotated[
        str | None, typer.Option(help="With --executor dask: the scheduler's address. Default: a cluster of our own.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on with a sweep that was cut short.")] = False,
    agent: Annotated[
        str | None,
        typer.Option("--app", help="MODULE:FUNCTION: put your own agent through every crash point (docs/guide)."),
    ] = None,
    trace: Trace = False,
    save: Annotated[Path | None, typer.Option(help="Of one execution: write its schedule to this file.")] = None,
    mutant: Annotated[str | None, typer.Option(help="MODULE:FUNCTION that plants a bug first.")] = None,
    jobs: Annotated[
        int, typer.Option(min=0, max=JOBS_MAX, help="Processes that share the work. 0: one for each processor.")
    ] = 0,
    out: Out = Path("runs/sim"),
) -> int:
    """Strike a worker at every point of every script, one execution each, and judge what is left behind.

    Without options: the whole exhaustive set. Exit 0: all valid; 1: a promise was broken; 2: unknown; 3: the
    simulator itself failed; 64: bad usage.
    """
    if context.invoked_subcommand is not None:
        return 0
    jobs = jobs or os.cpu_count() or 1
    chosen = [
        name
        for name, given in (
            ("--seed", seed is not None),
            ("--seeds", seeds is not None),
            ("--app", agent is not None),
            ("--exhaustive/--script/--mode/--strike", bool(exhaustive or script or strike or (mode and not agent))),
        )
        if given
    ]
    if len(chosen) > 1:
        raise BadInput("options", f"{' and '.join(chosen)} exclude each other")
    single = seed is not None or strike is not None or (trace and script is not None and len(script) == 1)
    if (trace or save) and not single:
        raise BadInput("trace", "--trace and --save are of one execution: give --seed, or one --script")
    if stores is not None and seeds is None:
        raise BadInput("stores", "are compared over a sweep: give --seeds FROM..TO")

    def run() -> int:
        from noeta.chaos.sim.seeded import Strategy
        from noeta.commands.sim import everywhere, one, sweeps

        if strategy not in list(Strategy):
            raise BadInput("strategy", f"one of {', '.join(Strategy)}, found {strategy!r}")
        if seed is not None:
            return one.one_seed(seed, Strategy(strategy), pct_depth, trace, save, out)
        if seeds is not None and stores is not None:
            return sweeps.compare(seeds, stores, Strategy(strategy))
        if seeds is not None:
            asked = sweeps.Asked(
                Strategy(strategy), pct_depth, verify_determinism, executor, scheduler, fresh, jobs, mutant or ""
            )
            return sweeps.sweep(seeds, asked, out)
        if "?" in [*(script or ()), *(mode or ())]:
            return everywhere.what_there_is()
        if agent is not None:
            from noeta.commands.sim.agents import everywhere_in

            return everywhere_in(agent, mode, depth, 1 if mutant else jobs, out)  # planted in this process alone
        if single:
            return one.one_script(everywhere.named_cases(script), strike, trace, save, out)
        return everywhere.everywhere(script, mode, depth, jobs, out, mutant or "")

    return _guarded(run, mutant)


@app.command()
def replay(
    file: File,
    trace: Trace = False,
    mutant: Annotated[str | None, typer.Option(help="MODULE:FUNCTION that plants a bug first.")] = None,
) -> int:
    """Play a schedule again: the same trace, byte for byte, in any process and under any Python."""

    def run() -> int:
        from noeta.commands.sim import one

        return one.one_file(one.read_file(file), trace)

    return _guarded(run, mutant)


@app.command()
def shrink(
    file: File,
    law: Annotated[str | None, typer.Option(help="The law that must go on failing. Default: the first.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=86_400.0, help="The time box; a second call goes on.")] = 60.0,
    mutant: Annotated[str | None, typer.Option(help="MODULE:FUNCTION that plants a bug first.")] = None,
) -> int:
    """Make a failing schedule as small as it gets, and print it as a story and as a pytest.

    Exit 0: done (or the time is over, and a second call goes on); 64: the schedule breaks nothing.
    """

    def run() -> int:
        from noeta.commands.sim import shrinking

        return shrinking.shrink_file(file, law, seconds)

    return _guarded(run, mutant)


def _guarded(run: Callable[[], int], mutant: str | None) -> int:
    """The boundary of the process: an error of the harness says nothing about the runtime."""
    if find_spec("greenlet") is None:
        raise BadInput("sim", "needs the chaos extra: pip install 'noeta[chaos]'")
    from noeta.chaos.instrument import plant
    from noeta.chaos.sim.silence import silence

    silence()  # what workers log is judged by its evidence
    try:
        plant(mutant or "")
        return run()
    except (BadInput, BrokenPipeError):
        raise
    except Exception:
        traceback.print_exc()
        return HARNESS_ERROR
