"""The pytest fixture ``crash``: an agent at every crash point, and kept schedules again.

Loaded by every pytest that finds noeta installed, so it imports nothing before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from noeta.testing.crash import CrashApp, CrashReport

REGRESSIONS_OPTION: Final = "noeta_regressions"
REGRESSIONS_DIRECTORY: Final = "tests/regressions"


@dataclass(frozen=True, slots=True)
class Crash:
    """What the fixture gives. ``directory``: where failing schedules are kept; ``root``: what paths are told from."""

    directory: Path
    root: Path

    def everywhere(
        self,
        make: str | Callable[[], CrashApp],
        *,
        modes: Sequence[str] | None = None,
        depth: int = 1,
        jobs: int = 1,
        directory: str | Path | None = None,
    ) -> CrashReport:
        """``noeta.testing.crash.crash_everywhere``; fails the test unless it is valid: with a story of the first
        failure, whose schedule is written below ``directory`` (default: the ini option ``noeta_regressions``)."""
        from noeta.testing.crash import crash_everywhere, keep

        report = crash_everywhere(make, modes=modes, depth=depth, jobs=jobs)
        if report.failures:
            first = report.failures[0]
            file = keep(first, self.directory if directory is None else self.root / directory)
            story = first.lines(file.relative_to(self.root) if file.is_relative_to(self.root) else file)
            pytest.fail("\n".join([f"{report.lines()[-1]}; the first:", *story]), pytrace=False)
        if report.verdict != "valid":
            pytest.fail("\n".join(report.lines()), pytrace=False)
        return report

    def replay(self, schedule: str | Path) -> None:
        """Play a kept schedule, given as a path or as JSON; fails the test unless it is survived now."""
        from noeta.testing.crash import replay_schedule

        is_json = isinstance(schedule, str) and schedule.lstrip().startswith("{")
        text = str(schedule) if is_json else (self.root / schedule).read_text()
        played = replay_schedule(text)
        if played.verdict != "valid":
            what = "the schedule" if is_json else f"{schedule}"
            pytest.fail("\n".join([f"{played.verdict}: {what}", *(f"  {line}" for line in played.why)]), pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        REGRESSIONS_OPTION,
        f"where the fixture crash keeps failing schedules (default: {REGRESSIONS_DIRECTORY})",
        default=REGRESSIONS_DIRECTORY,
    )


@pytest.fixture
def crash(pytestconfig: pytest.Config) -> Crash:
    """Crash tests of an agent: ``crash.everywhere(make)`` and ``crash.replay(path)``. Needs ``noeta[chaos]``."""
    return Crash(pytestconfig.rootpath / pytestconfig.getini(REGRESSIONS_OPTION), pytestconfig.rootpath)
