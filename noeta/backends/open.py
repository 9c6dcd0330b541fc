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
        BadInput: none of these, or another argument; names what is expected, and never repeats the address, which may
            hold a password.
        StoreUnavailable: a file that cannot be used.
    """
    if file := _FILE.match(address):
        from noeta.backends.stores.sqlite import SqliteStore

        return SqliteStore(address[file.end() :], wait_seconds=statement_timeout)
    if address.startswith(_FACTORY):
        return open_factory(address.removeprefix(_FACTORY))
    if not _ADDRESS.match(address) and not _CONNECTION_STRING.match(address):
        scheme, colon, _ = address.partition("://")
        found = f"{scheme}://…" if colon else "something else"
        raise BadInput(
            "store",
            "expected postgresql://…, a connection string host=… dbname=…, sqlite:PATH or "
            f"factory:MODULE:FUNCTION:PLACE, found {found}",
        )
    from noeta.backends.stores.postgres import PostgresStore

    return PostgresStore(
        address,
        schema=schema,
        max_connections=max_connections,
        pooled=pooled,
        statement_timeout=statement_timeout,
    )
