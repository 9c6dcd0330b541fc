"""The record of what struck: a line when a fault strikes, and the same line again, complete, once it is over.

Of one strike the last line counts; a strike is named by its instant, kind and process, as ``FaultSeen`` is.
Deaths that nobody planned (a tool that kills its worker, a crash) are recorded too: they excuse what they cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from invariants.evidence import FaultSeen, Held
from noeta.chaos.evidence_dir import LineWriter

SELF_KILLED = "self_kill"
"""Killed by SIGKILL and not by us: a script made a tool or model call kill its worker."""

CRASHED = "crash"
"""Ended by itself in any other way."""


class FaultLine(msgspec.Struct, frozen=True, kw_only=True):
    """One strike at one process (``server`` for the database's). Its fields include those of ``FaultSeen``.

    ``fault``: the id in the schedule, None if nobody planned it. ``effective``: it hurt; None: not known yet.
    ``taken_over``: claims of ``held`` that somebody else was seen to hold later (of a pause: before it ended).
    """

    at: int
    kind: str
    process: str
    ended_at: int | None = None
    workers: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()
    fault: str | None = None
    effective: bool | None = None
    taken_over: tuple[Held, ...] = ()
    point: str | None = None
    facts: Mapping[str, Any] = {}

    def as_seen(self) -> FaultSeen:
        """What the laws read of it."""
        return FaultSeen(self.at, self.kind, self.process, self.ended_at, self.workers, self.held)


class FaultRecord:
    """Writes the lines of one run, and remembers the newest of each strike."""

    def __init__(self, path: Path) -> None:
        self._lines = LineWriter(path)
        self._newest: dict[tuple[int, str, str], FaultLine] = {}

    def write(self, line: FaultLine) -> None:
        """The strike as it stands now; nothing if nothing changed."""
        key = (line.at, line.kind, line.process)
        if self._newest.get(key) != line:
            self._newest[key] = line
            self._lines.add(line)

    @property
    def lines(self) -> tuple[FaultLine, ...]:
        """The newest line of each strike."""
        return tuple(self._newest.values())

    def close(self) -> None:
        """Close the file; what was written stays."""
        self._lines.close()


def read_faults(path: Path) -> tuple[FaultLine, ...]:
    """The newest line of each strike, in the order in which they struck; torn lines are left out."""
    newest: dict[tuple[int, str, str], FaultLine] = {}
    for raw in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            line = msgspec.json.decode(raw, type=FaultLine)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        newest[line.at, line.kind, line.process] = line
    return tuple(newest.values())
