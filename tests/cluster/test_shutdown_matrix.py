"""A few cells of the shutdown matrix, and its rules. All of it: `python -m tests.shutdown_matrix`."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from noeta.testing.postgres import PostgresSource, Server
from tests.shutdown_matrix.matrix import tables, try_all
from tests.shutdown_matrix.places import PostgresPlace, SqlitePlace
from tests.shutdown_matrix.rows import LEASE_SECONDS, QUICK, ROWS, STRIKES, Cell, broken

TERM, INT, TWICE, KILL = STRIKES


@pytest.mark.cluster
@pytest.mark.slow
def test_a_few_cells_over_sqlite(tmp_path: Path) -> None:
    outcomes = try_all([SqlitePlace()], tmp_path, quick=True)

    assert [outcome for outcome in outcomes if outcome.broken] == [], tables(outcomes)
    assert len(outcomes) == len(QUICK)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_few_cells_over_postgres(tmp_path: Path, postgres_source: PostgresSource) -> None:
    with Server(postgres_source) as server:
        outcomes = try_all([PostgresPlace(server)], tmp_path, quick=True)

    assert [outcome for outcome in outcomes if outcome.broken] == [], tables(outcomes)
    assert len(outcomes) == len(QUICK)


GOOD = Cell(seconds=0.2, exit_code=0, after="at once", late=0)
HEEDS = next(row for row in ROWS if row.name == "tool heeds" and row.store == "works")


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (replace(GOOD, seconds=30.0), "30.0 s"),
        (replace(GOOD, exit_code=1), "exit 1"),
        (replace(GOOD, after="after its lease"), "after its lease"),
        (replace(GOOD, after="not in time"), "not in time"),
        (replace(GOOD, late=1), "1 lines"),
        (replace(GOOD, log="Traceback (most recent call last):"), "traceback"),
    ],
)
def test_each_rule_is_seen_to_be_broken(bad: Cell, word: str) -> None:
    assert broken(HEEDS, TERM, GOOD) == []
    found = broken(HEEDS, TERM, bad)

    assert len(found) == 1
    assert word in found[0]


def test_what_is_at_once_is_not_what_waits_for_a_lease() -> None:
    deaf = next(row for row in ROWS if row.name == "tool is deaf")
    after_grace = Cell(3.1, 1, "after its lease", 0)

    assert broken(deaf, TERM, after_grace) == broken(deaf, INT, after_grace) == []
    assert broken(deaf, TWICE, after_grace) != []
    assert broken(deaf, KILL, replace(after_grace, exit_code=-signal.SIGKILL, seconds=0.1)) == []
    assert deaf.told.seconds_max < 3 * LEASE_SECONDS
