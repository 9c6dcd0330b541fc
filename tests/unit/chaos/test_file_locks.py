"""A process that holds the lock of a file is seen, also while it is stopped; who only reads or waits is not."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from noeta.chaos.sites.file_locks import FileLocks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's answer is read as Linux gives it")

HOLDER = (
    "import sqlite3, sys; base = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)\n"
    "for statement in sys.argv[2:]: base.execute(statement).fetchall()\n"
    "print('holds', flush=True); sys.stdin.read()"
)


@contextmanager
def holder(file: Path, *statements: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file), *statements], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"holds\n"
        yield child
        child.kill()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A database in WAL mode that this process, too, has open."""
    path = tmp_path / "t.db"
    mine = sqlite3.connect(path, isolation_level=None)
    mine.execute("PRAGMA journal_mode=WAL")
    mine.execute("CREATE TABLE t (a)")
    yield path
    mine.close()


def files_of(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))]


def test_a_stopped_writer_is_seen_and_a_reader_is_not(file: Path) -> None:
    locks = FileLocks()
    with holder(file, "BEGIN IMMEDIATE") as writer, holder(file, "BEGIN", "SELECT * FROM t") as reader:
        os.kill(writer.pid, signal.SIGSTOP)
        os.waitpid(writer.pid, os.WUNTRACED)

        assert locks.holds(writer.pid, files_of(file))
        assert not locks.holds(reader.pid, files_of(file))
        assert not locks.holds(os.getpid(), files_of(file))
    assert not locks.holds(writer.pid, files_of(file))
    locks.close()


def test_looking_does_not_drop_the_locks_of_this_process(file: Path) -> None:
    mine = sqlite3.connect(file, isolation_level=None)
    mine.execute("BEGIN IMMEDIATE")
    locks = FileLocks()
    with holder(file) as other:
        locks.holds(other.pid, files_of(file))
        locks.holds(other.pid, files_of(file))
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    asked = subprocess.run([sys.executable, "-c", program, str(file)], check=False, capture_output=True)

    assert b"database is locked" in asked.stderr
    mine.close()
    locks.close()


def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    locks = FileLocks()

    assert not locks.holds(os.getppid(), [pipe])
    locks.close()
