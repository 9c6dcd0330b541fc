"""The newest bytes that a job wrote, in memory that its supervisor and the worker share.

A ring: the supervisor reads the job's pipe right into it, so that a job is never blocked for want of a reader, and
fills neither disk nor memory. The worker reads it at any time, and the two never wait for each other: the writer says
first how far it may reach, then writes, then says how far it came; the reader drops what may have been written over
while it copied. Standard library only.
"""

from __future__ import annotations

import codecs
import mmap
import os
from typing import Final, NamedTuple

CHUNK_BYTES: Final = 64 * 1024
"""Read from the job at once: what a pipe holds. The ring has this much more room than is kept."""

_HEAD_BYTES: Final = 16  # two aligned 64-bit numbers: how far the writer may reach, how far it came
_LOOKS_MAX: Final = 100


class Read(NamedTuple):
    """Bytes from ``start`` to ``total``, which is all that was written so far."""

    data: bytes
    start: int
    total: int


NOTHING: Final = Read(b"", 0, 0)


def make_ring(kept_bytes: int) -> int:
    """A descriptor of an empty ring that keeps so many bytes, in memory and without a name."""
    descriptor = os.memfd_create("noeta-job-output")
    try:
        os.ftruncate(descriptor, _HEAD_BYTES + kept_bytes + CHUNK_BYTES)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class RingWriter:
    """The supervisor's side."""

    def __init__(self, descriptor: int) -> None:
        view = memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))
        self._head = view[:_HEAD_BYTES].cast("Q")
        self._data = view[_HEAD_BYTES:]
        self._total = 0

    def take(self, source: int) -> int:
        """Read once from this descriptor, as much as is there and fits; 0 at its end.

        Raises:
            BlockingIOError: there is nothing, and the descriptor does not block.
        """
        at = self._total % len(self._data)
        room = min(CHUNK_BYTES, len(self._data) - at)
        self._head[0] = self._total + room
        count = os.readv(source, [self._data[at : at + room]])
        self._total += count
        self._head[1] = self._total
        return count


class RingReader:
    """The worker's side."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        view = memoryview(self._map)
        self._head = view[:_HEAD_BYTES].cast("Q")
        self._data = view[_HEAD_BYTES:]
        self._kept = len(self._data) - CHUNK_BYTES

    def read(self, after: int = 0) -> Read:
        """The newest that is kept, from byte ``after`` on."""
        for _ in range(_LOOKS_MAX):
            total = self._head[1]
            start = min(max(total - self._kept, after), total)
            data = self._copy(start, total)
            whole_from = self._head[0] - len(self._data)
            if whole_from <= start:
                return Read(data, start, total)
            if whole_from < total:
                return Read(data[whole_from - start :], whole_from, total)
        return Read(b"", total, total)  # it writes faster than we copy

    def _copy(self, start: int, total: int) -> bytes:
        size = len(self._data)
        low, high = start % size, total % size
        if start == total:
            return b""
        if low < high:
            return bytes(self._data[low:high])
        return bytes(self._data[low:]) + bytes(self._data[:high])


def as_text(read: Read) -> tuple[str, int]:
    """The bytes as text, and from which byte on: what cannot be decoded is replaced; of a character that was cut at the
    start the rest is dropped."""
    cut = _cut_short(read)
    return read.data[cut:].decode("utf-8", "replace"), read.start + cut


def newest(read: Read, chars: int) -> tuple[str, int]:
    """``as_text``, of the newest bytes that are no more than so many characters; a byte that is none counts as one."""
    data = read.data.decode("utf-8", "surrogateescape")[-chars:].encode("utf-8", "surrogateescape")
    return as_text(Read(data, read.total - len(data), read.total))


def page(read: Read, after: int, most: int | None, *, is_over: bool) -> tuple[str, int, int]:
    """The oldest ``most`` bytes (None: all) from byte ``after`` on as text, from which byte on, and up to which.

    A character that is cut at the end is left to the next page, unless that is the end of all (``is_over``). So pages
    that begin where another came to miss no byte and repeat none: what cannot be decoded is replaced, and at the start
    nothing is dropped, unless what stood before it is no longer kept.
    """
    start = min(max(after, read.start), read.total)
    data = read.data[start - read.start :]
    if start > after:
        cut = _cut_short(Read(data, start, read.total))
        data, start = data[cut:], start + cut
    some = data if most is None else data[:most]
    text, length = codecs.utf_8_decode(some, "replace", is_over and len(some) == len(data))
    return text, start, start + length


def _cut_short(read: Read) -> int:
    """How many bytes at the start are the rest of a character."""
    cut = 0
    while read.start > 0 and cut < min(3, len(read.data)) and read.data[cut] & 0xC0 == 0x80:
        cut += 1
    return cut
