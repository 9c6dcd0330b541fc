"""Opens a database file: whose it is, which version, and the tables if it is new.

A file is created by its first opening; several processes may open it at once, and a killed one leaves whole
migrations behind. A file of another program, of a newer version, or of no database at all is refused unchanged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from noeta.backends.stores.pg_errors import SchemaMismatch
from noeta.backends.stores.sql_loader import load_migrations, load_statements
from noeta.backends.stores.sqlite_connection import Lane
from noeta.backends.stores.sqlite_errors import FileMoved, NotOurFile, OldLibrary
from noeta.backends.stores.sqlite_file import DatabaseFile

STORE: Final = "sqlite"
SCHEMA: Final = "main"
"""SQLite's name for the file a connection was opened on."""

LIBRARY_OLDEST: Final = (3, 38, 0)
"""STRICT tables came with 3.37, JSON functions in every build with 3.38."""

APPLICATION: Final = 1_852_794_228
"""``noet`` as a number; the first migration writes it."""

WAL_HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24


def load_names() -> dict[str, str]:
    """Every statement of the store by name."""
    return {**load_statements(STORE, SCHEMA), **load_statements(STORE, SCHEMA, "connection.sql")}


def needed_version() -> int:
    """The newest migration this code brings."""
    return load_migrations(STORE, SCHEMA)[-1].version


def check_library(found: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raises: OldLibrary."""
    if found < LIBRARY_OLDEST:
        wanted, have = (".".join(map(str, version)) for version in (LIBRARY_OLDEST, found))
        raise OldLibrary(f"the SQLite store needs the library {wanted} or newer, this Python has {have}")


def prepare(lane: Lane, file: DatabaseFile) -> None:
    """Check the file, put it into WAL mode, and apply what is missing.

    Raises:
        NotOurFile, SchemaMismatch, UnsafeFile, ReadOnlyFile, CorruptFile, Locked, StoreUnavailable
    """
    _check_owner(lane, file)  # before anything is changed in it
    lane.set_up()
    if lane.run_alone("version")[0][0] < needed_version():
        _migrate(lane, file)


def _check_owner(lane: Lane, file: DatabaseFile) -> None:
    application, version, objects = lane.run_alone("owner")[0]
    if application != APPLICATION and (application or version or objects):
        raise NotOurFile(f"{file.path}: expected a noeta database, found one of application {application}")
    if version > needed_version():
        raise SchemaMismatch(
            f"{file.path} is at version {version}, newer than the {needed_version()} this version knows: update noeta"
        )


def _migrate(lane: Lane, file: DatabaseFile) -> None:
    with lane.writing(is_checked=False):
        version = lane.run("version")[0][0]  # again, under the lock: another process may have been first
        for migration in load_migrations(STORE, SCHEMA):
            if migration.version > version:
                for statement in _statements(migration.text):
                    lane.run_text(statement)


def checkpoint(lane: Lane, file: DatabaseFile) -> None:
    """Copy what is committed into the database. The caller holds the write lock on another connection.

    Raises:
        FileMoved: the ``-wal`` is not the one that others write to.
        StoreUnavailable
    """
    _, frames, _ = lane.run_alone("checkpoint")[0]
    page_bytes = lane.run_alone("page_bytes")[0][0]
    if frames > 0 and file.wal_bytes() < WAL_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + page_bytes):
        raise FileMoved(f"{file.path}-wal was removed while other processes had the database open: stop them first")


def _statements(text: str) -> Iterator[str]:
    """The statements of a migration, one by one: ``executescript`` would commit between them."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
