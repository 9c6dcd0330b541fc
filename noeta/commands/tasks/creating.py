"""`noeta tasks create`: a new task, for whichever worker takes it."""

from __future__ import annotations

from typing import Annotated

import typer

from noeta.commands.named import named
from noeta.commands.tasks.hints import At
from noeta.commands.tasks.known import until_known
from noeta.commands.tasks.outcome import tell
from noeta.commands.tasks.place import Address, AsJson, Schema, TaskId, check_text, opened
from noeta.core.lower import lower_task
from noeta.core.store import NewTask, Posted
from noeta.story.text import name


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
    as_json: AsJson = False,
) -> None:
    """Create a task. A repeat with the same content changes nothing; another task under the same id is refused.

    A SQLite file that is not there is made, and named.
    """
    check_text("--goal", goal)
    task = NewTask(id, agent, goal, queue, interactive, delay)
    with named(delay_seconds="--delay", queue="--queue", agent="--agent"):
        lower_task(task)  # refused before a file is made for it
    at = At(store, schema)
    with opened(at, on_new_file=lambda file: typer.echo(f"made {name(file)}", err=as_json)) as dispatcher:
        known = until_known(dispatcher.world, lambda: dispatcher.store.create(task), "with the same words")
    if known.answer.created or known.after_unknown:
        later = f" in {delay:.15g} s" if delay else ""
        words = f"created {name(id)}: a worker of queue {name(queue)} may take it{later}"
        posted = Posted("created", None, made_ready=not delay)
    else:
        words = f"{name(id)} was there with the same content: nothing changed"
        posted = Posted("repeat", None, made_ready=False)
    tell(at, id, posted, words, as_json=as_json)
