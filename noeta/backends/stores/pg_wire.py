"""Arrays in the wire's binary form: no quoting, so bodies go as they are."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

_TEXT_OID: Final = 25
_BIGINT_OID: Final = 20
_BYTEA_OID: Final = 17
_BOOL_OID: Final = 16


def text_array(values: Sequence[str | None]) -> bytes:
    """A text[]."""
    return _array(_TEXT_OID, [None if value is None else value.encode() for value in values])


def bigint_array(values: Sequence[int | None]) -> bytes:
    """A bigint[]."""
    return _array(_BIGINT_OID, [None if value is None else struct.pack("!q", value) for value in values])


def bool_array(values: Sequence[bool]) -> bytes:
    """A boolean[]."""
    return _array(_BOOL_OID, [b"\x01" if value else b"\x00" for value in values])


def bytea_array(values: Sequence[bytes]) -> bytes:
    """A bytea[]."""
    return _array(_BYTEA_OID, list(values))


def _array(oid: int, items: list[bytes | None] | list[bytes]) -> bytes:
    if not items:
        return struct.pack("!iiI", 0, 0, oid)
    parts = [struct.pack("!iiIii", 1, any(item is None for item in items), oid, len(items), 1)]
    for item in items:
        parts.append(struct.pack("!i", -1) if item is None else struct.pack("!i", len(item)) + item)
    return b"".join(parts)
