"""`noeta migrate`: bring a Postgres schema to this version."""

from __future__ import annotations

from typing import Annotated

import typer

from noeta.commands.tasks.place import new_file, told_of_store
from noeta.core.errors import BadInput


def migrate(
    store: Annotated[
        str, typer.Option(help="Where the tasks are: postgresql://… or sqlite:PATH.", envvar="NOETA_STORE")
    ],
    schema: Annotated[str, typer.Option(help="The schema to create or bring up to date.")] = "noeta",
) -> None:
    """Create the tables and functions, or bring them up to date. Two at once are fine; a killed one is finished
    by the next.

    Exit codes: 0 done, 3 the store cannot be asked, 64 bad usage.
    """
    from noeta.backends.open import is_server, open_store
    from noeta.backends.stores.pg_migrate import migrate as bring_up_to_date

    new_file(store, may_be=True)  # refuses what no file can be made of
    with told_of_store():
        if not is_server(store):
            if store.startswith("factory:"):
                raise BadInput(
                    "--store", "expected postgresql://… or sqlite:PATH, found factory:…, which migrates itself"
                )
            open_store(store).close()
            typer.echo("up to date: a SQLite file is made, or brought up to date, by whoever opens it")
            return
        applied = bring_up_to_date(store, schema)
    typer.echo(f"schema {schema}: " + (f"applied {', '.join(map(str, applied))}" if applied else "up to date"))
