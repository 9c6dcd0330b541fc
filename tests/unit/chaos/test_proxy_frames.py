"""Bytes become the same frames wherever they are torn apart, and what is no frame is refused."""

from __future__ import annotations

import pytest

from noeta.chaos.proxy.frames import (
    CANCEL_CODE,
    FRAME_BYTES_MAX,
    GSSENC_CODE,
    SSL_CODE,
    FrameReader,
    ProtocolError,
    Start,
)
from noeta.chaos.proxy.messages import bind, error, parameters, parse
from tests.unit.chaos import wire_bytes as wire

CLIENT = [
    wire.code(GSSENC_CODE),
    wire.code(SSL_CODE),
    wire.start(),
    wire.parse("append", wire.APPEND),
    wire.SYNC,
    wire.bind("append", b"t1", None, b"\0\xff"),
    wire.DESCRIBE,
    wire.EXECUTE,
    wire.SYNC,
    wire.query("COMMIT"),
    wire.frame(b"X"),
]
SERVER = [wire.frame(b"R", b"\0\0\0\0"), wire.ready(), wire.columns("a", "b"), wire.row("x", None), wire.ready("T")]


@pytest.mark.parametrize("raw", [CLIENT, SERVER])
def test_frames_are_the_same_wherever_the_stream_is_split(raw: list[bytes]) -> None:
    stream = b"".join(raw)
    for place in range(len(stream) + 1):
        reader = FrameReader(client=raw is CLIENT)
        found = [*reader.feed(stream[:place]), *reader.feed(stream[place:])]

        assert [frame.raw for frame in found] == raw, place
        assert reader.rest == b""


@pytest.mark.parametrize("raw", [CLIENT, SERVER])
def test_frames_come_one_byte_at_a_time_and_never_too_soon(raw: list[bytes]) -> None:
    reader = FrameReader(client=raw is CLIENT)
    for one in raw:
        for byte in one[:-1]:
            assert reader.feed(bytes([byte])) == []
        assert reader.rest == one[:-1]
        assert [frame.raw for frame in reader.feed(one[-1:])] == [one]


def test_what_comes_before_a_session_is_told_apart() -> None:
    found = FrameReader(client=True).feed(b"".join(CLIENT))

    assert [frame.start for frame in found[:3]] == [Start.ENCRYPTION, Start.ENCRYPTION, Start.SESSION]
    assert all(frame.start is None for frame in found[3:])
    assert [frame.kind for frame in found] == [b"", b"", b"", *(one[:1] for one in CLIENT[3:])]
    assert parameters(found[2]) == {"user": "u", "application_name": "noeta w1#1"}


def test_a_request_to_cancel_ends_what_can_be_read_as_frames() -> None:
    reader = FrameReader(client=True)
    (first,) = reader.feed(wire.code(CANCEL_CODE, b"12345678"))

    assert first.start is Start.CANCEL
    assert [frame.raw for frame in reader.feed(b"whatever")] == [b"whatever"]


@pytest.mark.parametrize(
    "first",
    [
        bytes.fromhex("1603010200010001"),  # TLS without asking
        wire.code(2 << 16),
        b"\0\0\0\x07\0\0\0\0",
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_another_protocol_is_refused(first: bytes) -> None:
    with pytest.raises(ProtocolError):
        FrameReader(client=True).feed(first)


@pytest.mark.parametrize("length", [3, -1, FRAME_BYTES_MAX + 1])
def test_a_length_that_no_frame_has_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        FrameReader(client=False).feed(b"D" + length.to_bytes(4, "big", signed=True))


def test_bodies_are_read_as_they_were_written() -> None:
    reader = FrameReader(client=False)
    (prepared,) = reader.feed(wire.parse("append", wire.APPEND))
    (opened,) = reader.feed(wire.bind("append", b"t1", b"2", portal="p"))
    (binary,) = reader.feed(wire.bind("append", b"t1", formats=(1,)))
    (null,) = reader.feed(wire.bind("append", None, b"t1"))
    (failed,) = reader.feed(wire.error("40001"))

    assert parse(prepared) == (b"append", wire.APPEND)
    assert (bind(opened).portal, bind(opened).statement, bind(opened).first) == (b"p", b"append", "t1")
    assert bind(binary).first is None and bind(null).first is None
    assert error(failed)["C"] == "40001"


@pytest.mark.parametrize("size", range(len(wire.bind("append", b"t1")) - 6))
def test_a_body_that_ends_too_soon_is_refused(size: int) -> None:
    (cut,) = FrameReader(client=False).feed(wire.frame(b"B", wire.bind("append", b"t1")[5 : 5 + size]))
    if size >= len(wire.bind("append", b"t1")) - 5 - 2:
        assert bind(cut).first == "t1"  # only the formats of its result are missing, which nobody reads
    else:
        with pytest.raises(ProtocolError):
            bind(cut)
