"""`noeta sim --app MODULE:FUNCTION`: a user's own agent through every crash point."""

from __future__ import annotations

from pathlib import Path

import typer

from noeta.chaos.sim.app_search import sim_app


def everywhere_in(name: str, modes: list[str] | None, depth: int, jobs: int, out: Path) -> int:
    """Search, print what was found, and answer the verdict's exit code."""
    lines, code = sim_app(name, modes, depth, jobs, out)
    for line in lines:
        typer.echo(line)
    return code
