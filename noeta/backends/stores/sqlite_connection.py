"""One connection of the SQLite store: who may use it, how long it waits, and when a write is acknowledged.

A write takes the lock of the database first (``BEGIN IMMEDIATE``), looks whether the file is still ours, lets the
verb read, decide and write, says COMMIT once, and looks at the file again. A store has a connection for work, one
for renewals and one for reads, so that neither a long read nor a queue of commits stands before a renewal.

A fourth one makes checkpoints, while the work holds the write lock, and never SQLite itself after a COMMIT: in
libraries before 3.51.3 a checkpoint that runs while another connection commits can lose a commit (the "WAL-reset
bug").
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from noeta.backends.stores.sqlite_errors import Locked, UnsafeFile, is_locked, sort_commit_error, sort_error
from noeta.backends.stores.sqlite_file import DatabaseFile
from noeta.core.errors import CommitUnknown, StoreUnavailable

Values = Sequence[Any] | Mapping[str, Any]

LOCK_POLL_SECONDS: Final = 0.004
"""At most this long between two looks at a lock that another process holds. SQLite's own waits grow to 0.1 s, so that a
renewal could starve beside a busy neighbour."""

SYNCHRONOUS_FULL: Final = 2


class Lane:
    """A connection with a lock of its own; any thread may use it, one at a time."""

    def __init__(self, file: DatabaseFile, statements: Mapping[str, str], *, wait_seconds: float) -> None:
        self._file = file
        self._statements = statements
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._open = True
        try:
            self._connection = sqlite3.connect(
                file.path, timeout=wait_seconds, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise sort_error(error, file.path) from error

    def set_up(self) -> None:
        """Put the connection into the modes in which what is acknowledged stays.

        Raises:
            UnsafeFile: the file cannot be kept so.
        """
        with self._exclusively() as deadline:
            mode = self._patiently("use_wal", deadline)[0][0]
            if mode != "wal":
                raise UnsafeFile(f"{self._file.path}: expected journal_mode wal, found {mode}")
            for name in ("sync_full", "sync_whole", "no_auto_checkpoint", "sort_in_memory"):
                self.run(name)
            if self.run("sync_is")[0][0] != SYNCHRONOUS_FULL:
                raise UnsafeFile(f"{self._file.path}: the library does not keep synchronous at FULL")

    def poll_locks(self) -> None:
        """From now on wait for the write lock in short steps: this connection asks for no other."""
        self.run_alone("poll_locks")

    @contextmanager
    def writing(self, *, is_checked: bool = True) -> Iterator[None]:
        """One write transaction around the block. A block that raises leaves nothing behind.

        ``is_checked`` False: while the store is being opened, when no file has been taken for ours yet.

        Raises:
            StoreUnavailable: nothing was written.
            CommitUnknown: it may have landed.
        """
        with self._exclusively() as deadline:
            self._roll_back()  # what an earlier rollback could not end
            self._patiently("begin_write", deadline)
            try:
                if is_checked:
                    self._file.check()
                yield
            except BaseException:
                self._roll_back()
                raise
            self._commit()
            if is_checked:
                self._check_committed()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One snapshot for the statements of the block.

        Raises:
            StoreUnavailable: also if the file is no longer ours: its contents may be old.
        """
        with self._exclusively() as deadline:
            self._file.check()
            self._patiently("begin_read", deadline)
            try:
                yield
            finally:
                self._roll_back()

    def run(self, name: str, values: Values = ()) -> list[Any]:
        """A statement by name, inside one of the blocks above; its rows.

        Raises:
            StoreUnavailable
        """
        try:
            return self._connection.execute(self._statements[name], _named(values)).fetchall()
        except sqlite3.Error as error:
            raise sort_error(error, self._file.path) from error

    def run_text(self, statement: str) -> None:
        """A statement of a migration."""
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            raise sort_error(error, self._file.path) from error

    def run_alone(self, name: str) -> list[Any]:
        """A statement by name, outside any transaction."""
        with self._exclusively() as deadline:
            return self._patiently(name, deadline)

    def close(self) -> None:
        """Wait for the call under way, then give the connection back. Twice is once."""
        with self._lock:
            self._open = False
            self._connection.close()

    # -- one at a time -------------------------------------------------------------------------------------

    @contextmanager
    def _exclusively(self) -> Iterator[float]:
        """Yields until when (``time.monotonic``) the call may wait, for this process and for others."""
        deadline = time.monotonic() + self._wait_seconds
        self._file.check_process()  # before the lock: a thread of the parent may have held it
        if not self._lock.acquire(timeout=self._wait_seconds):
            raise Locked(f"{self._file.path}: this process's other calls took longer than {self._wait_seconds:g} s")
        try:
            if not self._open:
                raise StoreUnavailable("the store is closed")
            yield deadline
        finally:
            self._lock.release()

    def _patiently(self, name: str, deadline: float) -> list[Any]:
        """Run a statement that takes a lock, again while others hold it, until the deadline.

        Raises:
            Locked
        """
        while True:
            try:
                return self._connection.execute(self._statements[name]).fetchall()
            except sqlite3.Error as error:
                if not is_locked(error) or time.monotonic() >= deadline:
                    raise sort_error(error, self._file.path) from error
            time.sleep(random.uniform(0, LOCK_POLL_SECONDS))

    # -- the end of a transaction --------------------------------------------------------------------------

    def _commit(self) -> None:
        """Keeps: acked-stays. Said once: a second COMMIT would answer for a transaction that is gone."""
        try:
            self._connection.execute(self._statements["commit"])
        except sqlite3.Error as error:
            # What a rollback that fails says ("nothing was written") must not stand for the commit; the next write
            # rolls back again.
            with suppress(StoreUnavailable):
                self._roll_back()
            raise sort_commit_error(error, self._file.path) from error
        except BaseException:
            self._roll_back()
            raise

    def _check_committed(self) -> None:
        try:
            self._file.check()
        except StoreUnavailable as error:
            raise CommitUnknown(f"the commit went to a file that was no longer ours: {error}") from error

    def _roll_back(self) -> None:
        if not self._connection.in_transaction:
            return  # SQLite has rolled it back itself, as after a full disk
        try:
            self._connection.execute(self._statements["rollback"])
        except sqlite3.Error as error:
            raise sort_error(error, self._file.path) from error


def _named(values: Values) -> Mapping[str, Any]:
    """Numbered placeholders (``?1``) have names for Python 3.12, which warns of a sequence for them."""
    if isinstance(values, Mapping):
        return values
    return {str(number): value for number, value in enumerate(values, start=1)}
