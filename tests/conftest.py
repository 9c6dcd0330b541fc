"""What every test may ask for: a real Postgres, or a clear word that there is none.

One server per test process, started by the first test that needs it. Where there is no Postgres, such a
test fails in CI, because a skipped contract looks like a kept one; elsewhere it is skipped, and header and
summary say why.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from noeta.testing.postgres import (
    NoPostgres,
    PostgresSource,
    Server,
    find_source,
    fresh_schema,
    sweep_schemas,
)

POSTGRES_FIXTURES = frozenset({"postgres_source", "postgres_server", "pg_dsn", "pg_schema"})

MUTANT_VARIABLE = "NOETA_MUTANT"
"""Names a planted bug of `tests/mutants/catalogue.py`, for which this run is a detector."""

FOUND = pytest.StashKey[PostgresSource | NoPostgres]()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(MUTANT_VARIABLE):
        # Before any test module takes what is to be broken by name. See tests/mutants/.
        from tests.mutants.plant import plant_here

        plant_here()
    try:
        config.stash[FOUND] = find_source(os.environ)
    except NoPostgres as reason:
        config.stash[FOUND] = reason


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = [f"noeta: commit {commit()}, Python {platform.python_version()}"]
    if os.environ.get(MUTANT_VARIABLE):
        lines.append(f"PLANTED BUG: {os.environ[MUTANT_VARIABLE]}: something is meant to fail")
    found = config.stash[FOUND]
    if isinstance(found, NoPostgres):
        lines.append(f"NO POSTGRES: {found} (tests that need it will {'fail' if is_ci() else 'be skipped'})")
    else:
        lines.append(str(found))
    return lines


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and not POSTGRES_FIXTURES.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.pg)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash[FOUND]
    if isinstance(found, NoPostgres):
        terminalreporter.section("no Postgres", yellow=True, bold=True)
        terminalreporter.line(f"{found}")
        terminalreporter.line("The Postgres contract was NOT tested.")


@pytest.fixture(scope="session")
def postgres_source(request: pytest.FixtureRequest) -> PostgresSource:
    found = request.config.stash[FOUND]
    if isinstance(found, PostgresSource):
        return found
    if is_ci():
        pytest.fail(f"CI needs a Postgres: {found}", pytrace=False)
    pytest.skip(f"no Postgres: {found}")


@pytest.fixture(scope="session")
def postgres_server(postgres_source: PostgresSource) -> Iterator[Server]:
    """A running server, shared by the tests of this process: do not stop or kill this one."""
    with Server(postgres_source) as server:
        sweep_schemas(server.dsn)  # of earlier runs, where the server is not ours and outlives us
        yield server


@pytest.fixture(scope="session")
def pg_dsn(postgres_server: Server) -> str:
    return postgres_server.dsn


@pytest.fixture
def pg_schema(pg_dsn: str) -> Iterator[tuple[str, str]]:
    """DSN and name of an empty schema that only this test has."""
    with fresh_schema(pg_dsn) as lease:
        yield pg_dsn, lease.name


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def commit() -> str:
    here = Path(__file__).parent
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
        )
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"
