"""The bytes of every connection, both ways, in one thread that never waits for any of them.

Whoever does not read is not read from: at most ``PENDING_BYTES_MAX`` of his are kept, then his other side waits, as it
would without us. A side that is gone takes the other one along once that has everything that was sent before: so a
killed client is gone for the server too, and a frozen one is as frozen.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from noeta.chaos.proxy.link import Link, Side
from noeta.chaos.proxy.target import Address

RECEIVE_BYTES: Final = 64 * 1024
PENDING_BYTES_MAX: Final = 256 * 1024
DRAIN_SECONDS_MAX: Final = 30.0
"""How long what is left to be sent is kept for a side whose other side is gone."""

LOOK_SECONDS: Final = 5.0
BACKLOG: Final = 128


class Pump:
    """All connections through one port of 127.0.0.1. For one thread. ``open_link``: makes the link of a new client."""

    def __init__(self, address: Address, open_link: Callable[[], Link]) -> None:
        self._address, self._open_link = address, open_link
        self._selector = selectors.DefaultSelector()
        self._links: dict[Link, dict[Side, socket.socket]] = {}
        self._deadlines: dict[Link, float] = {}
        self._watched: dict[socket.socket, int] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def port(self) -> int:
        """Where clients come in."""
        return int(self._listener.getsockname()[1])

    def also_watch(self, what: socket.socket, called: Callable[[], None]) -> None:
        """Call this whenever there is something to read."""
        self._selector.register(what, selectors.EVENT_READ, called)

    def turn(self) -> None:
        """Do what can be done; wait a while if nothing can."""
        for key, events in self._selector.select(LOOK_SECONDS):
            match key.data:
                case (Link() as link, Side() as side):
                    if link in self._links:
                        self._serve(link, side, events)
                case called:
                    called()
        now = time.monotonic()
        for link in [link for link, deadline in self._deadlines.items() if deadline <= now]:
            self._forget(link)

    def links(self) -> tuple[Link, ...]:
        """Every connection."""
        return tuple(self._links)

    def settle(self, link: Link) -> None:
        """Act on what was decided about a connection elsewhere."""
        if link in self._links:
            self._advance(link)

    def close(self) -> None:
        """Close the port and every connection. Twice does no harm."""
        for link in self.links():
            self._forget(link)
        self._selector.close()
        self._listener.close()

    # -- one connection ------------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it went away again, or there are no more descriptors
        link = self._open_link()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links[link] = {Side.CLIENT: client}
        try:
            self._links[link][Side.SERVER] = self._address.connecting()
        except OSError:
            link.ended(Side.SERVER)
        self._advance(link)

    def _serve(self, link: Link, side: Side, events: int) -> None:
        ends = self._links[link]
        if side not in ends:
            return  # it was closed since the event was seen
        if side is Side.SERVER and not link.is_connected:
            # The first event of a socket that was connecting: it is, or it has failed.
            if ends[side].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                link.ended(Side.SERVER)
            link.is_connected = True
        elif events & selectors.EVENT_READ:
            self._receive(link, side)
        self._advance(link)

    def _receive(self, link: Link, side: Side) -> None:
        try:
            data = self._links[link][side].recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # reset: gone like one that closed
        if data:
            link.received(side, data)
        else:
            link.ended(side)

    def _advance(self, link: Link) -> None:
        """Send what can be sent, close what is over, and wait for what may come."""
        ends = self._links[link]
        for side, end in ends.items():
            if side is Side.CLIENT or link.is_connected:
                self._send(link, side, end)
        if link.is_reset and Side.CLIENT in ends:
            _reset(self._unwatched(ends.pop(Side.CLIENT)), bytes(link.pending[Side.CLIENT]))
        if link.is_over:
            self._forget(link)
            return
        if link.gone:
            self._deadlines.setdefault(link, time.monotonic() + DRAIN_SECONDS_MAX)
        for side, end in ends.items():
            self._watch(link, side, end)

    def _send(self, link: Link, side: Side, end: socket.socket) -> None:
        pending = link.pending[side]
        while pending and side not in link.gone:
            try:
                del pending[: end.send(pending)]
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                link.ended(side)

    def _watch(self, link: Link, side: Side, end: socket.socket) -> None:
        events = 0
        if side is Side.SERVER and not link.is_connected:
            events = selectors.EVENT_WRITE
        elif side not in link.gone:
            room = side.other in link.gone or len(link.pending[side.other]) < PENDING_BYTES_MAX
            events = (selectors.EVENT_READ if room else 0) | (selectors.EVENT_WRITE if link.pending[side] else 0)
        known = self._watched.get(end, 0)
        if known == events:
            return
        self._watched[end] = events
        if not known:
            self._selector.register(end, events, (link, side))
        elif not events:
            self._selector.unregister(end)
        else:
            self._selector.modify(end, events, (link, side))

    def _unwatched(self, end: socket.socket) -> socket.socket:
        if self._watched.pop(end, 0):
            self._selector.unregister(end)
        return end

    def _forget(self, link: Link) -> None:
        for end in self._links.pop(link).values():
            self._unwatched(end).close()
        self._deadlines.pop(link, None)


def _reset(end: socket.socket, before: bytes) -> None:
    """Close it so that the other side sees a reset, and not an orderly end; behind what it takes of ``before``."""
    with suppress(OSError):
        end.send(before)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    end.close()
