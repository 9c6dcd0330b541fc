"""Which files the SQLite store opens, makes and refuses, and how it keeps them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noeta.backends.open import open_store
from noeta.backends.stores import sqlite, sqlite_schema
from noeta.backends.stores.pg_errors import SchemaMismatch
from noeta.backends.stores.sqlite import SqliteStore
from noeta.backends.stores.sqlite_connection import Lane
from noeta.backends.stores.sqlite_errors import NotOurFile, OldLibrary
from noeta.core.errors import BadInput, InvalidLease, StoreUnavailable
from noeta.core.events import ToolFinished
from noeta.core.store import Commit, NewTask
from noeta.testing.clock import ManualClock
from noeta.testing.contract.stage import at_once
from tests.contract.sqlite_files import OtherProcess, claimed, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
def in_folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


# -- made and found again --------------------------------------------------------------------------------------


def test_a_file_is_made_by_its_first_opening_and_holds_what_was_written(path: Path) -> None:
    with opened(path) as store:
        store.create(NewTask("t", "agent", "goal"))

    with opened(path) as store:
        assert [row.id for row in store.tasks()] == ["t"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["tasks.db"]


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()

    with opened(path) as store:
        assert store.tasks() == ()


def test_many_openings_at_once_make_one_database(path: Path) -> None:
    answers = at_once(*(lambda: SqliteStore(str(path)) for _ in range(6)))

    stores = [answer for answer in answers if isinstance(answer, SqliteStore)]
    assert len(stores) == 6, answers
    assert [store.create(NewTask(f"t{n}", "agent", "goal")).created for n, store in enumerate(stores)] == [True] * 6
    for store in stores:
        store.close()


def test_many_processes_that_open_at_once_make_one_database(path: Path) -> None:
    processes = [OtherProcess("serve", str(path)) for _ in range(4)]
    try:
        assert [process.hear() for process in processes] == ["open"] * 4
        assert [process.ask(f"t{n}") for n, process in enumerate(processes)] == ["True"] * 4
        assert [process.ask("close") for process in processes] == ["closed"] * 4
    finally:
        for process in processes:
            process.__exit__()


def test_a_file_that_another_opening_makes_while_this_one_looks_at_it_is_not_taken_for_a_foreign_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_alone = Lane.run_alone
    asked_first: list[str] = []

    def overtaken(lane: Lane, name: str) -> list[Any]:
        rows = run_alone(lane, name)
        if not asked_first:
            asked_first.append(name)
            with opened(path):
                pass
        return rows

    monkeypatch.setattr(Lane, "run_alone", overtaken)
    with opened(path) as store:
        assert asked_first
        assert store.create(NewTask("t", "agent", "goal")).created


def test_a_relative_path_stays_what_it_was_and_a_link_leads_to_its_file(in_folder: Path, path: Path) -> None:
    store = SqliteStore("tasks.db")
    (in_folder / "elsewhere").mkdir()
    (in_folder / "link").symlink_to(path)
    os.chdir(in_folder / "elsewhere")

    store.create(NewTask("t", "agent", "goal"))
    with opened(in_folder / "link") as linked:
        assert [row.id for row in linked.tasks()] == ["t"]
        linked.create(NewTask("u", "agent", "goal"))
    store.close()
    with opened(path) as again:
        assert [row.id for row in again.tasks()] == ["t", "u"]


@pytest.mark.parametrize("form", ["sqlite:{}", "sqlite://{}", "SQLite:{}"])
def test_a_store_is_opened_by_its_address(path: Path, form: str) -> None:
    with closing(open_store(form.format(path))) as store:
        store.create(NewTask("t", "agent", "goal"))

    assert path.exists()


@pytest.mark.parametrize("address", ["sqlite://host/tasks.db", "mysql://ada:secret@host", "tasks.db"])
def test_another_address_is_refused_with_all_forms_and_never_repeated(address: str) -> None:
    with pytest.raises(BadInput, match=r"postgresql://….*host=… dbname=….*sqlite:PATH") as refused:
        open_store(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["", ":memory:", "file:x.db?mode=ro", "a\0b", "a\ud800", 5, None], ids=ascii)
def test_what_is_no_path_of_a_file_is_refused(path: str) -> None:
    with pytest.raises(BadInput) as refused:
        SqliteStore(path)
    assert refused.value.field == "path"


@pytest.mark.parametrize("wait_seconds", [0.0, -1.0, float("nan"), 1e9])
def test_a_wait_without_a_bound_is_refused(path: Path, wait_seconds: float) -> None:
    with pytest.raises(BadInput) as refused:
        SqliteStore(str(path), wait_seconds=wait_seconds)
    assert (refused.value.field, path.exists()) == ("wait_seconds", False)


# -- refused ---------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_refused_unchanged(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1_000)

    with pytest.raises(NotOurFile):
        SqliteStore(str(path))
    assert path.read_bytes() == b"Dear diary, " * 1_000
    assert sorted(file.name for file in path.parent.iterdir()) == ["tasks.db"]


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE task (id)", "PRAGMA user_version = 1", "PRAGMA application_id = 1"]
)
def test_another_programs_database_is_refused_unchanged(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(statement)
        other.commit()
    before = path.read_bytes()

    with pytest.raises(NotOurFile):
        SqliteStore(str(path))
    assert path.read_bytes() == before


def test_a_newer_version_is_refused_unchanged(path: Path) -> None:
    with opened(path):
        pass
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {sqlite_schema.needed_version() + 1}")
    before = path.read_bytes()

    with pytest.raises(SchemaMismatch, match="update noeta"):
        SqliteStore(str(path))
    assert path.read_bytes() == before


def test_a_folder_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotOurFile):
        SqliteStore(str(tmp_path))
    with pytest.raises(StoreUnavailable, match="SQLITE_CANTOPEN"):
        SqliteStore(str(tmp_path / "missing" / "tasks.db"))


def test_an_old_library_is_refused_by_name() -> None:
    with pytest.raises(OldLibrary, match=r"3\.38\.0 or newer, this Python has 3\.37\.2"):
        sqlite_schema.check_library((3, 37, 2))
    sqlite_schema.check_library((3, 38, 0))


def test_a_failed_opening_leaves_nothing_open(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1_000)
    before = open_files()

    for _ in range(5):
        with pytest.raises(NotOurFile):
            SqliteStore(str(path))

    assert open_files() <= before


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


# -- kept ------------------------------------------------------------------------------------------------------


def test_every_connection_waits_for_the_disk_and_leaves_checkpoints_to_the_store(path: Path) -> None:
    """Keeps: acked-stays."""
    with opened(path) as store:
        for lane in store._lanes:
            ask = lane._connection.execute
            found = [ask(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "fullfsync")]
            assert found == ["wal", 2, 1]
            assert ask("PRAGMA wal_autocheckpoint").fetchone()[0] == 0


def test_the_write_lock_is_polled_and_not_waited_for_in_growing_steps(path: Path) -> None:
    """SQLite's own waits grow to 0.1 s: beside a busy neighbour a renewal would come too late."""
    with opened(path) as store:
        waits = [lane._connection.execute("PRAGMA busy_timeout").fetchone()[0] for lane in store._lanes]

    assert waits == [0, 0, 5_000, 5_000]


