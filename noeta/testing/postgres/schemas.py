"""Gives a test a schema of its own, and drops what killed runs left.

A lease is a schema named for its owner, `noeta_t_<pid>_<start time>_<random>`, and a session of the owner
that holds an advisory lock on a hash of that name. The server frees the lock when the session ends, however
the owner went; so a free lock means a dead owner, on this host or another. The lock is taken before the
schema is made: no sweep can see a new schema unlocked.

A nemesis that restarts the server takes the lock from an owner that lives, so the sweep also leaves alone
what a living process of this host made.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import warnings
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from noeta.testing.postgres.guard import is_alive, started_at

PREFIX = "noeta_t_"
LOCK_WAIT = "1s"  # how long a drop waits for a session that still uses the schema, before ending that session
CONNECT_SECONDS_MAX = 10

Connection = psycopg.Connection[tuple[object, ...]]


class SchemaLease:
    """A schema that exists from the making of the lease to its `close`; usable with `with`."""

    def __init__(self, dsn: str) -> None:
        me = os.getpid()
        self.dsn = dsn
        self.name = f"{PREFIX}{me}_{started_at(me) or 0}_{secrets.token_hex(4)}"
        self._session: Connection | None = _connect(dsn)
        try:
            self._session.execute("SELECT pg_advisory_lock(%s)", [_lock_id(self.name)])
            self._session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.name)))
        except BaseException:
            self._session.close()
            raise

    def close(self) -> None:
        """Drop the schema; a session that still uses it is ended, with a ResourceWarning.

        A server that is gone has nothing to drop: then this only forgets the lease.
        """
        session, self._session = self._session, None
        if session is None:
            return
        with session:
            try:
                _drop(session, self.name)
                return
            except psycopg.OperationalError:
                pass  # our session was cut; below with a new one
        try:
            again = _connect(self.dsn)
        except psycopg.OperationalError:
            return
        with again:
            _drop(again, self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fresh_schema(dsn: str) -> SchemaLease:
    """Make an empty schema: `with fresh_schema(dsn) as lease: ... lease.name`."""
    return SchemaLease(dsn)


def sweep_schemas(dsn: str) -> list[str]:
    """Drop the schemas of killed runs, never one whose owner lives; answers the names it dropped."""
    dropped = []
    with _connect(dsn) as session:
        found = session.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", [PREFIX])
        for name in sorted(str(row[0]) for row in found):
            if _has_living_owner(name) or not _try_lock(session, name):
                continue
            try:
                _drop(session, name)
                dropped.append(name)
            finally:
                session.execute("SELECT pg_advisory_unlock(%s)", [_lock_id(name)])
    return dropped


def _connect(dsn: str) -> Connection:
    return psycopg.connect(
        dsn, autocommit=True, connect_timeout=CONNECT_SECONDS_MAX, application_name="noeta schema lease"
    )


def _lock_id(name: str) -> int:
    """64 bits of a hash, signed: what an advisory lock is keyed by."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def _try_lock(session: Connection, name: str) -> bool:
    row = session.execute("SELECT pg_try_advisory_lock(%s)", [_lock_id(name)]).fetchone()
    return row is not None and bool(row[0])


def _has_living_owner(name: str) -> bool:
    found = re.fullmatch(rf"{PREFIX}(\d+)_(\d+)_[0-9a-f]+", name)
    return found is not None and is_alive(int(found.group(1)), int(found.group(2)))


def _drop(session: Connection, name: str) -> None:
    statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
    session.execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_WAIT])
    session.execute("SET client_min_messages = warning")  # a notice for each table would be noise
    try:
        session.execute(statement)
    except psycopg.errors.LockNotAvailable:
        ended = session.execute(
            """
            SELECT pid, pg_terminate_backend(pid) FROM (
                SELECT DISTINCT l.pid
                FROM pg_locks l
                    JOIN pg_class c ON c.oid = l.relation
                    JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = %s AND l.granted AND l.pid <> pg_backend_pid()
                    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            ) AS users
            """,
            [name],
        ).fetchall()
        pids = ", ".join(str(row[0]) for row in ended)
        session.execute(statement)
        warnings.warn(f"sessions {pids} still used schema {name} and were ended", ResourceWarning, stacklevel=3)
