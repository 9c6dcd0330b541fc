"""Where the tasks are, and what a person is told when the store refuses or cannot be asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from noeta.backends.open import open_store
from noeta.commands.tasks.words import one_line
from noeta.core import limits
from noeta.core.errors import (
    BadInput,
    CommitUnknown,
    DuplicateTask,
    NoetaError,
    StoreUnavailable,
    UnknownTask,
    UnreadableLog,
)
from noeta.core.ids import check_name
from noeta.runtime.dispatcher import Dispatcher

UNREACHABLE: Final = 3
"""The store cannot be asked, or nobody could tell in time what became of a write."""

_FILE: Final = "sqlite:"

Address = Annotated[
    str, typer.Option("--store", help="The tasks: postgresql://… or sqlite:PATH.", envvar="NOETA_STORE")
]
Schema = Annotated[str, typer.Option("--schema", help="The Postgres schema that `noeta migrate` filled.")]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")]


class Refused(NoetaError):
    """The store holds something that stands against what was asked; nothing changed. Says what to do next."""

    code = "refused"


@contextmanager
def opened(address: str, schema: str, *, task_id: str | None = None, makes_file: bool = False) -> Iterator[Dispatcher]:
    """The store, for one command.

    ``task_id``: checked before the store is opened. ``makes_file``: a SQLite file that is not there is made; other
    commands refuse it, since a mistyped path would look like a store without tasks.

    Raises:
        BadInput, Refused; typer.Exit with ``UNREACHABLE``: what to do next is on standard error.
    """
    if task_id is not None:
        check_name("task_id", task_id, chars_max=limits.TASK_ID_CHARS_MAX)
    if not makes_file:
        _check_is_there(address)
    try:
        with closing(open_store(address, schema=schema)) as store:
            yield Dispatcher(store)
    except UnknownTask as error:
        raise Refused(f"{error} in this store; `noeta tasks list` shows those there are") from error
    except DuplicateTask as error:
        raise Refused(f"{error}; give the new task another id") from error
    except UnreadableLog as error:
        help = "use the newer version that wrote it" if error.newer else "restore it from a backup"
        raise Refused(f"{error}; {help}") from error
    except StoreUnavailable as error:
        typer.echo(f"noeta: the store cannot be asked, nothing was written; try again: {one_line(error)}", err=True)
        raise typer.Exit(UNREACHABLE) from error
    except CommitUnknown as error:
        typer.echo(f"noeta: {error}", err=True)
        raise typer.Exit(UNREACHABLE) from error


def _check_is_there(address: str) -> None:
    if address.lower().startswith(_FILE) and not Path(address[len(_FILE) :]).exists():
        raise BadInput(
            "--store", f"there is no file {address[len(_FILE) :]!r}; `noeta tasks create` or `noeta worker` makes one"
        )
