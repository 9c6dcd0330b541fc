"""A user's own store, as `--store factory:tests.cluster.own_store:make` names it: here SQLite in a directory."""

from __future__ import annotations

from pathlib import Path

from noeta.backends.open import open_store
from noeta.core.store import Store


def make(place: str) -> Store:
    return open_store(f"sqlite:{Path(place) / 'mine.db'}")
