"""A Postgres store whose instants somebody else decides: the body of the schema's ``clock()`` is replaced by a table,
and nothing else. The simulator's virtual time and a test's clock reach the SQL this way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from noeta.backends.stores.around import AroundStore, Call
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.ids import micros

T = TypeVar("T")


class ClockTable:
    """The one row that ``clock()`` reads, in a schema that is migrated and emptied here. Any thread may set it."""

    def __init__(self, dsn: str, schema: str) -> None:
        migrate(dsn, schema)
        self._schema = schema
        self._session: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self._lock = threading.Lock()
        self._micros = -1
        self._run("SET synchronous_commit = off")
        rows = self._session.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename NOT IN ('migration', 'test_clock')",
            [schema],
        )
        self._tables = [sql.Identifier(schema, str(row[0])) for row in rows]
        self._run("CREATE TABLE IF NOT EXISTS {schema}.test_clock (micros bigint NOT NULL)")
        self._run("DELETE FROM {schema}.test_clock")
        self._run("INSERT INTO {schema}.test_clock VALUES (0)")
        self._run(
            "CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint LANGUAGE sql VOLATILE"
            " RETURN (SELECT c.micros FROM {schema}.test_clock c)"
        )

    def set(self, instant: int) -> None:
        """From now on the store's clock says this, in microseconds since the epoch."""
        with self._lock:
            if instant != self._micros:
                self._run("UPDATE {schema}.test_clock SET micros = %s", instant)
                self._micros = instant

    def empty(self) -> None:
        """Remove every row of the store. Not TRUNCATE: new files for every table and index cost 30 ms."""
        with self._lock:
            self._session.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in self._tables))

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _run(self, statement: str, *values: object) -> None:
        self._session.execute(sql.SQL(statement).format(schema=sql.Identifier(self._schema)), values)


class ClockedStore(AroundStore):
    """Tells the table what ``clock`` (seconds since the epoch) says before every call."""

    def __init__(self, inner: PostgresStore, table: ClockTable, clock: Callable[[], float]) -> None:
        super().__init__(inner)
        self._table = table
        self._clock = clock

    def around(self, call: Call, do: Callable[[], T]) -> T:
        self._table.set(micros(self._clock()))
        return do()
