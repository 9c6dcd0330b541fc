"""Postgres stores for the tests that are Postgres' own, and a wire between them and the server that can fail."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from psycopg import conninfo

from noeta.backends.stores.pg_connection import Settings
from noeta.backends.stores.pg_migrate import migrate
from noeta.backends.stores.postgres import PostgresStore
from noeta.core.store import Claim, NewTask, Store

QUICK = Settings(statement_timeout_seconds=1.0, lock_timeout_seconds=0.5, answer_slack_seconds=0.5)
"""Deadlines short enough to wait for in a test."""


@contextmanager
def open_store(dsn: str, schema: str, settings: Settings = QUICK, max_connections: int = 4) -> Iterator[PostgresStore]:
    """A store on a migrated schema. The test server runs without fsync, so that is allowed here."""
    migrate(dsn, schema)
    with contextlib.closing(
        PostgresStore(
            dsn,
            schema=schema,
            settings=settings,
            allow_unsafe=True,
            max_connections=max_connections,
            connection_wait=1.0,
        )
    ) as store:
        yield store


def claimed(store: Store, task_id: str = "t", lease_seconds: float = 60.0) -> Claim:
    store.create(NewTask(task_id, "agent", "goal", queue=f"queue of {task_id}"))
    return store.claim("worker", [f"queue of {task_id}"], lease_seconds).claims[0]


class Wire:
    """A TCP relay to the server that can swallow bytes (a black hole) or cut every connection."""

    def __init__(self, dsn: str) -> None:
        given = conninfo.conninfo_to_dict(dsn)
        host, port = str(given.get("host") or ""), int(given.get("port") or 5432)
        if not host or host.startswith("/"):
            pytest.skip("the wire needs a server on TCP")
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = conninfo.make_conninfo(
            dsn, host="127.0.0.1", port=self._listener.getsockname()[1], sslmode="disable"
        )
        self._swallows_requests = threading.Event()
        self._swallows_answers = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self, *, requests: bool = True, answers: bool = True) -> None:
        """From now on bytes vanish, and nobody is told."""
        if requests:
            self._swallows_requests.set()
        if answers:
            self._swallows_answers.set()

    def heal(self) -> None:
        self._swallows_requests.clear()
        self._swallows_answers.clear()

    def cut(self) -> None:
        """Every connection ends now; new ones are relayed."""
        while self._sockets:
            with contextlib.suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            for source, target, swallows in (
                (client, server, self._swallows_requests),
                (server, client, self._swallows_answers),
            ):
                threading.Thread(target=_relay, args=(source, target, swallows), daemon=True).start()


def _relay(source: socket.socket, target: socket.socket, swallows: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if not swallows.is_set():
                target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
    source.close()


@contextmanager
def open_wire(dsn: str) -> Iterator[Wire]:
    wire = Wire(dsn)
    try:
        yield wire
    finally:
        wire.close()


def without_pins(settings: Settings = QUICK) -> Settings:
    return replace(settings, pins=False)
