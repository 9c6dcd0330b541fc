"""A store from one string, as people write it on a command line."""

from __future__ import annotations

import re
from typing import Final

from noeta.core.errors import BadInput
from noeta.core.store import Store

_ADDRESS: Final = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_CONNECTION_STRING: Final = re.compile(r"\s*[a-z_]+\s*=", re.IGNORECASE)


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
    """The store behind a ``postgresql://`` address, or a libpq ``host=… dbname=…`` string.

    Nothing is asked of the server yet: it may be down. ``pooled`` and ``statement_timeout``: docs/postgres.md.

    Raises:
        BadInput: neither, or another argument; names what is expected, and never repeats the address, which may
            hold a password.
    """
    if not _ADDRESS.match(address) and not _CONNECTION_STRING.match(address):
        scheme, colon, _ = address.partition("://")
        found = f"{scheme}://…" if colon else "something else"
        raise BadInput("store", f"expected postgresql://… or a connection string host=… dbname=…, found {found}")
    from noeta.backends.stores.postgres import PostgresStore

    return PostgresStore(
        address,
        schema=schema,
        max_connections=max_connections,
        pooled=pooled,
        statement_timeout=statement_timeout,
    )
