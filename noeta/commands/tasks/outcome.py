"""What became of a write: in words with the way to look at it, or as one JSON object."""

from __future__ import annotations

import typer

from noeta.commands.tasks.as_json import dumps, posted_json
from noeta.commands.tasks.hints import At
from noeta.core.store import Posted


def tell(at: At, task_id: str, posted: Posted, words: str, *, as_json: bool, note: str | None = None) -> None:
    """Print it. A refusal is no outcome: it is an error, in words."""
    if as_json:
        typer.echo(dumps(posted_json(task_id, posted)))
        return
    typer.echo(words)
    typer.echo(at.hint("look", "show", task_id))
    if note is not None:
        typer.echo(f"note: {note}")
