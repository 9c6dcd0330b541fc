"""Cleans up after a harness that was killed: processes, then schemas, then files.

Two reapers run for each harness, each a process in a session of its own, so that killing the harness together
with one of them leaves the other. Both hold the read end of a pipe whose only writer is the harness: end of
file means that it is gone, however it went. What to clean up stands in an unnamed file in memory that all
three have open, one JSON line each; nobody else can read it, so it may hold a DSN, and it vanishes with them.
A harness that ends well withdraws what it cleaned up itself, and the reapers find nothing to do.

Not handled: killing both reapers and the harness at one blow. Workers end even then (a parent-death signal,
and a pipe of their own), an own server has its own guard, and a schema is swept by the next start.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import DEVNULL, Popen
from types import TracebackType
from typing import Any, Final, Self

from noeta.testing.postgres.guard import is_alive, remove_server, started_at

REAPERS: Final = 2
LOOK_SECONDS: Final = 0.3
"""How often a reaper looks at the harness's id too: a forked child may hold the pipe's other end."""

WATCH_SECONDS: Final = 0.2
"""How often the harness looks whether its reapers live."""

SCHEMA_SECONDS_MAX: Final = 6.0
"""How long a reaper tries to drop a schema: sessions of killed workers may end a statement first."""

KILL_SECONDS_MAX: Final = 5.0


class Reapers:
    """The harness's end: start it before anything that could be left behind. For several threads."""

    def __init__(self) -> None:
        self._registry = _unnamed_file()
        self._reader, self._writer = os.pipe()
        self._lock = threading.Lock()
        self._count = 0
        self._children: list[Popen[bytes]] = []
        self._closed = threading.Event()
        self.replaced = 0
        for _ in range(REAPERS):
            self._children.append(self._start())
        self._watcher = threading.Thread(target=self._watch, name="reaper-watch", daemon=True)
        self._watcher.start()

    @property
    def pids(self) -> tuple[int, ...]:
        """The reapers' process ids."""
        with self._lock:
            return tuple(child.pid for child in self._children)

    def process(self, pid: int) -> int:
        """A process to kill, with its descendants, also if it is stopped. The number to withdraw it by."""
        return self._add({"do": "process", "pid": pid, "start": started_at(pid)})

    def schema(self, dsn: str, name: str) -> int:
        """A schema to drop, once no registered process is left."""
        return self._add({"do": "schema", "dsn": dsn, "name": name})

    def server(self, base: Path) -> int:
        """The directory of a Postgres server of our own, to be ended and removed."""
        return self._add({"do": "server", "base": str(base)})

    def directory(self, path: Path) -> int:
        """A directory to remove, last."""
        return self._add({"do": "directory", "path": str(path.absolute())})

    def files(self, paths: Iterable[Path]) -> int:
        """Files to remove, last; those that are not there yet may come."""
        return self._add({"do": "files", "paths": [str(path.absolute()) for path in paths]})

    def withdraw(self, number: int) -> None:
        """It is gone, or it is to stay."""
        self._add({"do": "withdraw", "what": number})

    def close(self) -> None:
        """End the reapers; what is still registered they clean up first."""
        self._closed.set()
        self._watcher.join()
        with self._lock:
            if self._writer < 0:
                return
            os.close(self._writer)
            self._writer = -1
            for child in self._children:
                child.wait()
            os.close(self._reader)
            os.close(self._registry)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, line: Mapping[str, Any]) -> int:
        with self._lock:
            self._count += 1
            data = json.dumps({"number": self._count, **line}).encode() + b"\n"
            os.write(self._registry, data)
            return self._count

    def _start(self) -> Popen[bytes]:
        me = os.getpid()
        return Popen(
            # The search path goes along: the reaper must be able to import what we could.
            [sys.executable, "-c", _MAIN, str(me), str(started_at(me)), str(self._reader), str(self._registry)],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            pass_fds=(self._reader, self._registry),
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path)},
        )

    def _watch(self) -> None:
        """Replace a reaper that was killed. Reapers outlive the thread that started them: no death signal is set."""
        while not self._closed.wait(WATCH_SECONDS):
            with self._lock:
                for place, child in enumerate(self._children):
                    if child.poll() is not None:
                        self._children[place] = self._start()
                        self.replaced += 1


