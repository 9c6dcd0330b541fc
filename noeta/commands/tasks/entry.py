"""The commands under `noeta tasks`."""

from __future__ import annotations

import typer

from noeta.commands.tasks.approving import approve, deny
from noeta.commands.tasks.creating import create
from noeta.commands.tasks.listing import list_tasks
from noeta.commands.tasks.ordering import cancel, close
from noeta.commands.tasks.showing import show
from noeta.commands.tasks.telling import answer, event, say

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Tasks in a store: list and show them, create one, talk to it, answer it, approve what it asks, end it.\n\n"
    "Needs the store alone: no worker, no agent. Exit codes: 0 done or known already, 1 refused (there is no such "
    "task, it has ended, it asks nothing), 3 the store cannot be asked or the outcome stayed unknown, 64 bad usage.",
)
app.command("list")(list_tasks)
app.command()(show)
app.command()(create)
app.command()(say)
app.command()(answer)
app.command()(approve)
app.command()(deny)
app.command()(event)
app.command()(cancel)
app.command()(close)
