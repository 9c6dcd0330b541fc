"""`noeta sim shrink FILE`: a failing schedule, made small, told as a story, written as a test."""

from __future__ import annotations

from pathlib import Path

import typer

from noeta.chaos.schedule import to_json
from noeta.chaos.sim.as_pytest import as_pytest
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.shrink import Shrunk, shrink
from noeta.chaos.sim.shrink_state import state_beside
from noeta.chaos.sim.story import story
from noeta.commands.sim.one import read_file


def shrink_file(file: Path, law: str | None, seconds: float) -> int:
    """Shrink, write what came of it beside the file, and tell it; 0."""
    schedule = read_file(file)
    shrunk = shrink(schedule, law, seconds=seconds, progress=_tell, state=state_beside(file))
    small = file.with_suffix(".small.json")
    small.write_text(to_json(shrunk.schedule))
    test = file.with_name(f"test_{''.join(c if c.isalnum() else '_' for c in file.stem)}.py")
    test.write_text(as_pytest(shrunk.schedule, shrunk.law))
    typer.echo("\n" + "\n".join(story(replay(shrunk.schedule), shrunk.law)) + "\n")
    typer.echo(f"schedule: {small}    test: {test}")
    typer.echo(_last(shrunk, file))
    return 0


def _tell(line: str) -> None:
    typer.echo(line, err=True)


def _last(shrunk: Shrunk, file: Path) -> str:
    more = "" if shrunk.is_fixed_point else f"; go on with: noeta sim shrink {file}"
    return f"{shrunk.told()}{more}"
