"""Where the tasks are, and what a person is told when the store refuses or cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from noeta.backends.open import open_store
from noeta.commands.named import named
from noeta.commands.tasks.hints import STORE_VARIABLE, At
from noeta.core import codec, limits
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
from noeta.story.text import one_line, quoted

UNREACHABLE: Final = 3
"""The store cannot be asked, or nobody could tell in time what became of a write."""

_FILE: Final = re.compile(r"sqlite:(?://(?=/)|(?!//))(.*)", re.IGNORECASE | re.DOTALL)

_NO_RETRY_MENDS: Final = frozenset(
    {"corrupt_file", "old_library", "read_only_file", "schema_mismatch", "unsafe_file", "unsafe_server"}
)
"""Codes of ``StoreUnavailable`` whose text says what a person must change."""

Address = Annotated[
    str, typer.Option("--store", help="The tasks: postgresql://… or sqlite:PATH.", envvar=STORE_VARIABLE)
]
Schema = Annotated[str, typer.Option("--schema", help="The Postgres schema that `noeta migrate` filled.")]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id. After --, it may begin with a dash.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")]


class Refused(NoetaError):
    """The store holds something that stands against what was asked; nothing changed. Says what to do next."""

    code = "refused"


def check_text(field: str, text: str) -> None:
    """Refuse a text that says nothing, or that no store could hold, before any is opened."""
    if not text.strip():
        raise BadInput(field, f"must not be {'blank' if text else 'empty'}")
    codec.check(field, text, bytes_max=limits.ITEM_BYTES_MAX)


@contextmanager
def opened(
    at: At, *, task_id: str | None = None, on_new_file: Callable[[str], None] | None = None
) -> Iterator[Dispatcher]:
    """The store, for one command.

    ``task_id``: checked before the store is opened. ``on_new_file``: a SQLite file that is not there is made,
    and its path told; other commands refuse it, since a mistyped path would look like a store without tasks.

    Raises:
        BadInput, Refused; typer.Exit with ``UNREACHABLE``: what to do next is on standard error.
    """
    if task_id is not None:
        check_name("task_id", task_id, chars_max=limits.TASK_ID_CHARS_MAX)
    made = new_file(at.address, may_be=on_new_file is not None)
    try:
        with told_of_store(), closing(open_store(at.address, schema=at.schema)) as store:
            if made is not None and on_new_file is not None:
                on_new_file(made)
            yield Dispatcher(store)
    except UnknownTask as error:
        raise Refused(f"{error} in this store; {at.hint('those there are', 'list')}") from error
    except DuplicateTask as error:
        raise Refused(f"{error}; give the new task another id") from error
    except UnreadableLog as error:
        help = "use the newer version that wrote it" if error.newer else "restore it from a backup"
        raise Refused(f"{error}; {help}") from error
    except CommitUnknown as error:
        typer.echo(f"noeta: {error}", err=True)
        raise typer.Exit(UNREACHABLE) from error


@contextmanager
def told_of_store() -> Iterator[None]:
    """A store that cannot be asked ends the command, with what to do next on standard error.

    Raises:
        BadInput: its address is wrong; typer.Exit with ``UNREACHABLE``.
    """
    try:
        with named(store="--store", path="--store", schema="--schema"):
            yield
    except StoreUnavailable as error:
        text = one_line(error)
        if error.code == "not_our_file":
            raise BadInput("--store", f"{text}; name another file") from error
        written = "" if "nothing was written" in text else ", nothing was written"
        retry = "" if error.code in _NO_RETRY_MENDS else "; try again"
        typer.echo(f"noeta: the store cannot be asked{written}{retry}: {text}", err=True)
        raise typer.Exit(UNREACHABLE) from error


def new_file(address: str, *, may_be: bool) -> str | None:
    """The path of a SQLite file that is not there yet; None: it is there, or the address names none.

    Raises:
        BadInput: no store can be made of it, which no retry would mend; or it is new and must not be.
    """
    found = _FILE.fullmatch(address)
    if found is None:
        return None
    if not found[1]:
        raise BadInput("--store", "expected a path after sqlite:, found nothing")
    file, shown = Path(found[1]), quoted(found[1])
    try:
        if not file.parent.is_dir():
            raise BadInput("--store", f"there is no folder {quoted(str(file.parent))}; make it, or name another file")
        if file.exists() and not file.is_file():
            raise BadInput("--store", f"{shown} is {'a folder' if file.is_dir() else 'no file'}; name a file")
        if not may_be and not file.exists():
            raise BadInput("--store", f"there is no file {shown}; `noeta tasks create` or `noeta worker` makes one")
        return None if file.exists() else found[1]
    except OSError as error:
        raise BadInput("--store", f"{shown} cannot be looked at: {error.strerror}") from error
