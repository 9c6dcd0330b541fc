"""The memory store keeps the contract."""

from __future__ import annotations

from noeta.testing.store_contract import StoreContract
from tests.contract.factories import MemoryFactory


class TestMemoryStore(StoreContract):
    factory = MemoryFactory
