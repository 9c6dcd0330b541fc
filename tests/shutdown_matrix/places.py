"""The two stores of the matrix, and how each is taken away from its workers and given back."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from noeta.backends.open import open_store
from noeta.backends.stores.pg_migrate import migrate
from noeta.core.store import Store
from noeta.testing.postgres import Server

SCHEMA = "shutdown"


class Place(Protocol):
    """Where the tasks of some cells are."""

    @property
    def name(self) -> str: ...

    @property
    def can_go_away(self) -> bool:
        """Whether it is ours to stop."""
        ...

    def address(self, folder: Path) -> str:
        """What `--store` says, for the cell in this folder."""
        ...

    def hang(self, folder: Path) -> contextlib.AbstractContextManager[None]:
        """No call is answered any more."""
        ...

    def away(self, folder: Path) -> contextlib.AbstractContextManager[None]:
        """It cannot be reached, or not be written."""
        ...


class SqlitePlace:
    """A file for each cell. What takes it away is another process's lock."""

    name = "SQLite"
    can_go_away = True

    def address(self, folder: Path) -> str:
        return f"sqlite:{folder / 'tasks.db'}"

    @contextlib.contextmanager
    def hang(self, folder: Path) -> Iterator[None]:
        other = sqlite3.connect(folder / "tasks.db", isolation_level=None, timeout=60.0)
        try:
            other.execute("BEGIN IMMEDIATE")
            yield
        finally:
            other.close()

    def away(self, folder: Path) -> contextlib.AbstractContextManager[None]:
        return self.hang(folder)


class PostgresPlace:
    """One server for all cells, that is frozen, or stopped and started."""

    name = "Postgres"

    def __init__(self, server: Server) -> None:
        self._server = server
        migrate(server.dsn, SCHEMA)

    @property
    def can_go_away(self) -> bool:
        return self._server.owned

    def address(self, folder: Path) -> str:
        return self._server.dsn

    @contextlib.contextmanager
    def hang(self, folder: Path) -> Iterator[None]:
        frozen = self._server.processes()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def away(self, folder: Path) -> Iterator[None]:
        self._server.stop("immediate")
        try:
            yield
        finally:
            self._server.start()


def open_place(place: Place, folder: Path) -> Store:
    """A handle on the store of this cell, for the one who looks on."""
    return open_store(place.address(folder), schema=SCHEMA)
