"""What the SQLite store answers when the file or the disk fails it: real files, a real disk, real processes.

Each answer says what the caller may conclude, and what was acknowledged before is there afterwards.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noeta.backends.stores import sqlite_connection, sqlite_schema
from noeta.backends.stores.sqlite import SqliteStore
from noeta.backends.stores.sqlite_connection import Lane
from noeta.backends.stores.sqlite_errors import (
    CorruptFile,
    DiskFull,
    FileMoved,
    Locked,
    ReadOnlyFile,
    sort_commit_error,
)
from noeta.backends.stores.sqlite_file import DatabaseFile
from noeta.core.errors import CommitUnknown, StoreUnavailable
from noeta.core.events import ToolFinished
from noeta.core.store import Claim, Commit, NewTask, Store
from noeta.core.wake import ExternalEvent
from noeta.testing.clock import ManualClock
from tests.contract.sqlite_files import (
    OtherProcess,
    as_somebody_without_rights,
    claimed,
    open_folder,
    opened,
    small_disk,
)

BIG = "x" * 3_000_000

WRITES: dict[str, Callable[[Store, Claim], object]] = {
    "create": lambda store, claim: store.create(NewTask("new", "agent", "goal")),
    "claim": lambda store, claim: store.claim("w2", None, 60.0),
    "renew": lambda store, claim: store.renew(claim, 60.0),
    "release": lambda store, claim: store.release(claim),
    "resume": lambda store, claim: store.resume(claim),
    "append": lambda store, claim: store.append(claim, 1, Commit((ToolFinished("2-0", "x"),))),
    "post": lambda store, claim: store.post("t", ExternalEvent("e")),
    "fire_due_timers": lambda store, claim: store.fire_due_timers(),
    "requeue_stale": lambda store, claim: store.requeue_stale(),
    "fail": lambda store, claim: store.fail(claim, "why"),
    "put_content": lambda store, claim: store.put_content(b"x"),
}
READS: dict[str, Callable[[Store, Claim], object]] = {
    "read": lambda store, claim: store.read("t"),
    "task": lambda store, claim: store.task("t"),
    "tasks": lambda store, claim: store.tasks(),
}


def names(store: Store) -> list[str]:
    return [row.id for row in store.tasks()]


# -- no room, no right, no luck --------------------------------------------------------------------------------


def test_a_write_without_room_writes_nothing_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """By SQLite's own page limit, which answers with the code of a full disk, wherever the tests run.

    Keeps: acked-stays.
    """
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        claim = claimed(store, "t")
        store._work.run_text("PRAGMA max_page_count = 1")  # none but those that are there
        with pytest.raises(DiskFull):
            store.append(claim, 1, Commit((ToolFinished("2-0", BIG),)))

        assert store.task("t").last_seq == 1
        assert store.append(claim, 1, Commit((ToolFinished("2-0", "x"),))).last_seq == 2
    with opened(path) as store:
        assert [entry.seq for entry in store.read("t").entries] == [1, 2]


def test_a_full_disk_writes_nothing_and_keeps_what_was_acknowledged() -> None:
    """A real disk of 1 MB, filled to its last byte; then there is room again. Keeps: acked-stays."""
    with small_disk() as disk:
        if disk is None:
            pytest.skip("this process may mount no file system; the page limit above answers with the same code")
        path = disk / "tasks.db"
        with opened(path) as store:
            claim = claimed(store, "t")
            fill(disk)
            with pytest.raises(DiskFull):
                append_for_ever(store, claim)

            seq = store.task("t").last_seq
            assert len(store.read("t").entries) == seq
            (disk / "filler").unlink()
            assert store.append(claim, seq, Commit((ToolFinished("2-0", "x"),))).last_seq == seq + 1
        with opened(path) as store:
            assert len(store.read("t").entries) == seq + 1


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4_096)


def append_for_ever(store: Store, claim: Claim) -> None:
    seq = 1
    while True:
        seq = store.append(claim, seq, Commit((ToolFinished("2-0", "x" * 5_000),))).last_seq


def test_a_commit_that_the_disk_broke_off_is_unknown(tmp_path: Path) -> None:
    """A real error of a real write: the file may not grow. SQLite cannot say how much of it counts after a restart."""
    with opened(tmp_path / "tasks.db") as store:
        claim = claimed(store, "t")
        with no_file_grows_beyond(300_000), pytest.raises(CommitUnknown, match="SQLITE_IOERR"):
            store.append(claim, 1, Commit((ToolFinished("2-0", "x" * 1_000_000),)))

        found = store.read("t")  # the caller reads the log, as after any unknown commit
        assert found.row.last_seq == len(found.entries) == 1
        assert store.append(claim, 1, Commit((ToolFinished("2-0", "x"),))).last_seq == 2


class BrokenDisk:
    """A connection whose next COMMIT fails in the disk, and with it the ROLLBACK behind it."""

    def __init__(self, inner: sqlite3.Connection) -> None:
        self._inner, self._failing = inner, ["COMMIT", "ROLLBACK"]

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if self._failing and self._failing[0] in statement:
            self._failing.pop(0)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC"
            raise error
        return self._inner.execute(statement, *values)

    def close(self) -> None:
        self._inner.close()


def test_a_commit_stays_unknown_where_the_rollback_behind_it_fails_too(tmp_path: Path) -> None:
    """The rollback's own failure would read as "nothing was written". Keeps: acked-stays."""
    with opened(tmp_path / "tasks.db") as store:
        claim = claimed(store, "t")
        store._work._connection = BrokenDisk(store._work._connection)  # type: ignore[assignment]
        with pytest.raises(CommitUnknown, match="SQLITE_IOERR_FSYNC"):
            WRITES["append"](store, claim)

        assert store.append(claim, 1, Commit((ToolFinished("2-0", "x"),))).last_seq == 2


