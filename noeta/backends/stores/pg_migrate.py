"""Brings a schema to the version this code needs, and refuses one that is newer.

Each migration is one transaction under an advisory lock, so that two processes may migrate at once and a killed
one leaves whole steps behind. Forward only; every step may run while older workers run (new names beside old
ones; functions are numbered and never replaced).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from noeta.backends.stores.pg_connection import parse_dsn
from noeta.backends.stores.pg_errors import SchemaMismatch
from noeta.backends.stores.sql_loader import Migration, load_migrations, load_statements, quote_name
from noeta.core.errors import StoreUnavailable

STORE: Final = "postgres"

LOCK_WAIT_SECONDS: Final = 60
"""How long a migration waits for another one, or for the workers' row locks, before it gives up unchanged."""


def migrate(dsn: str, schema: str = "noeta") -> tuple[int, ...]:
    """Apply what is missing; the versions applied now (none if the schema was up to date).

    Raises:
        BadInput: the schema's name or the connection string; never repeats the latter.
        SchemaMismatch: the schema is newer than this version.
        StoreUnavailable: the server could not be asked or refused; steps already applied stay.
    """
    return apply_migrations(dsn, schema)


def apply_migrations(
    dsn: str, schema: str, *, patches: Sequence[tuple[str, str]] = (), up_to: int | None = None
) -> tuple[int, ...]:
    """``migrate`` with planted bugs, or only up to a version: for tests."""
    migrations = load_migrations(STORE, schema, patches)
    parse_dsn(dsn)
    applied = []
    try:
        with _connect(dsn) as connection:
            for migration in migrations[:up_to]:
                if _apply(connection, schema, migration, newest=migrations[-1].version):
                    applied.append(migration.version)
    except psycopg.Error as error:
        raise StoreUnavailable(
            f"migrating schema {schema!r} failed after versions {applied} [{error.sqlstate}]: {error}"
        ) from error
    return tuple(applied)


def needed_version() -> int:
    """The newest migration this code brings."""
    return load_migrations(STORE, "noeta")[-1].version


def check_versions(versions: Sequence[int], needed: int, schema: str) -> None:
    """Refuse a schema that this code cannot work on.

    Raises:
        SchemaMismatch: names both versions and what to do.
    """
    newest = max(versions, default=0)
    if newest > needed:
        raise SchemaMismatch(
            f"schema {schema!r} is at version {newest}, newer than the {needed} this version knows: update noeta"
        )
    if sorted(versions) != list(range(1, needed + 1)):
        raise SchemaMismatch(f"schema {schema!r} is at version {newest}, expected {needed}: run `noeta migrate`")


def _apply(connection: psycopg.Connection[tuple[Any, ...]], schema: str, migration: Migration, *, newest: int) -> bool:
    """One step in one transaction. Takes: the migration lock of this schema."""
    run = {name: text.encode() for name, text in load_statements(STORE, schema, "migrate.sql").items()}
    with connection.transaction():
        connection.execute(run["lock"], [_lock_key(schema)])
        if connection.execute(run["find_schema"], [schema]).fetchone() is None:
            connection.execute(run["create_schema"])
        versions: list[int] = []
        if connection.execute(run["find_migrations"], [schema]).fetchone() is not None:
            versions = [row[0] for row in connection.execute(run["versions"]).fetchall()]
        if max(versions, default=0) > newest:
            check_versions(versions, newest, schema)
        if migration.version in versions:
            return False
        connection.execute(migration.text.encode())
        connection.execute(run["record"], [migration.version, migration.name])
    return True


def _connect(dsn: str) -> psycopg.Connection[tuple[Any, ...]]:
    options = (
        rf"-c search_path=pg_catalog -c default_transaction_isolation=read\ committed -c synchronous_commit=on "
        rf"-c lock_timeout={LOCK_WAIT_SECONDS}s -c client_encoding=UTF8"
    )
    given = parse_dsn(dsn)
    merged = f"{given.get('options') or ''} {options}".strip()
    return psycopg.connect(
        dsn,
        options=merged,
        autocommit=True,
        application_name="noeta migrate",
        connect_timeout=10,
        cursor_factory=psycopg.RawCursor,  # $1 as in every statement; a schema name may hold a percent sign
    )


def _lock_key(schema: str) -> int:
    digest = hashlib.sha256(f"noeta migrate {quote_name(schema)}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
