"""A clock that is ordered off counts as off once the worker's own record shows it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from invariants.evidence import Attempt, Verb
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.process_faults import Skewed, clock_off
from noeta.chaos.nemesis.record import FaultLine, FaultRecord
from noeta.chaos.schedule import After, Fault, Kind
from noeta.core.ids import micros


class Ground:
    """As much of an arena as a skew stands on."""

    def __init__(self, tmp_path: Path) -> None:
        self.record = FaultRecord(tmp_path / "faults.jsonl")
        self.path = tmp_path / "attempts.jsonl"
        self.told: list[float] = []
        self.cluster = SimpleNamespace(workers={"w1": None})

    def skew(self, name: str, seconds: float) -> None:
        self.told.append(seconds)

    def attempts(self, worker: object) -> Path:
        return self.path

    def wall(self) -> int:
        return micros(time.time())

    def line(self, kind: str, worker: object, **more: Any) -> FaultLine:
        return FaultLine(at=self.wall(), kind=kind, process="w1#1", **more)

    def writes(self, off_seconds: float) -> None:
        """The worker asks something of its store."""
        lines = LineWriter(self.path)
        lines.add(Attempt("1", "w1#1", "w1-1", Verb.RENEW, "t", micros(time.time() + off_seconds)))
        lines.close()


@pytest.mark.parametrize(
    ("off", "lines", "effective"), [(2.0, 2, True), (2.0, 1, False), (0.0, 2, False), (-2.0, 2, False)]
)
def test_a_skew_is_effective_only_where_the_record_shows_it(
    tmp_path: Path, off: float, lines: int, effective: bool
) -> None:
    ground = Ground(tmp_path)
    skewed = Skewed(cast("Arena", ground), Fault("s", Kind.SKEW, "w1", After(0.0), {"seconds": 2.0}))
    for now in range(1, lines + 1):
        ground.writes(off)
        skewed.tick(float(now))
        time.sleep(0.02)  # the file system's clock goes in ticks
    (before,) = ground.record.lines
    skewed.heal(9.0)
    (after,) = ground.record.lines

    assert before.effective is (True if effective else None)
    assert after.effective is effective
    assert ground.told == [2.0, 0.0]
    assert skewed.tick(10.0)


def test_a_record_that_is_not_there_or_torn_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    assert clock_off(path) is None
    path.write_bytes(b"")
    assert clock_off(path) is None
    path.write_bytes(b'{"id":"1","proc')
    assert clock_off(path) is None
