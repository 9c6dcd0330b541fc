"""A store from one string, as people write it on a command line."""

from __future__ import annotations

import re
from typing import Final

from noeta.backends.factory import open_factory
from noeta.core.errors import BadInput
from noeta.core.store import Store

_ADDRESS: Final = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_CONNECTION_STRING: Final = re.compile(r"\s*[a-z_]+\s*=", re.IGNORECASE)
_FILE: Final = re.compile(r"sqlite:(?://(?=/)|(?!//))", re.IGNORECASE)
"""``sqlite:PATH``, or ``sqlite:///PATH`` for one from the root; ``sqlite://`` and a name would be a host."""
_FACTORY: Final = "factory:"
_SECRET: Final = re.compile(r"@|password", re.IGNORECASE)
"""What may be an address with a password in it, mistyped."""

DEFAULT_STATEMENT_TIMEOUT: Final = 5.0
"""Seconds a statement may take before the server gives it up."""


def open_store(
    address: str,
    *,
    schema: str = "noeta",
    max_connections: int = 16,
    pooled: bool = False,
    statement_timeout: float = DEFAULT_STATEMENT_TIMEOUT,
) -> Store:
    """The store behind a ``postgresql://`` address, a libpq ``host=… dbname=…`` string, ``sqlite:PATH``
    (``sqlite:///PATH`` from the root), or ``factory:MODULE:FUNCTION:PLACE``: what ``FUNCTION(PLACE)`` returns.

    Nothing is asked of a server yet: it may be down; a file is opened, and made if it is new. ``pooled``, ``schema``
    and ``max_connections`` are for servers (docs/postgres.md); of a file (docs/sqlite.md) ``statement_timeout`` bounds
    the wait for its lock.

    Raises:
        BadInput: none of these, or another argument; names what is expected, and never repeats what may hold a
            password.
        StoreUnavailable: a file that cannot be used.
    """
    if file := _FILE.match(address):
        from noeta.backends.stores.sqlite import SqliteStore

        return SqliteStore(address[file.end() :], wait_seconds=statement_timeout)
    if address.startswith(_FACTORY):
        return open_factory(address.removeprefix(_FACTORY))
    if not is_server(address):
        raise BadInput(
            "store",
            "expected postgresql://…, a connection string host=… dbname=…, sqlite:PATH or "
            f"factory:MODULE:FUNCTION:PLACE, found {_found(address)}",
        )
    from noeta.backends.stores.postgres import PostgresStore

    return PostgresStore(
        address,
        schema=schema,
        max_connections=max_connections,
        pooled=pooled,
        statement_timeout=statement_timeout,
    )


def is_server(address: str) -> bool:
    """Whether this is how a Postgres server is named."""
    return bool(_ADDRESS.match(address) or _CONNECTION_STRING.match(address))


def _found(address: str) -> str:
    """What stands where an address should, and, where it looks like a file, how that is named."""
    scheme, colon, _ = address.partition("://")
    if colon:
        return f"{scheme}://…"
    if _SECRET.search(address):
        return "something else"
    file = address if address and ":" not in address else "/path/tasks.db"
    return f"{address!r:.200}; a file is named so: sqlite:{file:.200}"
