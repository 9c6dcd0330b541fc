"""The stores of this project in the form that is asked of everybody: what `noeta certify memory` makes.

The Postgres of ``NOETA_TEST_POSTGRES_DSN`` is used; `noeta certify` starts one and sets it. A schema is named for
the process that made it (`noeta.testing.postgres.schemas`), so that what a killed run leaves is swept by the next.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from noeta.backends.stores.memory import MemoryStore
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.backends.stores.sqlite import SqliteStore
from noeta.core.store import Store
from noeta.testing.postgres.clocked import ClockedStore, ClockTable
from noeta.testing.postgres.guard import started_at
from noeta.testing.postgres.schemas import PREFIX
from noeta.testing.postgres.source import DSN_VARIABLE


def memory(place: str, clock: Callable[[], float] | None = None) -> Store:
    return MemoryStore(clock)


memory.shared = False  # type: ignore[attr-defined]


def sqlite(place: str, clock: Callable[[], float] | None = None) -> Store:
    return SqliteStore(f"{place}/tasks.db", clock=clock)


def postgres(place: str, clock: Callable[[], float] | None = None) -> Store:
    dsn, schema = os.environ[DSN_VARIABLE], _schema_of(place)
    store = PostgresStore(dsn, schema=schema, max_connections=8, allow_unsafe=True)
    return store if clock is None else ClockedStore(store, _clock_table(dsn, schema), clock)


def _empty(place: str) -> None:
    _clock_table(os.environ[DSN_VARIABLE], _schema_of(place)).empty()


def _remove(place: str) -> None:
    noted = Path(place) / "schema"
    if noted.exists():
        statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(noted.read_text()))
        with psycopg.connect(os.environ[DSN_VARIABLE], autocommit=True) as session:
            session.execute(statement)


postgres.empty = _empty  # type: ignore[attr-defined]
postgres.remove = _remove  # type: ignore[attr-defined]


def _schema_of(place: str) -> str:
    """The schema of a place: made by whoever comes first, noted there for the others."""
    noted = Path(place) / "schema"
    if not noted.exists():
        me = os.getpid()
        name = f"{PREFIX}{me}_{started_at(me) or 0}_{secrets.token_hex(4)}"
        migrate(os.environ[DSN_VARIABLE], name)
        passing = noted.with_name(name)
        passing.write_text(name)
        passing.replace(noted)
    return noted.read_text()


@cache
def _clock_table(dsn: str, schema: str) -> ClockTable:
    """One for all handles of a process: it knows what the clock says, and does not say it twice."""
    return ClockTable(dsn, schema)
