"""The factories of the stores in this repository, and the clocks their tests control."""

from __future__ import annotations

import threading

import psycopg
from psycopg import sql

from noeta.backends.stores.memory import MemoryStore
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.store import Store
from noeta.testing.clock import STARTED, ManualClock


class MemoryFactory:
    """Implements ``noeta.testing.store_contract.StoreFactory``; another handle is the same object."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._store = MemoryStore(self._clock.now)

    def make(self) -> Store:
        self._clock = ManualClock()
        self._store = MemoryStore(self._clock.now)
        return self._store

    def another(self) -> Store:
        return self._store

    def clock(self) -> ManualClock:
        return self._clock

    def close(self) -> None:
        self._store.close()


class PostgresClock:
    """Implements ``noeta.testing.store_contract.Clock``: the body of the schema's ``clock()`` is replaced, and
    nothing else. It reads a table, so that moving it costs one UPDATE and is seen by every session."""

    def __init__(self, session: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._names = {"schema": sql.Identifier(schema)}
        self._micros = 0
        self._run("CREATE TABLE {schema}.test_clock (micros bigint NOT NULL)")
        self._run("INSERT INTO {schema}.test_clock VALUES (0)")
        self._run(
            "CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint LANGUAGE sql VOLATILE"
            " RETURN (SELECT c.micros FROM {schema}.test_clock c)"
        )
        self.reset()

    def now(self) -> float:
        return self._micros / 1_000_000

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._set(self._micros + round(seconds * 1_000_000))

    def reset(self) -> None:
        with self._lock:
            self._set(round(STARTED * 1_000_000))

    def _set(self, micros: int) -> None:
        self._micros = micros
        self._session.execute(
            sql.SQL("UPDATE {schema}.test_clock SET micros = %s").format(**self._names), [self._micros]
        )

    def _run(self, statement: str) -> None:
        self._session.execute(sql.SQL(statement).format(**self._names))


class PostgresFactory:
    """Implements ``noeta.testing.store_contract.StoreFactory`` over one migrated schema, emptied by ``make``."""

    def __init__(self, dsn: str, schema: str) -> None:
        migrate(dsn, schema=schema)
        self._dsn = dsn
        self._schema = schema
        self._handles: list[PostgresStore] = []
        self._session = psycopg.connect(dsn, autocommit=True)
        rows = self._session.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migration'", [schema]
        )
        self._tables = [sql.Identifier(schema, str(row[0])) for row in rows]
        self._clock = PostgresClock(self._session, schema)

    def make(self) -> PostgresStore:
        self._close_handles()
        # Not TRUNCATE: new files for every table and index cost 30 ms, these few rows do not.
        deletes = sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in self._tables)
        self._session.execute(deletes)
        self._clock.reset()
        return self.another()

    def another(self) -> PostgresStore:
        store = PostgresStore(self._dsn, schema=self._schema, max_connections=2, allow_unsafe=True)
        self._handles.append(store)
        return store

    def clock(self) -> PostgresClock:
        return self._clock

    def close(self) -> None:
        self._close_handles()
        self._session.close()

    def execute(self, statement: str, *values: object) -> None:
        """Reach behind the store, for rows that no verb can make; ``{schema}`` stands for the schema."""
        self._session.execute(
            sql.SQL(statement).format(schema=sql.Identifier(self._schema)),
            values,
        )

    def _close_handles(self) -> None:
        for store in self._handles:
            store.close()
        self._handles.clear()
