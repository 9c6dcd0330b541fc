"""Every schedule that broke a promise once is survived now. See README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariants import Verdict
from noeta.testing.crash import replay_schedule

SCHEDULES = sorted(Path(__file__).parent.glob("*.json"))
assert SCHEDULES, "there are no schedules: an empty corpus would look like a kept one"


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda path: path.stem)
def test_an_old_failure_is_survived(schedule: Path) -> None:
    played = replay_schedule(schedule.read_text())

    assert played.verdict is Verdict.VALID, "\n".join(played.why)
