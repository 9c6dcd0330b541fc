"""Simulations run the real runtime by the thousand: what it logs is judged by its evidence, and read by nobody."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def silent_runtime() -> Iterator[None]:
    logger = logging.getLogger("noeta")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)
