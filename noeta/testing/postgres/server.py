"""Runs a Postgres server as our child, so that it can be stopped, killed whole and started again.

The child is the postmaster itself (no pg_ctl between), on a free port of 127.0.0.1, with a password, in a
directory named for its owner: `noeta_pg_<pid>_<start time>_<random>`. `guard.py` ends it when the owner is
killed. A server given by DSN, or in a container, has the same face, but whatever would stop it is refused.

Trap: the port is kept over `restart`, so that a DSN stays true; it lies below the range from which the
kernel takes ports for outgoing connections, otherwise a client could sit on it while the server is down.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from psycopg.conninfo import make_conninfo

from noeta.testing.postgres import guard
from noeta.testing.postgres.container import Container
from noeta.testing.postgres.install import (
    SUPERUSER,
    Installation,
    prepare,
    server_environ,
    server_user,
    shared_temp_root,
)
from noeta.testing.postgres.source import PostgresSource, ServerFailed

StopMode = Literal["fast", "immediate"]

DEFAULT_OPTIONS: Mapping[str, str] = {
    "fsync": "on",  # what a crash leaves must be what it would leave in production
    "max_connections": "200",
    "shared_buffers": "64MB",  # several servers share a small machine
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %a ",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "dynamic_shared_memory_type": "mmap",  # in the data directory: SIGKILL leaves nothing in /dev/shm
}
OWN_OPTIONS = frozenset({"data_directory", "listen_addresses", "port", "unix_socket_directories", "external_pid_file"})

PORT_FIRST, PORT_LAST = 15_000, 32_000  # Linux takes outgoing ports from 32768 on
PORT_TRIES_MAX = 20
READY_LOOK_SECONDS = 0.01
BASE_PREFIX = "noeta_pg_"


class Server:
    """One Postgres server. Not for several threads at once."""

    def __init__(
        self,
        source: PostgresSource,
        *,
        options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        log_path: Path | None = None,
        choose_port: Callable[[], int] | None = None,
    ) -> None:
        """
        Args:
            options: server settings, over `DEFAULT_OPTIONS`.
            environ: added to the server's environment.
            log_path: where the server's log goes; without it, inside the directory that `close` removes.
            choose_port: gives a port to try at the first start; asked again when somebody else has it.
        """
        asked = dict(options or {})
        if refused := OWN_OPTIONS & asked.keys():
            raise ValueError(f"the server chooses these settings itself: {', '.join(sorted(refused))}")
        self.source = source
        self.options: Mapping[str, str] = {**DEFAULT_OPTIONS, **asked}
        self._environ = dict(environ or {})
        self._log_path = log_path
        self._choose_port = choose_port or free_port
        self._installation: Installation | None = None
        self._container: Container | None = None
        self._base: Path | None = None
        self._port: int | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def owned(self) -> bool:
        """Whether the server is ours to stop and kill, process by process."""
        return self.source.bin_dir is not None

    @property
    def dsn(self) -> str:
        """The superuser's DSN, the same over restarts. It holds the password: never write it down."""
        if self.source.dsn is not None:
            return self.source.dsn
        if self._container is not None:
            return self._container.dsn
        if self._port is None or self._installation is None:
            raise RuntimeError("this server was never started, so it has no address yet")
        return make_conninfo(
            host="127.0.0.1",
            port=self._port,
            user=SUPERUSER,
            password=self._installation.password(),
            dbname="postgres",
            # Neither is offered on loopback; asking costs a round trip for each connection.
            sslmode="disable",
            gssencmode="disable",
        )

    @property
    def pid(self) -> int | None:
        """The postmaster's id while it runs; None for a server that is not ours."""
        return self._postmaster.pid if self._postmaster is not None and self.is_running() else None

    @property
    def data_dir(self) -> Path:
        return guard.data_dir(self._made_base())

    @property
    def log_path(self) -> Path:
        return self._log_path or self._made_base() / "server.log"

    def is_running(self) -> bool:
        """Whether the postmaster's process is there; for a server that is not ours, taken for granted."""
        return not self.owned or (self._postmaster is not None and self._postmaster.poll() is None)

    def processes(self) -> list[int]:
        """Ids of all its processes, the postmaster first."""
        self._refuse_if_not_owned("list the processes of")
        return [] if self._base is None else guard.server_processes(self.data_dir)

    def start(self, *, timeout_seconds: float = 60.0) -> None:
        """Start, or start again after `stop` or `kill`, and wait until connections are taken.

        Raises:
            ServerFailed: it ended or was not ready in time; the message ends with its log.
            NoPostgres: it cannot run on this machine.
        """
        if self.source.image is not None and self._container is None:
            container = Container(self.source.image, self.options, self._environ)
            container.start(timeout_seconds)
            self._container = container
        if not self.owned or self.is_running():
            return
        if self._base is None:
            self._make()
        guard.kill_server(self.data_dir)  # children may outlive a postmaster that somebody else killed
        # Its id may be another process's by now, and Postgres would take that for a running server.
        (self.data_dir / "postmaster.pid").unlink(missing_ok=True)

        is_port_fixed = self._port is not None
        for attempt in range(1, PORT_TRIES_MAX + 1):
            if not is_port_fixed:
                self._port = self._choose_port()
            self._launch()
            if self._wait_ready(timeout_seconds):
                return
            assert self._port is not None
            if _is_free(self._port) or attempt == PORT_TRIES_MAX:
                raise ServerFailed(f"{self.source} ended at its start: {self._log_tail()}")
            time.sleep(0.1 if is_port_fixed else 0.0)  # somebody was faster at this port

    def stop(self, mode: StopMode = "fast", *, timeout_seconds: float = 60.0) -> None:
        """Shut down: fast rolls back open transactions, immediate is a crash that Postgres itself begins.

        Raises:
            ServerFailed: it did not end in time; it was then killed.
        """
        self._refuse_if_not_owned("stop")
        if self._postmaster is None:
            return
        if self.is_running():
            self._postmaster.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
        try:
            self._postmaster.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"{self.source} did not stop in {timeout_seconds} s: {self._log_tail()}") from None
        guard.kill_server(self.data_dir)
        self._postmaster = None

    def kill(self) -> None:
        """SIGKILL the postmaster and all its children: the whole server, as if its machine lost power.

        What the kernel had been given to write is still written: this is not a test of `fsync`.
        """
        self._refuse_if_not_owned("kill")
        if self._base is not None:
            guard.kill_server(self.data_dir)
        if self._postmaster is not None:
            self._postmaster.wait()
            self._postmaster = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop if it runs, then start on the same data and port."""
        self._refuse_if_not_owned("restart")
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Kill it and remove its directory or container; after that the server cannot be started again."""
        if self._container is not None:
            container, self._container = self._container, None
            container.close()
        if not self.owned or self._base is None:
            return
        self.kill()
        guard.remove_server(self._base)
        self._base = self._port = None
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()
        if self._lock is not None:
            os.close(self._lock)
        self._guard = self._lock = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self) -> None:
        """Make the directory: guard first, so that there is nothing without one."""
        sweep_servers()
        self._installation = prepare(self.source)
        user = self._installation.user
        me = os.getpid()
        base = self._installation.temp_root / f"{BASE_PREFIX}{me}_{guard.started_at(me)}_{secrets.token_hex(4)}"
        base.mkdir(mode=0o700)
        self._base = base
        self._lock = os.open(base / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(me), str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        if user.switch:
            os.chown(base, user.uid, user.gid)
        self._installation.copy_data(self.data_dir)

    def _launch(self) -> None:
        assert self._installation is not None
        user = self._installation.user
        settings = {
            **self.options,
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
        }
        arguments = [str(self._installation.bin_dir / "postgres"), "-D", str(self.data_dir)]
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        with self.log_path.open("ab") as log:
            self._postmaster = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=server_environ(self._environ),
                start_new_session=True,  # Ctrl-C is for us; the server is needed until we have cleaned up
                user=user.uid if user.switch else None,
                group=user.gid if user.switch else None,
                extra_groups=[] if user.switch else None,
            )

    def _wait_ready(self, timeout_seconds: float) -> bool:
        """True once it takes connections, False if it ended."""
        assert self._postmaster is not None
        deadline = time.monotonic() + timeout_seconds
        while self._postmaster.poll() is None:
            lines = guard.pid_file_lines(self.data_dir)
            is_its_own = len(lines) >= 8 and lines[0] == str(self._postmaster.pid)
            if is_its_own and lines[7].strip() in ("ready", "standby"):
                return True
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{self.source} was not ready in {timeout_seconds} s: {self._log_tail()}")
            time.sleep(READY_LOOK_SECONDS)
        self._postmaster = None
        return False

    def _log_tail(self) -> str:
        try:
            return self.log_path.read_text(errors="replace")[-2000:].strip()
        except OSError:
            return "(no log)"

    def _made_base(self) -> Path:
        if self._base is None:
            raise RuntimeError("this server is not started, or closed, or not ours: it has no directory")
        return self._base

    def _refuse_if_not_owned(self, what: str) -> None:
        if not self.owned:
            raise RuntimeError(f"will not {what} {self.source}: it is not ours")


