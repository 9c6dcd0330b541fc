"""What pytest collects when a store is certified: the contract, over whatever the plugin hands it."""

from __future__ import annotations

import pytest

from noeta.testing.store_contract import StoreContract, StoreFactory


class TestCandidate(StoreContract):
    @pytest.fixture
    def store_factory(self, candidate: StoreFactory) -> StoreFactory:
        return candidate
