"""Whether a process holds an exclusive lock on a file: the kernel is asked who stands in the way of a shared one.

A file once opened here stays open to the end: closing it would drop the locks that this process itself has on it, and
its own handle of the store with them (POSIX). Elsewhere than on Linux no lock is seen.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FLOCK: Final = struct.Struct("@hhqqi4x")
"""``struct flock`` of 64-bit Linux: type, whence, start, length, holder."""


class FileLocks:
    """The files of one store. For one thread; ``close`` after every handle of the store."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], int] = {}

    def holds(self, pid: int, files: Iterable[Path]) -> bool:
        """Whether this process holds an exclusive lock on some byte of one of the files.

        Of several holders of one file the kernel names only the first: who waits for something looks again.
        """
        return sys.platform == "linux" and any(self._holder(file) == pid for file in files)

    def close(self) -> None:
        """Close what was opened."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _holder(self, file: Path) -> int | None:
        try:
            found = file.stat()
            key = found.st_dev, found.st_ino
            if key not in self._open:
                # Without waiting: among a user's files may be a pipe that nobody writes to.
                self._open[key] = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            asked = FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(self._open[key], fcntl.F_GETLK, asked)
        except OSError:
            return None  # it has not come yet, is gone, or is no file that can be locked
        kind, _, _, _, pid = FLOCK.unpack(answer)
        return None if kind == fcntl.F_UNLCK else pid
