"""A shell beside a SQLite file that is not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.commands.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    store = f"sqlite:{tmp_path / 'tasks.db'}"
    monkeypatch.setenv("NOETA_STORE", store)  # so that hints are short
    return Shell(store, capsys)
