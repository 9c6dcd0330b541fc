"""The record of the wire, ``cuts.jsonl``: a line for each commit whose connection was cut, with what became of it.

Written by the proxy, before its client sees that anything is wrong. What became of a commit is read off the server's
own answer, never off what was meant to happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from noeta.chaos.proxy.answer import Outcome
from noeta.chaos.schedule import Kind


class CutLine(msgspec.Struct, frozen=True, kw_only=True):
    """One commit. ``at``: when its statement came to the proxy, ``ended_at``: when its client was cut off; in
    microseconds since the epoch.

    ``is_cut`` False: its client was gone by then, and nobody was cut off. ``why``: what was seen of the server's
    answer. ``sqlstate``: of the error in it.
    """

    fault: str
    kind: Kind
    at: int
    ended_at: int
    process: str
    verb: str
    outcome: Outcome
    why: str
    is_cut: bool = True
    sqlstate: str | None = None
    facts: Mapping[str, str] = {}


def read_cuts(path: Path) -> tuple[CutLine, ...]:
    """The lines of a run, in order; torn ones are left out. None, if the run had no wire."""
    found = []
    for raw in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            found.append(msgspec.json.decode(raw, type=CutLine))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return tuple(found)


def sum_of(lines: Iterable[CutLine]) -> dict[str, int]:
    """How many commits were cut, by what became of them."""
    return dict(sorted(Counter(str(line.outcome) for line in lines if line.is_cut).items()))
