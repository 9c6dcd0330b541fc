"""Counts round trips on the wire: a relay between a client and the server that counts ReadyForQuery messages.

Black box: it sees whatever the client really sends, of any driver. One ReadyForQuery ends each Sync (or simple
query), so their number is the number of times a client waited. Assumes no TLS (a local server) and no pipelining.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from psycopg import conninfo

READY = "Z"
_HEADER_BYTES = 5
_CHUNK_BYTES = 65_536


class MessageCounter:
    """Counts the messages of a server's stream by type, however the stream is cut into chunks."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._header = b""
        self._body_left = 0

    def feed(self, chunk: bytes) -> None:
        at = 0
        while at < len(chunk):
            if self._body_left:
                step = min(self._body_left, len(chunk) - at)
                self._body_left -= step
                at += step
                continue
            part = chunk[at : at + _HEADER_BYTES - len(self._header)]
            self._header += part
            at += len(part)
            if len(self._header) == _HEADER_BYTES:
                self.seen[chr(self._header[0])] += 1
                self._body_left = int.from_bytes(self._header[1:]) - 4  # the length counts itself
                self._header = b""


class Relay:
    """Passes connections on to the server of a DSN. A message is counted before the client gets it."""

    def __init__(self, dsn: str) -> None:
        given = conninfo.conninfo_to_dict(dsn)
        self._upstream = (str(given["host"]), int(given["port"] or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.dsn = conninfo.make_conninfo(dsn, host=host, port=port, sslmode="disable", gssencmode="disable")
        self._lock = threading.Lock()
        self._counters: list[MessageCounter] = []
        self._open = 0
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def round_trips(self) -> int:
        """So far, over all connections; the end of each log-in counts as one."""
        with self._lock:
            return sum(counter.seen[READY] for counter in self._counters)

    @property
    def connections(self) -> int:
        """Those that the server has not seen the end of."""
        with self._lock:
            return self._open

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5.0)
        for each in sockets:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, run: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(self._upstream)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            counter = MessageCounter()
            with self._lock:
                self._counters.append(counter)
                self._open += 1
                self._sockets += [client, server]
            self._start(self._pump, client, server, None)
            self._start(self._pump, server, client, counter)

    def _pump(self, source: socket.socket, target: socket.socket, counter: MessageCounter | None) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                if counter is not None:
                    with self._lock:
                        counter.feed(chunk)
                target.sendall(chunk)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if counter is not None:
            with self._lock:
                self._open -= 1