def test_the_wal_is_copied_into_the_database_in_time_and_begun_anew(path: Path) -> None:
    """It is as long after many commits as after a few hundred."""
    wal = Path(f"{path}-wal")
    sizes: list[int] = []
    with opened(path) as store:
        for n in range(6 * sqlite.CHECKPOINT_COMMITS):
            store.create(NewTask(f"t{n}", "agent", "goal"))
            sizes.append(wal.stat().st_size)

    after_few, after_many = sizes[2 * sqlite.CHECKPOINT_COMMITS], sizes[-1]
    assert after_many < 1.5 * after_few, (after_few, after_many)


def test_big_commits_are_copied_in_time_too(path: Path) -> None:
    wal = Path(f"{path}-wal")
    with opened(path) as store:
        claim = claimed(store, "t")
        for seq in range(1, 16):
            store.append(claim, seq, Commit((ToolFinished("2-0", "x" * 4_000_000),)))

            assert wal.stat().st_size < 3 * sqlite.CHECKPOINT_BYTES


def test_a_checkpoint_is_made_while_nobody_else_can_commit(path: Path) -> None:
    """Libraries before 3.51.3 may lose a commit otherwise. Keeps: acked-stays."""
    seen: list[bool] = []
    with opened(path) as store, closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as probe:
        run_alone = store._checkpoints.run_alone

        def watched(name: str) -> list[object]:
            if name == "checkpoint":
                seen.append(is_locked(probe))
            return run_alone(name)

        store._checkpoints.run_alone = watched  # type: ignore[method-assign]
        for n in range(2 * sqlite.CHECKPOINT_COMMITS):
            store.create(NewTask(f"t{n}", "agent", "goal"))

    assert seen
    assert all(seen)


@pytest.mark.holds("writer/sqlite-immediate")
def test_the_clock_is_read_under_the_lock(path: Path) -> None:
    """Every verb that reads it; otherwise a writer that waited would judge a lease by an instant before its wait.

    Keeps: one-writer.
    """
    manual = ManualClock()
    seen: list[bool] = []
    probe = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)

    def clock() -> float:
        seen.append(is_locked(probe))
        return manual.now()

    with closing(SqliteStore(str(path), clock=clock)) as store:
        claim = claimed(store, "t")
        store.renew(claim, 60.0)
        store.append(claim, 1, Commit((ToolFinished("2-0", "x"),)))
        store.release(claim)
        store.fire_due_timers()
        store.requeue_stale()
    probe.close()

    assert len(seen) == 7
    assert all(seen)


def is_locked(probe: sqlite3.Connection) -> bool:
    """Whether somebody holds the write lock right now."""
    try:
        probe.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    probe.execute("ROLLBACK")
    return False


def test_processes_share_the_machines_clock(path: Path) -> None:
    """The default: a lease that one store gave is over for another one when the wall clock says so."""
    with opened(path) as one, opened(path) as two:
        claim = claimed(one, "t", lease_seconds=0.001)
        while not two.claim("w2", None, 60.0).claims:
            pass

        with pytest.raises(InvalidLease):
            one.append(claim, 1, Commit())
