"""The record of a sweep: what is finished, on disk at once, so that a killed sweep goes on where it was.

A header, a line for each finished chunk in the order they finished, and a last line once all are there. One write a
line; a line that was torn by a kill is passed over, and its chunk runs again. A record of other code, other options
or another Python is no part of this sweep, and one that is complete has nothing left to do: both start over.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from invariants import Verdict
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.sim.sweep_plan import Header
from noeta.chaos.sim.sweep_unit import Chunk
from noeta.core.errors import BadInput


class Complete(msgspec.Struct, frozen=True, tag="complete"):
    """The last line of a sweep that came to its end."""

    verdict: Verdict
    exit_code: int
    trace_hash: str


Line = Header | Chunk | Complete

_decoder: Final = msgspec.json.Decoder(Line)


class Record:
    """The record of one sweep, held by one process at a time.

    ``began``: how this process found it, in words.

    Raises:
        BadInput: another process holds it.
    """

    def __init__(self, path: Path, header: Header, *, fresh: bool = False) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise BadInput("sweep", f"expected nobody at {path}, found another process running this sweep") from None
        over = "as asked" if fresh else self._why_over(header)
        self.began = "new"
        if over is None:
            self.began = "resumed"
        elif os.fstat(self._lock).st_size:
            self.began = f"started over: {over}"
            os.ftruncate(self._lock, 0)
        self._writer = LineWriter(path)
        if over is not None:
            self._writer.add(header)

    def chunks(self) -> Iterator[Chunk]:
        """Those that are finished, one at a time."""
        return (line for line in _lines(self.path) if isinstance(line, Chunk))

    def add(self, line: Chunk | Complete) -> None:
        """Write it, before anything else happens."""
        self._writer.add(line)

    def close(self) -> None:
        """Let others have it."""
        self._writer.close()
        os.close(self._lock)

    def _why_over(self, header: Header) -> str | None:
        """Why what is there cannot be gone on with; None: it can."""
        lines = _lines(self.path)
        found = next(lines, None)
        if not isinstance(found, Header):
            return "the record has no header"
        if differs := found.differs(header):
            return f"the record is of other {', '.join(differs)}"
        if any(isinstance(line, Complete) for line in lines):
            return "the record is complete"
        return None


def _lines(path: Path) -> Iterator[Line]:
    """Every whole line."""
    with path.open("rb") as file:
        for raw in file:
            try:
                yield _decoder.decode(raw)
            except msgspec.DecodeError:
                continue  # torn by a kill: what it said is done again
