"""`noeta doctor`: what this machine can do, and what helps where it cannot."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where run directories would be made.")] = Path("runs"),
) -> None:
    """Try, within seconds, everything that the tests, the storm and the simulator need of this machine.

    Nothing is left behind. The tests count in a clone of noeta alone, where `make check` is. Exit codes: 0 the main
    jobs can run, 1 something they need is missing, 64 bad usage.
    """
    from noeta.chaos.doctor import CHECK, JOBS, examine

    found = examine(os.environ, runs_dir)
    if not is_clone():
        found = replace(found, jobs=tuple(job for job in JOBS if job != CHECK))
    if as_json:
        blockers = found.blockers()
        told = {
            "findings": [one.as_json() for one in found.findings],
            "ready": [job for job in found.jobs if not blockers[job]],
            "sentence": found.sentence(),
        }
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        for one in found.findings:
            typer.echo("\n".join(one.lines()))
        typer.echo(found.sentence())
    raise typer.Exit(found.exit_code)


def is_clone() -> bool:
    """Whether this noeta is run from its own repository, and not from where it was installed."""
    return (Path(__file__).parents[2] / "Makefile").is_file()