def sweep_servers(temp_root: Path | None = None) -> list[Path]:
    """Remove servers and directories of killed owners whose guards were killed too; answers what it removed.

    An owner lives if a process with its id and start time does, or, seen from another process namespace, if
    the lock in its directory is held.
    """
    removed = []
    for base in (temp_root or shared_temp_root(server_user())).glob(f"{BASE_PREFIX}*"):
        owner = base.name.removeprefix(BASE_PREFIX).split("_")
        if len(owner) != 3 or not owner[0].isdigit() or not owner[1].isdigit():
            continue
        if guard.is_alive(int(owner[0]), int(owner[1])) or _is_lock_held(base):
            continue
        with contextlib.suppress(OSError):  # another user's, or somebody sweeps it at this moment
            guard.remove_server(base)
            removed.append(base)
    return removed


def _is_lock_held(base: Path) -> bool:
    """Whether an owner holds the lock; a directory we may not look into is not ours, so held."""
    try:
        handle = os.open(base / "owner.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def free_port() -> int:
    """A port of 127.0.0.1 nobody has, drawn at random; by the time it is used somebody may."""
    for _ in range(1000):
        port = PORT_FIRST + secrets.randbelow(PORT_LAST - PORT_FIRST)
        if _is_free(port):
            return port
    raise ServerFailed(f"no free port between {PORT_FIRST} and {PORT_LAST} on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Postgres does: TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
