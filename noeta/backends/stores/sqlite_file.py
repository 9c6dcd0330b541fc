"""Which file a store is on: noticed when it is removed, replaced, or carried over a fork.

SQLite goes on writing to a file that has lost its name, and shares locks by inode within a process. So the
store remembers the inodes of the database, its ``-wal`` and its ``-shm``, and compares them with what the names
stand for before and after each write. The files are never opened here: closing them would drop this process's locks
(POSIX). Keeps: acked-stays.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from noeta.backends.stores.sqlite_errors import FileMoved, ForkedStore, NotOurFile
from noeta.core.errors import StoreUnavailable

SUFFIXES: Final = ("", "-wal", "-shm")
"""The three files of a database in WAL mode."""

Inode = tuple[int, int]


@dataclass(slots=True)
class OpenFiles:
    """The databases this process has open, and which process opened them: a fork inherits the list."""

    _by_inode: dict[Inode, tuple[int, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, inode: Inode, path: str) -> None:
        """Before a connection is made.

        Raises:
            ForkedStore: the process this one was forked from had it open, so that SQLite takes its locks for ours.
        """
        with self._lock:
            pid, _ = self._by_inode.get(inode, (os.getpid(), 0))
        if pid != os.getpid():
            raise ForkedStore(f"{path} was open in process {pid} when this one was forked off: start it anew")

    def add(self, inode: Inode) -> None:
        """Note one more store on this file."""
        with self._lock:
            pid, count = self._by_inode.get(inode, (os.getpid(), 0))
            self._by_inode[inode] = (pid, count + 1)

    def remove(self, inode: Inode) -> None:
        with self._lock:
            pid, count = self._by_inode[inode]
            if count == 1:
                del self._by_inode[inode]
            else:
                self._by_inode[inode] = (pid, count - 1)


OPEN_FILES: Final = OpenFiles()
"""Per process, because SQLite's own table of locks is."""


class DatabaseFile:
    """The file behind one store, from its opening on."""

    def __init__(self, path: str) -> None:
        # SQLite puts -wal and -shm beside the file a link leads to; and a process may change its folder.
        self.path = os.path.realpath(path)
        self._pid = os.getpid()
        self._files = tuple(Path(self.path + suffix) for suffix in SUFFIXES)
        self._inodes: tuple[Inode, ...] = ()
        inode = _inode(self._files[0])
        if inode is not None:
            if not self._files[0].is_file():
                raise NotOurFile(f"{self.path}: expected a file, found something else")
            OPEN_FILES.check(inode, self.path)

    def remember(self) -> None:
        """Take the present files for ours; a connection of the store holds them open by now.

        Raises:
            FileMoved
        """
        found = [_inode(file) for file in self._files]
        inodes = tuple(inode for inode in found if inode is not None)
        if len(inodes) < len(found):
            raise FileMoved(f"{self._files[found.index(None)]} was removed while the store was being opened")
        OPEN_FILES.add(inodes[0])
        self._inodes = inodes

    def forget(self) -> None:
        """The store is closed. Twice is once."""
        if self._inodes:
            OPEN_FILES.remove(self._inodes[0])
        self._inodes = ()

    def check_process(self) -> None:
        """Raises: ForkedStore."""
        if os.getpid() != self._pid:
            raise ForkedStore(f"{self.path} was opened by process {self._pid}: open a store of this process's own")

    def check(self) -> None:
        """Raises: FileMoved: nothing written from now on would stay."""
        for file, inode in zip(self._files, self._inodes, strict=True):
            found = _inode(file)
            if found != inode:
                became = "removed" if found is None else "replaced"
                raise FileMoved(f"{file} was {became} while the store was open: close it and open it again")

    def wal_bytes(self) -> int:
        """How long the ``-wal`` is; 0: it is not there, which ``check`` tells."""
        found = _look(self._files[1])
        return 0 if found is None else found.st_size


def _inode(file: Path) -> Inode | None:
    found = _look(file)
    return None if found is None else (found.st_dev, found.st_ino)


def _look(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be looked at: {error}") from error
