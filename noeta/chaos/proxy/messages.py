"""What stands in the bodies of those frames that decide about a cut. Pure; a body that ends too soon is refused."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from noeta.chaos.proxy.frames import Frame, ProtocolError

PARSE, BIND, DESCRIBE, EXECUTE, SYNC, CLOSE, QUERY, CALL = b"P", b"B", b"D", b"E", b"S", b"C", b"Q", b"F"
"""Types of a client's frames; the last one is the old call of a function by its number."""

READY, COMPLETE, EMPTY, SUSPENDED, ERROR, COLUMNS, ROW = b"Z", b"C", b"I", b"s", b"E", b"T", b"D"
"""Types of a server's frames."""

SQLSTATE: Final = "C"
"""The field of an error that names its kind."""

_SHORT: Final = struct.Struct("!h")
_LONG: Final = struct.Struct("!i")
_COLUMN_TAIL_BYTES: Final = 18
"""Table, number, type, its size and modifier, and format of a column, behind its name."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with its values. ``first``: its first value as text, None if there is none, it is NULL or binary."""

    portal: bytes
    statement: bytes
    first: str | None


class _Body:
    """Reads a body from its beginning to its end."""

    def __init__(self, frame: Frame) -> None:
        self._kind, self._bytes, self._at = frame.kind, bytes(frame.body), 0

    def text(self) -> bytes:
        end = self._bytes.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError(f"a text without an end in a frame of type {self._kind!r}")
        found = self._bytes[self._at : end]
        self._at = end + 1
        return found

    def take(self, size: int) -> bytes:
        found = self._bytes[self._at : self._at + size]
        if len(found) < size:
            raise ProtocolError(f"a frame of type {self._kind!r} ends too soon")
        self._at += size
        return found

    def short(self) -> int:
        return int(_SHORT.unpack(self.take(2))[0])

    def value(self) -> bytes | None:
        (size,) = _LONG.unpack(self.take(4))
        return None if size < 0 else self.take(size)


def parameters(frame: Frame) -> dict[str, str]:
    """What a start-up packet asks of its session: ``user``, ``application_name``, …"""
    parts = [part.decode(errors="replace") for part in bytes(frame.body).split(b"\0")]
    return dict(zip(parts[:-2:2], parts[1:-1:2], strict=False))


def parse(frame: Frame) -> tuple[bytes, str]:
    """Name and text of a statement to prepare."""
    body = _Body(frame)
    return body.text(), body.text().decode(errors="replace")


def bind(frame: Frame) -> Bound:
    """A portal to open."""
    body = _Body(frame)
    portal, statement = body.text(), body.text()
    formats = [body.short() for _ in range(body.short())]
    first = body.value() if body.short() > 0 else None
    is_binary = bool(formats) and formats[0] == 1
    return Bound(portal, statement, None if first is None or is_binary else first.decode(errors="replace"))


def portal(frame: Frame) -> bytes:
    """Which portal is to run."""
    return _Body(frame).text()


def closed(frame: Frame) -> tuple[bytes, bytes]:
    """What is to be forgotten: ``S`` a statement, ``P`` a portal; and its name."""
    body = _Body(frame)
    return body.take(1), body.text()


def query(frame: Frame) -> str:
    """The text of a simple query."""
    return _Body(frame).text().decode(errors="replace")


def status(frame: Frame) -> str:
    """After an answer: ``I`` no transaction is open, ``T`` one is, ``E`` one is and has failed."""
    return _Body(frame).take(1).decode(errors="replace")


def tag(frame: Frame) -> str:
    """What a statement was, by its server: ``SELECT 1``, ``ROLLBACK``."""
    return _Body(frame).text().decode(errors="replace")


def columns(frame: Frame) -> list[str]:
    """The names of an answer's columns."""
    body = _Body(frame)
    names = []
    for _ in range(body.short()):
        names.append(body.text().decode(errors="replace"))
        body.take(_COLUMN_TAIL_BYTES)
    return names


def row(frame: Frame) -> list[str | None]:
    """The values of one row of text."""
    body = _Body(frame)
    values = [body.value() for _ in range(body.short())]
    return [None if value is None else value.decode(errors="replace") for value in values]


def error(frame: Frame) -> dict[str, str]:
    """The fields of an error by their letters."""
    fields = bytes(frame.body).split(b"\0")
    return {field[:1].decode(errors="replace"): field[1:].decode(errors="replace") for field in fields if field}
