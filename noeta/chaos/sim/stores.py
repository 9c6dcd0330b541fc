"""The stores that a simulation can be played on. Their clock is the simulation's; nothing else of them changes.

The traces of one seed over all of them must be equal: a line of the trace is a row as the store shows it after a call.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.sim.server import MakeStore
from noeta.core.errors import BadInput
from noeta.core.store import Store

STORES: Final = ("memory", "sqlite", "postgres")


def names_of(text: str) -> tuple[str, ...]:
    """The stores that ``memory,sqlite`` names, the memory store first: it is what the others are compared with.

    Raises:
        BadInput.
    """
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in STORES:
            raise BadInput("stores", f"some of {', '.join(STORES)}, found {name!r}")
    if set(names) == {"memory"}:
        raise BadInput("stores", "expected one to compare with the memory store, found the memory store alone")
    return tuple(name for name in STORES if name in names or name == "memory")


@contextmanager
def open_makers(names: Sequence[str]) -> Iterator[dict[str, MakeStore]]:
    """For each name, what makes an empty store of the kind; everything made is gone afterwards. One execution at a
    time: an execution closes its store.

    Raises:
        BadInput: Postgres is among them, and there is no server to be had.
    """
    with ExitStack() as stack:
        yield {name: stack.enter_context(_OPENERS[name]()) for name in names}


@contextmanager
def _memory() -> Iterator[MakeStore]:
    yield MemoryStore


@contextmanager
def _sqlite() -> Iterator[MakeStore]:
    from noeta.backends.stores.sqlite import SqliteStore

    with tempfile.TemporaryDirectory(prefix="noeta-sim-") as place:
        count = 0

        def make(clock: Callable[[], float]) -> Store:
            nonlocal count
            count += 1
            path = Path(place) / f"{count}.db"
            for old in Path(place).iterdir():
                old.unlink()
            return SqliteStore(str(path), clock=clock)

        yield make


@contextmanager
def _postgres() -> Iterator[MakeStore]:
    from noeta.backends.stores.postgres import PostgresStore
    from noeta.testing.postgres import NoPostgres, Server, find_source, fresh_schema
    from noeta.testing.postgres.clocked import ClockedStore, ClockTable

    try:
        source = find_source(os.environ)
    except NoPostgres as error:
        raise BadInput("stores", f"expected a Postgres, found none: {error}") from error
    with Server(source) as server, fresh_schema(server.dsn) as lease:
        table = ClockTable(server.dsn, lease.name)

        def make(clock: Callable[[], float]) -> Store:
            table.empty()
            store = PostgresStore(server.dsn, schema=lease.name, max_connections=2, allow_unsafe=True, monotonic=clock)
            return ClockedStore(store, table, clock)

        try:
            yield make
        finally:
            table.close()


_OPENERS: Final = {"memory": _memory, "sqlite": _sqlite, "postgres": _postgres}