def test_a_sweep_whose_commit_failed_is_made_again_by_the_next_claim(tmp_path: Path) -> None:
    """Though that claim finds all it asks for. Keeps: never-stuck."""
    clock = ManualClock()
    with opened(tmp_path / "tasks.db", clock=clock) as store:
        claimed(store, "dead", lease_seconds=30.0)
        clock.advance(30.0)
        for n in range(2):
            store.create(NewTask(f"due{n}", "agent", "goal"))
        store._work._connection = BrokenDisk(store._work._connection)  # type: ignore[assignment]
        with pytest.raises(CommitUnknown):
            store.claim("w", None, 30.0)

        assert store.claim("w", None, 30.0).stale_requeued == ("dead",)


@contextlib.contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("SQLITE_BUSY", Locked),
        ("SQLITE_FULL", DiskFull),
        ("SQLITE_READONLY", ReadOnlyFile),
        ("SQLITE_IOERR_FSYNC", CommitUnknown),
        ("SQLITE_IOERR_WRITE", CommitUnknown),
        ("SQLITE_NOMEM", CommitUnknown),
        ("SQLITE_CORRUPT", CommitUnknown),
    ],
)
def test_a_failed_commit_is_sorted_by_whether_its_last_page_can_be_there(name: str, answer: type[Exception]) -> None:
    error = sqlite3.OperationalError("as SQLite says")
    error.sqlite_errorcode = getattr(sqlite3, name)
    error.sqlite_errorname = name

    assert type(sort_commit_error(error, "x.db")) is answer
    assert type(sort_commit_error(sqlite3.ProgrammingError("of the driver"), "x.db")) is CommitUnknown


def test_a_file_without_the_right_to_write_is_refused_by_name() -> None:
    with open_folder() as folder:
        path = folder / "tasks.db"
        with opened(path) as store:
            store.create(NewTask("t", "agent", "goal"))
        path.chmod(0o444)
        folder.chmod(0o555)
        try:
            with as_somebody_without_rights(), pytest.raises(StoreUnavailable) as refused:
                SqliteStore(str(path))
        finally:
            folder.chmod(0o777)
            path.chmod(0o644)
        assert isinstance(refused.value, ReadOnlyFile), refused.value
        with opened(path) as store:
            assert names(store) == ["t"]


