"""Bytes of a Postgres connection, cut into the frames of protocol version 3. Pure: bytes in, frames out.

A client begins with packets that have no type: requests for encryption, one to cancel another session's statement, and
the start-up packet. From there on a frame is a type byte, a length that counts itself, and a body. A server speaks in
typed frames only (its single byte about encryption is never asked for here: the proxy answers such a request itself).

Source: PostgreSQL documentation, "Frontend/Backend Protocol", "Message Flow" and "Message Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

START_BYTES_MAX: Final = 10_000
"""The server's own bound for a packet without a type (``MAX_STARTUP_PACKET_LENGTH``)."""

FRAME_BYTES_MAX: Final = 0x3FFFFFFF
"""The server's own bound for any message (``PQ_LARGE_MESSAGE_LIMIT``)."""

PROTOCOL_MAJOR: Final = 3
CANCEL_CODE, SSL_CODE, GSSENC_CODE = 80877102, 80877103, 80877104

_LENGTH: Final = struct.Struct("!i")
_START: Final = struct.Struct("!ii")


class ProtocolError(ValueError):
    """These bytes are not protocol version 3: TLS from the first byte on, or another protocol altogether."""


class Start(Enum):
    """What a packet without a type asks for."""

    SESSION = "session"
    CANCEL = "cancel"
    ENCRYPTION = "encryption"


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame. ``raw`` is every byte of it, as it came; ``kind`` its type, empty for a packet without one."""

    kind: bytes
    raw: bytes
    start: Start | None = None

    @property
    def body(self) -> memoryview:
        """What follows type and length (and the code of a packet without a type)."""
        return memoryview(self.raw)[5 if self.kind else 8 :]


class FrameReader:
    """The frames of one direction of one connection. ``client``: this direction begins with packets without a type."""

    def __init__(self, *, client: bool) -> None:
        self._buffer = bytearray()
        self._starting = client
        self._raw = False

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now, in order.

        Raises:
            ProtocolError: and of this direction nothing can be read any more.
        """
        self._buffer += data
        found: list[Frame] = []
        while (frame := self._next()) is not None:
            found.append(frame)
        return found

    @property
    def rest(self) -> bytes:
        """What has come of a frame that is not whole."""
        return bytes(self._buffer)

    def _next(self) -> Frame | None:
        if self._raw:
            return self._take(b"", len(self._buffer)) if self._buffer else None
        return self._next_start() if self._starting else self._next_typed()

    def _next_typed(self) -> Frame | None:
        if len(self._buffer) < 5:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, 1)
        if not 4 <= length <= FRAME_BYTES_MAX:
            raise ProtocolError(f"a frame of type {bytes(self._buffer[:1])!r} and length {length}")
        return self._take(bytes(self._buffer[:1]), length + 1)

    def _next_start(self) -> Frame | None:
        if len(self._buffer) < 8:
            return None
        length, code = _START.unpack_from(self._buffer)
        if not 8 <= length <= START_BYTES_MAX:
            raise ProtocolError(f"a first packet of length {length}")
        match code:
            case 80877102:
                start = Start.CANCEL
            case 80877103 | 80877104:
                start = Start.ENCRYPTION
            case _ if code >> 16 == PROTOCOL_MAJOR:
                start = Start.SESSION
            case _:
                raise ProtocolError(f"protocol {code >> 16}.{code & 0xFFFF}")
        frame = self._take(b"", length, start)
        if frame is not None:
            self._starting = start is Start.ENCRYPTION
            self._raw = start is Start.CANCEL
        return frame

    def _take(self, kind: bytes, size: int, start: Start | None = None) -> Frame | None:
        if len(self._buffer) < size:
            return None
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        return Frame(kind, raw, start)
