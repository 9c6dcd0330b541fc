"""Sorts what SQLite answered by what the caller may conclude.

By result code and by whether COMMIT had been asked for; never by message text. Before COMMIT nothing was
written. A COMMIT that failed because there was no room, or because it got no lock, wrote nothing either: its last
page, the one that counts, is not there. After any other failure of a COMMIT that page may be on the disk and count
after a restart. Keeps: acked-stays.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable


class OldLibrary(StoreUnavailable):
    """The SQLite library of this Python is older than the store needs."""

    code = "old_library"


class NotOurFile(StoreUnavailable):
    """The file is no database, or another program's; nothing was changed in it."""

    code = "not_our_file"


class UnsafeFile(StoreUnavailable):
    """The file cannot be kept in a mode in which what was acknowledged stays; names the setting."""

    code = "unsafe_file"


class FileMoved(StoreUnavailable):
    """The database, its ``-wal`` or its ``-shm`` was removed or replaced while the store was open: what is written now
    would be lost. Nothing was written."""

    code = "file_moved"


class ForkedStore(StoreUnavailable):
    """The store, or another one on this file, was opened before this process was forked off: its locks stayed with
    the parent."""

    code = "forked_store"


class Locked(StoreUnavailable):
    """Others kept the database locked for the whole time this call may wait."""

    code = "locked"


class ReadOnlyFile(StoreUnavailable):
    """The database, its folder or its file system may not be written."""

    code = "read_only_file"


class DiskFull(StoreUnavailable):
    """There is no room for the write; nothing was written."""

    code = "disk_full"


class CorruptFile(StoreUnavailable):
    """SQLite found the file damaged: restore a backup."""

    code = "corrupt_file"


_PRIMARY: Final = 0xFF
"""An extended result code carries its primary code in the lowest byte."""

_NAMED: Final[dict[int, type[StoreUnavailable]]] = {
    sqlite3.SQLITE_BUSY: Locked,
    sqlite3.SQLITE_LOCKED: Locked,
    sqlite3.SQLITE_READONLY: ReadOnlyFile,
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_CORRUPT: CorruptFile,
    sqlite3.SQLITE_NOTADB: NotOurFile,
}

_COMMIT_WROTE_NOTHING: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY})


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's result code; None for an error of the driver itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another try may succeed."""
    return primary_code(error) == sqlite3.SQLITE_BUSY


def sort_error(error: sqlite3.Error, path: str) -> NoetaError:
    """What a caller sees of a statement that failed before COMMIT."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHORT_READ:
        return FileMoved(f"{path}: its -wal was removed or cut while processes had it open, stop them: {_told(error)}")
    kind = _NAMED.get(primary_code(error) or -1, StoreUnavailable)
    return kind(f"{path}: nothing was written: {_told(error)}")


def sort_commit_error(error: sqlite3.Error, path: str) -> NoetaError:
    """What a caller sees of a COMMIT that failed."""
    if primary_code(error) in _COMMIT_WROTE_NOTHING:
        return sort_error(error, path)
    return CommitUnknown(f"{path}: the commit failed and may count after a restart: {_told(error)}")


def _told(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return f"{error} [{name}]"
