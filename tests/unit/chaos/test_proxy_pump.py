"""The pump between real sockets: what it closes, when, and how."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from noeta.chaos.proxy import Cut, pump
from noeta.chaos.proxy.cuts import Cuts
from noeta.chaos.proxy.link import Link, Side
from noeta.chaos.proxy.pump import Pump
from noeta.chaos.proxy.target import Address
from noeta.chaos.schedule import Kind
from tests.unit.chaos import wire_bytes as wire

SECONDS_MAX = 20.0


class Ends:
    """A client and its server, with a pump between them. The server's socket lies in the file system: what the kernel
    keeps of one that nobody reads is the same every time there."""

    def __init__(self, cuts: Cuts, folder: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{folder}/.s.PGSQL.1")
        self.listener.listen()
        self.pump = Pump(Address(str(folder), 1), lambda: Link(cuts, lambda line: None))
        self.client = socket.create_connection(("127.0.0.1", self.pump.port))
        self.turn_until(self.pump.links)
        self.server, _ = self.listener.accept()
        for end in (self.client, self.server):
            end.settimeout(SECONDS_MAX)

    def turn_until(self, is_so: Callable[[], object]) -> None:
        """Turn the pump in this thread: nothing happens but what it does."""
        overdue = threading.Event()
        timer = threading.Timer(SECONDS_MAX, overdue.set)
        timer.start()
        while not is_so():
            assert not overdue.is_set(), "it did not happen in time"
            self.pump.turn()
        timer.cancel()

    def arrives(self, end: socket.socket, data: bytes) -> None:
        got = bytearray()
        end.setblocking(False)

        def look() -> bool:
            try:
                got.extend(end.recv(1 << 16))
            except BlockingIOError:
                pass
            return len(got) >= len(data)

        self.turn_until(look)
        end.settimeout(SECONDS_MAX)
        assert bytes(got) == data

    def close(self) -> None:
        for one in (self.client, self.server, self.listener):
            one.close()
        self.turn_until(lambda: not self.pump.links())
        self.pump.close()


@pytest.fixture
def cuts() -> Cuts:
    return Cuts()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "LOOK_SECONDS", 0.01)


@pytest.fixture
def made(cuts: Cuts) -> Iterator[Ends]:
    # Not in the test's own folder: the name of such a socket has at most a hundred characters.
    with tempfile.TemporaryDirectory() as folder:
        ends = Ends(cuts, Path(folder))
        try:
            yield ends
        finally:
            ends.close()


def test_a_client_that_is_cut_off_sees_a_reset_and_its_server_an_end(made: Ends, cuts: Cuts) -> None:
    made.client.sendall(wire.start() + wire.parse("append", wire.APPEND) + wire.SYNC)
    made.arrives(made.server, wire.start() + wire.parse("append", wire.APPEND) + wire.SYNC)
    made.server.sendall(wire.ready() + wire.ready())
    made.arrives(made.client, wire.ready() + wire.ready())
    cuts.arm(Cut("c", Kind.CUT_BEFORE_COMMIT, "append"))
    made.client.sendall(wire.run("append", b"t"))
    made.turn_until(lambda: not made.pump.links())

    with pytest.raises(ConnectionResetError):
        made.client.recv(1)
    assert made.server.recv(1) == b""


@pytest.mark.parametrize("goes", ["client", "server"])
def test_whoever_goes_takes_the_other_one_along(made: Ends, goes: str) -> None:
    gone, left = (made.client, made.server) if goes == "client" else (made.server, made.client)
    gone.shutdown(socket.SHUT_RDWR)
    made.turn_until(lambda: not made.pump.links())

    assert left.recv(1) == b""


def test_what_nobody_reads_is_bounded(made: Ends) -> None:
    made.client.sendall(wire.start())
    made.arrives(made.server, wire.start())
    made.client.setblocking(False)
    piece, sent, refused = wire.frame(b"d", bytes(60_000)), 0, 0
    while refused < 20:  # the pump has had so many turns, and still takes nothing
        made.pump.turn()
        try:
            sent += made.client.send(piece[sent % len(piece) :])
            refused = 0
        except BlockingIOError:
            refused += 1
    (link,) = made.pump.links()

    assert all(len(pending) <= pump.PENDING_BYTES_MAX + 2 * len(piece) for pending in link.pending.values())


def test_what_is_left_of_a_client_is_not_kept_for_ever(made: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "DRAIN_SECONDS_MAX", 0.2)
    made.client.sendall(wire.start())
    made.arrives(made.server, wire.start())
    (link,) = made.pump.links()
    while not link.pending[Side.SERVER]:  # until the kernel has no room any more
        made.client.sendall(wire.frame(b"d", bytes(10_000)))
        made.pump.turn()
    made.client.close()
    made.turn_until(lambda: link.gone)
    assert link.pending[Side.SERVER]
    made.turn_until(lambda: not made.pump.links())


@pytest.mark.parametrize("host", ["127.0.0.1", "@nobody"])
def test_a_server_that_is_not_there_ends_its_client(host: str) -> None:
    nobody = socket.create_server(("127.0.0.1", 0))
    port = nobody.getsockname()[1]
    nobody.close()
    pumping = Pump(Address(host, port), lambda: Link(Cuts(), lambda line: None))
    with socket.create_connection(("127.0.0.1", pumping.port)) as client:
        client.settimeout(SECONDS_MAX)
        client.sendall(wire.start())
        for _ in range(20):
            pumping.turn()
        assert not pumping.links()
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    pumping.close()


def test_a_closed_pump_has_no_port_and_no_connection(made: Ends) -> None:
    made.pump.close()

    assert made.client.recv(1) == made.server.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(made.client.getpeername())
