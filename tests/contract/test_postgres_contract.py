"""The Postgres store keeps the contract, against a real server."""

from __future__ import annotations

import pytest

from noeta.testing.store_contract import StoreContract
from tests.contract.factories import PostgresFactory


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store_factory(self, postgres_factory: PostgresFactory) -> PostgresFactory:
        return postgres_factory
