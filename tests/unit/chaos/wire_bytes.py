"""Frames of the Postgres protocol, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def start(application_name: str = "noeta w1#1") -> bytes:
    body = struct.pack("!i", 3 << 16)
    for text in ("user", "u", "application_name", application_name):
        body += text.encode() + b"\0"
    body += b"\0"
    return struct.pack("!i", len(body) + 4) + body


def code(number: int, rest: bytes = b"") -> bytes:
    return struct.pack("!ii", 8 + len(rest), number) + rest


def parse(name: str, text: str) -> bytes:
    return frame(b"P", name.encode() + b"\0" + text.encode() + b"\0" + struct.pack("!h", 0))


def bind(statement: str, *values: bytes | None, portal: str = "", formats: Sequence[int] = ()) -> bytes:
    body = portal.encode() + b"\0" + statement.encode() + b"\0"
    body += struct.pack("!h", len(formats)) + b"".join(struct.pack("!h", one) for one in formats)
    body += struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return frame(b"B", body + struct.pack("!h", 0))


DESCRIBE = frame(b"D", b"P\0")
EXECUTE = frame(b"E", b"\0" + struct.pack("!i", 0))
SYNC = frame(b"S")
FLUSH = frame(b"H")
APPEND = 'SELECT o_outcome FROM "s".append_1($1::text)'
READ = 'SELECT t.id FROM "s".task t WHERE t.id = $1::text'


def run(statement: str, *values: bytes | None) -> bytes:
    return bind(statement, *values) + DESCRIBE + EXECUTE + SYNC


def query(text: str) -> bytes:
    return frame(b"Q", text.encode() + b"\0")


def columns(*names: str) -> bytes:
    body = struct.pack("!h", len(names))
    for name in names:
        body += name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0)
    return frame(b"T", body)


def row(*values: str | None) -> bytes:
    body = struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value.encode()
    return frame(b"D", body)


def complete(tag: str = "SELECT 1") -> bytes:
    return frame(b"C", tag.encode() + b"\0")


def error(sqlstate: str) -> bytes:
    return frame(b"E", b"SERROR\0C" + sqlstate.encode() + b"\0Mno\0\0")


def ready(status: str = "I") -> bytes:
    return frame(b"Z", status.encode())


def answer(*values: str, name: str = "o_outcome", status: str = "I") -> bytes:
    """A result of one column, from BindComplete to ReadyForQuery."""
    return frame(b"2") + columns(name) + b"".join(map(row, values)) + complete(f"SELECT {len(values)}") + ready(status)
