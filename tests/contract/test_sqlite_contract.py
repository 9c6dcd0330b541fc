"""The SQLite store keeps the contract, on real files."""

from __future__ import annotations

from noeta.testing.store_contract import StoreContract
from tests.contract.factories import SqliteFactory


class TestSqliteStore(StoreContract):
    factory = SqliteFactory
