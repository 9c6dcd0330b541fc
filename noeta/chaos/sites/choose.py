"""From what a person wrote behind ``--store`` to the site of a storm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noeta.backends.factory import check_factory
from noeta.chaos.sites.local import factory_site, sqlite_site
from noeta.chaos.sites.postgres import PostgresSite
from noeta.chaos.sites.site import Site
from noeta.core.errors import BadInput
from noeta.testing.postgres import NoPostgres, find_source
from noeta.testing.postgres.source import FORCE_VARIABLE

EXPECTED: Final = "postgresql://…, sqlite:, sqlite:PATH, factory:MODULE:FUNCTION or factory:MODULE:FUNCTION:PLACE"
_HOST: Final = re.compile(r"//(?!/)")
_POSTGRES: Final = re.compile(r"postgres(ql)?://", re.IGNORECASE)


def names_a_place(store: str) -> bool:
    """Whether one place is named, at which only one run can be."""
    kind, _, rest = store.partition(":")
    return bool(rest) if kind == "sqlite" else kind == "factory" and rest.count(":") >= 2


def is_postgres(store: str) -> bool:
    """Whether this is the address of a Postgres server, which may hold a password."""
    return _POSTGRES.match(store) is not None


def choose_site(store: str | None, dsn: str | None, environ: Mapping[str, str]) -> Site:
    """The site of a storm. ``store`` None: Postgres, at ``dsn`` or wherever one is found.

    Raises:
        BadInput: the store is none, cannot be loaded or its place is taken; or a Postgres that was asked for is
            not there. Never repeats an address, which may hold a password.
        NoPostgres: none was asked for and none was found.
    """
    if store is None or is_postgres(store):
        return _postgres(store or dsn or None, environ)
    kind, colon, rest = store.partition(":")
    if kind == "sqlite" and colon and not _HOST.match(rest):
        return sqlite_site(rest.removeprefix("//"))
    if kind == "factory" and rest.count(":") >= 1:
        module, function, *place = rest.split(":", 2)
        check_factory(module, function)
        return factory_site(module, function, place[0] if place else "")
    found = f"{kind}:…" if colon and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", kind) else "something else"
    raise BadInput("--store", f"expected {EXPECTED}, found {found}")


def _postgres(dsn: str | None, environ: Mapping[str, str]) -> Site:
    try:
        return PostgresSite(find_source(environ, dsn))
    except NoPostgres as error:
        if dsn or environ.get(FORCE_VARIABLE):
            raise BadInput("postgres", str(error)) from None
        raise
