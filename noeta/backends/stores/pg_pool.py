"""The few connections of a store, lent to one statement at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from noeta.backends.stores.pg_connection import Connection, Settings
from noeta.backends.stores.pg_errors import Failure, Sent


class NoneFree(Failure):
    """No connection could be lent. Says nothing about the server, so the others stay trusted."""

    def __init__(self, message: str) -> None:
        super().__init__(Sent.NOTHING, message)


class Pool:
    """A few connections, lent last-in first-out, opened when needed. Any thread may borrow."""

    def __init__(self, dsn: str, settings: Settings, *, connections_max: int, wait_seconds: float) -> None:
        self._dsn = dsn
        self._settings = settings
        self._connections_max = connections_max
        self._wait_seconds = wait_seconds
        self._free = threading.Condition()
        self._idle: list[Connection] = []
        self._lent = 0
        self._trusted_from = 0.0
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """A connection for one statement.

        Raises:
            Failure: none was free within the bound, or none could be opened; nothing was sent.
        """
        connection = self._take()
        try:
            yield connection
        finally:
            self._give_back(connection)

    def distrust_idle(self) -> None:
        """After a failure: every connection opened before now is dropped instead of lent."""
        with self._free:
            self._trusted_from = time.monotonic()
            dropped, self._idle = self._idle, []
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        with self._free:
            self._closed = True
            dropped, self._idle = self._idle, []
            self._free.notify_all()
        for connection in dropped:
            connection.close()

    def _take(self) -> Connection:
        deadline = time.monotonic() + self._wait_seconds
        with self._free:
            while self._lent >= self._connections_max and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0 or not self._free.wait(left):
                    raise NoneFree(
                        f"none of {self._connections_max} connections was free within {self._wait_seconds} s",
                    )
            if self._closed:
                raise NoneFree("the store is closed")
            self._lent += 1
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_stale():
                    return connection
                connection.close()
        try:
            return Connection(self._dsn, self._settings)
        except BaseException:
            with self._free:
                self._lent -= 1
                self._free.notify()
            raise

    def _give_back(self, connection: Connection) -> None:
        with self._free:
            self._lent -= 1
            keeps = not (connection.is_closed or self._closed or connection.opened_at < self._trusted_from)
            if keeps:
                self._idle.append(connection)
            self._free.notify()
        if not keeps:
            connection.close()
