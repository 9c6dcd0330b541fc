"""The factories of the stores in this repository, and the clocks their tests control.

Each implements ``noeta.testing.store_contract.StoreFactory``. A store author needs none of them: a function of the
form in `noeta.chaos.certify` is enough.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import psycopg
from psycopg import sql

from noeta.backends.stores.memory import MemoryStore
from noeta.backends.stores.postgres import PostgresStore
from noeta.backends.stores.sqlite import SqliteStore
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import Store
from noeta.testing.clock import STARTED, ManualClock
from noeta.testing.postgres.clocked import ClockTable


class MemoryFactory:
    """Implements ``StoreFactory``; another handle is the same object."""

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


class SqliteFactory:
    """Implements ``StoreFactory``: a file of its own for each ``make``."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="noeta-sqlite-")
        self._made = 0
        self._handles: list[SqliteStore] = []
        self._clock = ManualClock()

    @property
    def path(self) -> str:
        """The file of the last ``make``."""
        return str(Path(self._folder.name) / f"{self._made}.db")

    def make(self) -> SqliteStore:
        self._close_handles()
        self._made += 1
        self._clock = ManualClock()
        return self.another()

    def another(self) -> SqliteStore:
        store = SqliteStore(self.path, clock=self._clock.now)
        self._handles.append(store)
        return store

    def clock(self) -> ManualClock:
        return self._clock

    def close(self) -> None:
        self._close_handles()
        self._folder.cleanup()

    def _close_handles(self) -> None:
        for store in self._handles:
            store.close()
        self._handles.clear()


class PostgresClock:
    """Implements ``noeta.testing.store_contract.Clock`` over the row that the schema's ``clock()`` reads, so that
    moving it costs one UPDATE and is seen by every session."""

    def __init__(self, table: ClockTable) -> None:
        self._table = table
        self._micros = 0
        self.reset()

    def now(self) -> float:
        return self._micros / MICROS_PER_SECOND

    def advance(self, seconds: float) -> None:
        self._set(self._micros + round(seconds * MICROS_PER_SECOND))

    def reset(self) -> None:
        self._set(round(STARTED * MICROS_PER_SECOND))

    def _set(self, micros: int) -> None:
        self._micros = micros
        self._table.set(micros)


class PostgresFactory:
    """Implements ``StoreFactory`` over one migrated schema, emptied by ``make``."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self._handles: list[PostgresStore] = []
        self._table = ClockTable(dsn, schema)
        self._clock = PostgresClock(self._table)
        self._session = psycopg.connect(dsn, autocommit=True)

    def make(self) -> PostgresStore:
        self._close_handles()
        self._table.empty()
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
        self._table.close()

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
