"""The proxy's process: it pumps, takes orders from the harness, and ends with it.

Its arguments are ``<control descriptor> <host> <port> <record>``. The control is one end of a pair of sockets, JSON
lines both ways; its end of file means that the harness is gone, however it went. A process of its own, because a
harness that is busy with its own threads must not slow the workers down, and because whatever it holds open is closed
when it dies.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Final

import msgspec

from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.proxy.cuts import Cut, Cuts
from noeta.chaos.proxy.link import Link
from noeta.chaos.proxy.pump import Pump
from noeta.chaos.proxy.target import Address

ORDER_BYTES: Final = 64 * 1024


class Arm(msgspec.Struct, frozen=True, tag="arm", tag_field="do"):
    """From now on this cut may strike."""

    cut: Cut


class DisarmAll(msgspec.Struct, frozen=True, tag="disarm_all", tag_field="do"):
    """No cut strikes any more; to be answered once none is under way."""

    number: int


class Listens(msgspec.Struct, frozen=True, tag="listens", tag_field="says"):
    """The first word: workers may come."""

    port: int


class Disarmed(msgspec.Struct, frozen=True, tag="disarmed", tag_field="says"):
    """What was asked by this number is done, and the record is complete."""

    number: int


_orders: Final[msgspec.json.Decoder[Arm | DisarmAll]] = msgspec.json.Decoder(Arm | DisarmAll)


class Process:
    """The proxy, with its orders."""

    def __init__(self, control: socket.socket, address: Address, record: LineWriter) -> None:
        self._control = control
        self._orders = bytearray()
        self._is_over = False
        self._disarming: list[int] = []
        self._cuts = Cuts()
        self._pump = Pump(address, lambda: Link(self._cuts, record.add))
        self._pump.also_watch(control, self._hear)
        self._say(Listens(self._pump.port))

    def run(self) -> None:
        """Until the harness is gone."""
        while not self._is_over:
            self._pump.turn()
            if self._disarming and not any(link.is_listening for link in self._pump.links()):
                for number in self._disarming:
                    self._say(Disarmed(number))
                self._disarming.clear()
        self._pump.close()

    def _hear(self) -> None:
        try:
            data = self._control.recv(ORDER_BYTES)
        except ConnectionError:
            data = b""
        self._is_over = not data
        self._orders += data
        *lines, rest = self._orders.split(b"\n")
        self._orders = bytearray(rest)
        for line in lines:
            match _orders.decode(line):
                case Arm(cut=cut):
                    self._cuts.arm(cut)
                case DisarmAll(number=number):
                    self._cuts.disarm_all()
                    for link in self._pump.links():
                        link.call_off()
                        self._pump.settle(link)
                    self._disarming.append(number)

    def _say(self, word: Listens | Disarmed) -> None:
        try:
            self._control.sendall(msgspec.json.encode(word) + b"\n")
        except ConnectionError:
            self._is_over = True


def main() -> None:
    """A proxy's life."""
    control, host, port, record = sys.argv[1:5]
    Process(socket.socket(fileno=int(control)), Address(host, int(port)), LineWriter(Path(record))).run()
