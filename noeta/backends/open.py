"""A store from one string, as people write it on a command line."""

from __future__ import annotations

from noeta.core.errors import BadInput
from noeta.core.store import Store

SCHEMES = ("postgresql://", "postgres://")


def open_store(url: str, *, schema: str = "noeta", max_connections: int = 16) -> Store:
    """The store behind a ``postgresql://`` address. Nothing is asked of the server yet: it may be down.

    Raises:
        BadInput: another scheme; names the ones there are.
    """
    if not url.lower().startswith(SCHEMES):
        raise BadInput("store", f"expected an address beginning with {' or '.join(SCHEMES)}, found {_scheme(url)!r}")
    from noeta.backends.stores.postgres import PostgresStore

    return PostgresStore(url, schema=schema, max_connections=max_connections)


def _scheme(url: str) -> str:
    """The part that is safe to print: never a password."""
    return url.split("://", 1)[0] + "://" if "://" in url else url.split("@")[-1]
