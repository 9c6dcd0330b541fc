"""`noeta cluster`: the storm. Real workers, a real store, real signals, and laws over what they left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from noeta.core.errors import BadInput

DEFAULTS: Final = {"tasks": "90", "seconds": "75", "workers": "4", "concurrency": "3", "lease": "1"}
"""As they would be typed: what the line that repeats a run need not say."""


def cluster(
    context: typer.Context,
    seed: Annotated[
        str | None, typer.Option(help="Repeats a plan. Default: a fresh random one.", envvar="NOETA_CLUSTER_SEED")
    ] = None,
    tasks: Annotated[
        str, typer.Option(help="Tasks of the workload; more come while quotas are unmet.", envvar="NOETA_CLUSTER_TASKS")
    ] = DEFAULTS["tasks"],
    seconds: Annotated[
        str,
        typer.Option(
            help="How long the storm blows; quotas and required situations shrink below 45.",
            envvar="NOETA_CLUSTER_SECONDS",
        ),
    ] = DEFAULTS["seconds"],
    store: Annotated[
        str | None,
        typer.Option(
            help="sqlite: (in the run directory), sqlite:PATH, factory:MODULE:FUNCTION[:PLACE] (your own store) or "
            "postgresql://… Default: Postgres, see --dsn.",
            envvar="NOETA_CLUSTER_STORE",
        ),
    ] = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="A Postgres server to use. Default: one of our own, from binaries on this machine.",
            envvar="NOETA_TEST_POSTGRES_DSN",
            show_envvar=True,
        ),
    ] = None,
    workers: Annotated[str, typer.Option(help="Worker processes.")] = DEFAULTS["workers"],
    concurrency: Annotated[str, typer.Option(help="Tasks each worker runs at the same time.")] = DEFAULTS[
        "concurrency"
    ],
    lease: Annotated[str, typer.Option(help="Seconds of a lease.")] = DEFAULTS["lease"],
    runs_dir: Annotated[Path, typer.Option(help="Where run directories are made.")] = Path("runs"),
    schedule: Annotated[
        Path | None,
        typer.Option(help="Strike this schedule: a run's schedule.json, or one of the simulator's, with its tasks."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="A campaign: 1..20 or 3,5,9, one run after another.")] = None,
    no_faults: Annotated[
        bool,
        typer.Option(
            "--no-faults",
            help="No planned faults (scripts that kill their own worker still do); the verdict can only be unknown.",
        ),
    ] = False,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Write schedule and workload, run nothing.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep afterwards what is in a store whose place was named.")
    ] = False,
    mutant: Annotated[str | None, typer.Option(help="MODULE:FUNCTION that plants a bug in every worker.")] = None,
) -> None:
    """Storm real workers and judge what they left behind. The whole default run takes about a minute and a half.

    Exit codes: 0 valid, 1 invalid, 2 unknown (not enough happened, or interrupted once), 3 the harness failed or
    there is no Postgres to be found, 64 bad usage, 130 interrupted twice. A seed repeats the plan, not the timing.
    """
    from noeta.chaos import asked as words
    from noeta.chaos.asked import Asked, read_schedule, seed_of, seeds_of, span, whole
    from noeta.chaos.config import CONCURRENCY_MAX, SECONDS_MAX, TASKS_MAX, WORKERS_MAX
    from noeta.chaos.instrument import find_mutant
    from noeta.chaos.seeds import fresh_seed
    from noeta.chaos.sites import is_postgres, names_a_place

    told_by = context.get_parameter_source("dsn")
    if store and told_by is not None and told_by.name == "COMMANDLINE":
        raise BadInput("--dsn", "names a store like --store does: give one of them")
    given = _given(tasks=tasks, seconds=seconds, workers=workers, concurrency=concurrency, lease=lease)
    if schedule is not None:
        given["--schedule"] = str(schedule)
    if no_faults:
        given["--no-faults"] = ""
    if mutant is not None:
        sys.path.append(str(Path.cwd()))  # as its workers have it
        find_mutant(mutant)  # in the workers it would be found out after the storm
        given["--mutant"] = mutant
    if store and not is_postgres(store):  # that one may hold a password
        given["--store"] = store
    if seeds is not None and (seed is not None or schedule is not None):
        raise BadInput("--seeds", "a campaign takes its seeds from here alone, without --seed and --schedule")
    if seeds is not None and store and names_a_place(store):
        raise BadInput("--seeds", "each run of a campaign needs a store of its own: name no place in --store")
    base = Asked(
        seed=fresh_seed() if seed is None else seed_of(seed),
        tasks=whole(f"--tasks, or {words.TASKS}", tasks, 1, TASKS_MAX),
        seconds=span(f"--seconds, or {words.SECONDS}", seconds, 1.0, SECONDS_MAX),
        workers=whole("--workers", workers, 2, WORKERS_MAX),
        concurrency=whole("--concurrency", concurrency, 1, CONCURRENCY_MAX),
        lease_seconds=span("--lease", lease, 0.2, 60.0),
        runs_dir=runs_dir,
        schedule=None if schedule is None else read_schedule(schedule),
        faults=not no_faults,
        keep=keep,
        mutant=mutant,
        given=given,
    )
    base.config(Path())  # whatever else is out of bounds
    chosen = None if seeds is None else seeds_of(seeds)
    if plan_only:
        raise typer.Exit(_plan_only(base))
    raise typer.Exit(_run(base, chosen, store, dsn))


def _given(**options: str) -> dict[str, str]:
    """What was asked for other than by default, under the name that repeats it."""
    names = {"tasks": "NOETA_CLUSTER_TASKS", "seconds": "NOETA_CLUSTER_SECONDS"}
    return {names.get(key, f"--{key}"): value for key, value in options.items() if value != DEFAULTS[key]}


def _plan_only(base: object) -> int:
    from noeta.chaos.asked import Asked
    from noeta.chaos.evidence_dir import create_run_dir
    from noeta.chaos.plan import make_plan

    assert isinstance(base, Asked)
    run_dir = create_run_dir(base.runs_dir, str(base.seed))
    make_plan(base, base.config(run_dir.root)).write(run_dir)
    typer.echo(f"seed={base.seed} plan: {run_dir.root}")
    return 0


def _run(base: object, seeds: list[int] | None, store: str | None, dsn: str | None) -> int:
    from noeta.chaos.asked import Asked
    from noeta.chaos.campaign import run_campaign
    from noeta.chaos.progress import open_progress
    from noeta.chaos.run import run_storm
    from noeta.chaos.sites import choose_site
    from noeta.chaos.verdicts import HARNESS_ERROR
    from noeta.testing.postgres import NoPostgres

    assert isinstance(base, Asked)
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    try:
        site = choose_site(store or None, dsn or None, os.environ)
    except NoPostgres as error:
        print(f"noeta cluster: {error}", file=sys.stderr)
        return HARNESS_ERROR
    if seeds is None:
        return run_storm(base, site, open_progress(is_ci=is_ci)).exit_code
    return run_campaign(base, seeds, site, is_ci=is_ci)