def test_a_read_only_folder_makes_no_new_database() -> None:
    with open_folder() as folder:
        folder.chmod(0o555)
        with as_somebody_without_rights(), pytest.raises(StoreUnavailable, match="SQLITE_CANTOPEN"):
            SqliteStore(str(folder / "tasks.db"))
        folder.chmod(0o777)
        assert list(folder.iterdir()) == []


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        for n in range(50):
            store.create(NewTask(f"t{n}", "agent", "goal" * 500))
    whole = path.read_bytes()
    damaged = whole[:4_096] + b"\xa5" * (len(whole) - 4_096)  # the first page says that it is a database, and ours
    path.write_bytes(damaged)

    with pytest.raises(CorruptFile):
        SqliteStore(str(path))
    assert path.read_bytes() == damaged


# -- a lock that others hold -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", sorted(WRITES))
def test_a_lock_held_too_long_is_unavailable_and_writes_nothing(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "tasks.db"
    with opened(path, wait_seconds=0.3) as store:
        claim = claimed(store, "t")
        before = store.read("t")
        with OtherProcess("hold", str(path)) as holder:
            assert holder.hear() == "held"
            started = time.monotonic()
            with pytest.raises(Locked):
                WRITES[verb](store, claim)
            waited = time.monotonic() - started

            assert 0.25 < waited < 5.0
            assert store.read("t") == before  # readers do not wait for a writer
            assert holder.ask("") == "let go"
        assert names(store) == ["t"]
        WRITES[verb](store, claim)


def test_a_wait_for_this_process_and_one_for_others_share_one_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tasks.db"
    with opened(path, wait_seconds=10.0) as store, OtherProcess("hold", str(path)) as holder:
        assert holder.hear() == "held"
        slow = SlowThreads(seconds=8.0)
        monkeypatch.setattr(sqlite_connection, "time", slow)
        monkeypatch.setattr(store._work, "_lock", slow)

        with pytest.raises(Locked):
            store.create(NewTask("t", "agent", "goal"))
        assert 10.0 <= slow.now < 10.1
        monkeypatch.undo()


class SlowThreads:
    """The lock of a connection that another thread gives back late, and the clock by which it is late."""

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds = 0.0, seconds

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def acquire(self, timeout: float) -> bool:
        self.now += self._seconds
        return self._seconds <= timeout

    def release(self) -> None:
        pass


def test_a_writer_waits_for_a_lock_that_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with opened(path, wait_seconds=30.0) as store, OtherProcess("hold", str(path)) as holder:
        assert holder.hear() == "held"
        holder.tell()

        assert store.create(NewTask("t", "agent", "goal")).created


def test_a_renewal_does_not_wait_for_the_work_of_its_process(tmp_path: Path) -> None:
    """Leases are kept while every thread of the work waits for its connection, and while a read is long."""
    with opened(tmp_path / "tasks.db", wait_seconds=0.2) as store:
        claim = claimed(store, "t")
        with store._work._exclusively(), store._reads._exclusively(), store._checkpoints._exclusively():
            with pytest.raises(Locked):
                store.release(claim)

            assert store.renew(claim, 60.0)[0].outcome == "held"


# -- a file that is no longer there ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"], ids=["database", "wal", "shm"])
@pytest.mark.parametrize("verb", sorted(WRITES | READS))
def test_a_removed_file_is_noticed_before_anything_is_answered(tmp_path: Path, suffix: str, verb: str) -> None:
    """SQLite itself goes on: writes to a file without a name are acknowledged and lost. Keeps: acked-stays."""
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        claim = claimed(store, "t")
        Path(f"{path}{suffix}").unlink()

        with pytest.raises(FileMoved, match="removed"):
            (WRITES | READS)[verb](store, claim)
        with pytest.raises(FileMoved):
            store.create(NewTask("again", "agent", "goal"))


def test_a_file_replaced_between_two_connections_of_one_opening_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first ones acknowledge would be lost. Keeps: acked-stays."""
    path = tmp_path / "tasks.db"
    with opened(path):
        pass
    shutil.copy(path, tmp_path / "copy")
    prepare, prepared = sqlite_schema.prepare, []

    def replacing(lane: Lane, file: DatabaseFile) -> None:
        prepare(lane, file)
        prepared.append(lane)
        if len(prepared) == 2:
            (tmp_path / "copy").rename(path)

    monkeypatch.setattr(sqlite_schema, "prepare", replacing)
    with pytest.raises(FileMoved, match="replaced"):
        SqliteStore(str(path))


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"], ids=["database", "wal", "shm"])
def test_a_replaced_file_is_noticed_too(tmp_path: Path, suffix: str) -> None:
    """As a restore of a backup over an open database does. Keeps: acked-stays."""
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        claim = claimed(store, "t")
        named = Path(f"{path}{suffix}")
        shutil.copy(named, tmp_path / "copy")
        (tmp_path / "copy").rename(named)

        with pytest.raises(FileMoved, match="replaced"):
            WRITES["append"](store, claim)


def test_a_file_moved_and_put_back_is_ours_again(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        claim = claimed(store, "t")
        path.rename(tmp_path / "aside")
        with pytest.raises(FileMoved):
            WRITES["append"](store, claim)
        (tmp_path / "aside").rename(path)

        assert store.append(claim, 1, Commit((ToolFinished("2-0", "x"),))).last_seq == 2


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"], ids=["database", "wal", "shm"])
def test_a_file_removed_within_a_transaction_leaves_its_commit_unknown(tmp_path: Path, suffix: str) -> None:
    """The clock is read under the lock, after the file was looked at. Keeps: acked-stays."""
    path = tmp_path / "tasks.db"
    strike = [False]

    def clock() -> float:
        if strike[0]:
            Path(f"{path}{suffix}").unlink()
        return 1_700_000_000.0

    store = SqliteStore(str(path), clock=clock)
    try:
        store.create(NewTask("t", "agent", "goal"))
        strike[0] = True
        with pytest.raises(CommitUnknown, match="removed"):
            store.create(NewTask("lost", "agent", "goal"))
    finally:
        store.close()


def test_a_wal_removed_under_two_processes_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    """Both refuse, so does a third that comes now; when all have closed, everything acknowledged is there.

    Keeps: acked-stays.
    """
    path = tmp_path / "tasks.db"
    with OtherProcess("serve", str(path)) as other:
        assert other.hear() == "open"
        with opened(path) as store:
            store.create(NewTask("ours", "agent", "goal"))
            assert other.ask("theirs") == "True"
            Path(f"{path}-wal").unlink()

            with pytest.raises(FileMoved):
                store.create(NewTask("lost", "agent", "goal"))
            assert other.ask("lost too") == "file_moved"
            with OtherProcess("serve", str(path)) as third:
                assert third.hear() == "file_moved"
        assert other.ask("close") == "closed"
    with opened(path) as store:
        assert names(store) == ["ours", "theirs"]


# -- a fork ----------------------------------------------------------------------------------------------------


def test_a_forked_process_is_refused_by_name_and_the_parent_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        store.create(NewTask("t", "agent", "goal"))

        used = in_a_fork(lambda: store.create(NewTask("child", "agent", "goal")))
        made = in_a_fork(lambda: SqliteStore(str(path)))

        assert (used, made) == ("forked_store", "forked_store")
        store.create(NewTask("u", "agent", "goal"))
        assert names(store) == ["t", "u"]


def test_a_store_opened_after_the_fork_is_a_store(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        store.create(NewTask("t", "agent", "goal"))

    def child() -> object:
        with opened(path) as own:
            return own.create(NewTask("child", "agent", "goal"))

    assert in_a_fork(child) == "no error"
    with opened(path) as store:
        assert names(store) == ["child", "t"]


def in_a_fork(work: Callable[[], Any]) -> str:
    """The code of the error that ``work`` raises in a child made by fork."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Of other threads, from Python 3.12 on: this child uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            work()
            os.write(write, b"no error")
        except StoreUnavailable as error:
            os.write(write, error.code.encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()