_MAIN: Final = "from noeta.chaos.reaper import main; main()"


def main() -> None:
    """A reaper's life: ``<harness pid> <its start time> <pipe> <registry>``."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # whoever ends our group should not take along those who tidy up
    pid, start, pipe, registry = (int(argument) for argument in sys.argv[1:5])
    while is_alive(pid, start):
        readable, _, _ = select.select([pipe], [], [], LOOK_SECONDS)
        if readable:  # nobody ever writes: this is the end of file
            break
    clean_up(registered(registry))


def registered(registry: int) -> list[dict[str, Any]]:
    """What is registered and not withdrawn, in order; a torn last line is left out."""
    lines: dict[int, dict[str, Any]] = {}
    for raw in os.pread(registry, os.fstat(registry).st_size, 0).splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if line["do"] == "withdraw":
            lines.pop(line["what"], None)
        else:
            lines[line["number"]] = line
    return list(lines.values())


def clean_up(lines: list[dict[str, Any]]) -> None:
    """Remove what these lines name; doing it twice, or two at once, does no harm."""
    kill_processes([(line["pid"], line["start"]) for line in lines if line["do"] == "process"])
    for line in lines:
        if line["do"] == "schema":
            _try_drop(line["dsn"], line["name"])
    for line in lines:
        if line["do"] == "server":
            try:
                remove_server(Path(line["base"]))
            except (OSError, TimeoutError):
                pass  # its own guard is at work on it, too
    for line in lines:
        if line["do"] == "directory":
            shutil.rmtree(line["path"], ignore_errors=True)
        elif line["do"] == "files":
            for path in line["paths"]:
                Path(path).unlink(missing_ok=True)


def kill_processes(known: list[tuple[int, int | None]]) -> None:
    """SIGKILL these processes, which are named by id and start time, and all that descends from them."""
    deadline = time.monotonic() + KILL_SECONDS_MAX
    alive = {(pid, start) for pid, start in known if start is not None and is_alive(pid, start)}
    while alive and time.monotonic() < deadline:
        # Children first: a killed parent's children belong to nobody.
        family = alive | _descendants({pid for pid, _ in alive})
        for pid, start in family:
            if is_alive(pid, start):
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
        time.sleep(0.02)
        alive = {(pid, start) for pid, start in family if is_alive(pid, start)}


def _descendants(pids: set[int]) -> set[tuple[int, int]]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[tuple[int, int]] = set()
    todo = list(pids)
    while todo:
        for child in parents.get(todo.pop(), ()):
            start = started_at(child)
            if start is not None and (child, start) not in found:
                found.add((child, start))
                todo.append(child)
    return found


def _try_drop(dsn: str, name: str) -> None:
    import psycopg  # a reaper that has nothing to drop stays small

    deadline = time.monotonic() + SCHEMA_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            drop_schema(dsn, name)
            return
        except psycopg.Error:
            time.sleep(0.2)  # locked, or the server is (being) restarted


def drop_schema(dsn: str, name: str) -> None:
    """Drop a schema with all that is in it, ending sessions that hold a lock there.

    Raises:
        psycopg.Error: the server is away, or a session does not let go.
    """
    import psycopg
    from psycopg import sql

    with psycopg.connect(dsn, autocommit=True, connect_timeout=2, application_name="noeta reaper") as session:
        session.execute(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND l.pid <> pg_backend_pid()",
            [name],
        )
        session.execute("SET lock_timeout = '1s'")
        session.execute("SET client_min_messages = warning")
        session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("noeta-reaper")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    return descriptor
