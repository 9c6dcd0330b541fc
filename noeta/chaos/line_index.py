"""Finds the lines of a task in files of lines, keeping only where they stand: memory for one task at a time.

A line that is not whole JSON, or names no task, is torn: counted, and passed over. A killed process leaves such a
line at the end of its file, and one in the middle where its successor went on writing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec


class _Named(msgspec.Struct):
    """Just enough of a line to know whose it is."""

    task: str


_decoder: msgspec.json.Decoder[_Named] = msgspec.json.Decoder(_Named)


class LineIndex:
    """The lines of some files, by task, in the order of the files and of the lines in them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.lines = 0
        self.torn = 0
        self._paths = [path for path in paths if path.is_file()]
        self._places: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for number, path in enumerate(self._paths):
            self._index(number, path)

    def tasks(self) -> Iterable[str]:
        """Every task that some line names."""
        return self._places.keys()

    def of(self, task: str) -> Iterator[bytes]:
        """The lines of one task."""
        handle = None
        opened = -1
        try:
            for number, offset, length in self._places.get(task, ()):
                if number != opened:
                    if handle is not None:
                        handle.close()
                    handle, opened = self._paths[number].open("rb"), number
                assert handle is not None
                handle.seek(offset)
                yield handle.read(length)
        finally:
            if handle is not None:
                handle.close()

    def _index(self, number: int, path: Path) -> None:
        offset = 0
        with path.open("rb") as lines:
            for raw in lines:
                line = raw.rstrip(b"\n")
                if line:
                    try:
                        task = _decoder.decode(line).task
                    except (msgspec.DecodeError, UnicodeDecodeError):
                        self.torn += 1
                    else:
                        self.lines += 1
                        self._places[task].append((number, offset, len(line)))
                offset += len(raw)
