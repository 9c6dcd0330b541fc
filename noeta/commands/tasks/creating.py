"""`noeta tasks create`: a new task, for whichever worker takes it."""

from __future__ import annotations

from typing import Annotated

import typer

from noeta.commands.tasks.known import until_known
from noeta.commands.tasks.place import Address, Schema, TaskId, opened
from noeta.commands.tasks.words import name
from noeta.core.lower import lower_task
from noeta.core.store import NewTask


def create(
    id: TaskId,
    store: Address,
    agent: Annotated[str, typer.Option(help="Which of the app's agents does it.")],
    goal: Annotated[str, typer.Option(help="What is asked of it: its first message.")],
    schema: Schema = "noeta",
    interactive: Annotated[
        bool, typer.Option("--interactive", help="After a turn it waits for the next message instead of ending.")
    ] = False,
    queue: Annotated[str, typer.Option(help="The queue of the workers that may take it.")] = "default",
    delay: Annotated[float, typer.Option(help="Seconds from now until a worker may take it.")] = 0.0,
) -> None:
    """Create a task. A repeat with the same content changes nothing; another task under the same id is refused."""
    task = NewTask(id, agent, goal, queue, interactive, delay)
    lower_task(task)  # refused before a file is made for it
    with opened(store, schema, makes_file=True) as dispatcher:
        known = until_known(dispatcher.world, lambda: dispatcher.store.create(task), "with the same words")
    if known.answer.created or known.after_unknown:
        later = f" in {delay:g} s" if delay else ""
        typer.echo(f"created {name(id)}: a worker of queue {name(queue)} may take it{later}")
    else:
        typer.echo(f"{name(id)} was there with the same content: nothing changed")
    typer.echo(f"look: noeta tasks show {name(id)}")
