"""Tests that must hold over every store ask for ``any_factory``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noeta.testing.postgres import fresh_schema
from noeta.testing.store_contract import Stage, StoreFactory
from tests.contract.factories import MemoryFactory, PostgresFactory, SqliteFactory


@pytest.fixture(scope="module")
def postgres_factory(pg_dsn: str) -> Iterator[PostgresFactory]:
    """One migrated schema for all tests of a file; ``make`` empties it."""
    with fresh_schema(pg_dsn) as lease:
        factory = PostgresFactory(pg_dsn, lease.name)
        yield factory
        factory.close()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.pg)])
def any_factory(request: pytest.FixtureRequest) -> Iterator[StoreFactory]:
    if request.param == "postgres":
        postgres: PostgresFactory = request.getfixturevalue("postgres_factory")
        yield postgres
        return
    factory = MemoryFactory() if request.param == "memory" else SqliteFactory()
    yield factory
    factory.close()


@pytest.fixture
def stage(any_factory: StoreFactory) -> Stage:
    return Stage(any_factory.make(), any_factory.clock(), any_factory.another)
