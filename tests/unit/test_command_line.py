"""The command line as a shell meets it: pipes that close, and a store that needs no migration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noeta.backends.open import open_store
from noeta.cli import BAD_USAGE, CLOSED_PIPE, run
from noeta.core.store import NewTask


def test_a_reader_that_has_seen_enough_is_no_error_of_ours() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "noeta", "sim", "--seed", "7", "--trace"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)

    assert done.stderr == b""
    assert done.returncode == CLOSED_PIPE


def test_a_file_is_brought_up_to_date_by_whoever_opens_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"sqlite:{tmp_path / 'tasks.db'}"

    assert run(["migrate", "--store", file]) == 0

    assert capsys.readouterr().out.startswith("up to date: ")
    store = open_store(file)
    assert store.create(NewTask("t", "agent", "goal")).created
    store.close()


def test_a_path_that_is_none_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", "--store", "sqlite:"]) == BAD_USAGE

    assert "path" in capsys.readouterr().err
