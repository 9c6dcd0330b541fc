"""What background shells of a storm wrote, as the laws read it.

Each scripted shell, and what descends from it, appends its lines to a file of its worker's in ``journal/``
(`scripted_model.jobs`), dated by this machine's clock just before they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from invariants.evidence import JobLine
from noeta.core.ids import micros
from scripted_model import journal

_lines: Final = msgspec.json.Decoder(journal.JobLine)


def first_and_last(lines: Iterable[bytes], error: int) -> Iterator[JobLine]:
    """Of each job of one task, its oldest line and its newest; the laws ask for no other. ``error``: how far the
    store's clock may be from the one that dated them, in microseconds."""
    ends: dict[str, tuple[journal.JobLine, journal.JobLine]] = {}
    for line in map(_lines.decode, lines):
        oldest, newest = ends.get(line.job, (line, line))
        ends[line.job] = min(oldest, line, key=_when), max(newest, line, key=_when)
    for job, found in ends.items():
        for one in found if found[0] is not found[1] else found[:1]:
            yield JobLine(one.task, job, micros(one.time), error, one.pid)


def _when(line: journal.JobLine) -> float:
    return line.time
