"""A run: a storm and its judgement.

Evidence is on disk as it happens, so that whatever ends the storm (`storm.py`), what was seen until then can be
judged (`verdicts.py`). Everything that was started is ended before the check begins: a crash of a checker leaves no
process behind.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from noeta.chaos.asked import Asked
from noeta.chaos.evidence_dir import RunDir, create_run_dir
from noeta.chaos.interrupt import Interrupts
from noeta.chaos.progress import Progress
from noeta.chaos.report import anomalies, last_lines, summary, write_report
from noeta.chaos.sites import Site
from noeta.chaos.storm import Storm
from noeta.chaos.verdicts import HARNESS_ERROR, INTERRUPTED, Judgement, judge


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. ``judgement`` is None if it did not come to one."""

    exit_code: int
    run_dir: RunDir
    judgement: Judgement | None


def run_storm(asked: Asked, site: Site, progress: Progress) -> Ended:
    """Run, judge and report. The exit code is the verdict's; 3: the harness failed; 130: interrupted twice.

    Raises:
        BadInput: before anything was done.
    """
    asked.config(Path())  # refuses what is out of bounds
    run_dir = create_run_dir(asked.runs_dir, str(asked.seed))
    with Interrupts(progress.line) as interrupts:
        storm = Storm(asked, site, run_dir, progress, interrupts)
        try:
            storm.run()
        except KeyboardInterrupt:
            run_dir.update_run(interrupted="twice", phases=storm.phases)
            progress.line("interrupted twice: everything was killed; verdict unknown")
            return Ended(INTERRUPTED, run_dir, None)
        except Exception as error:  # the boundary of the harness: its failure is a result of its own
            what = f"{type(error).__name__}: {error}".strip()
            run_dir.update_run(error=what, traceback=traceback.format_exc(), phases=storm.phases)
            progress.line(f"harness error: {what}")
        return _report(run_dir, progress)


def _report(run_dir: RunDir, progress: Progress) -> Ended:
    """Check what is on disk, write the report, say the verdict."""
    progress.now("checking")
    began = time.monotonic()
    judgement = judge(run_dir)
    phases = {**(judgement.run.get("phases") or {}), "check": round(time.monotonic() - began, 3)}
    failed = judgement.run.get("error") is not None
    # An anomaly outranks a failure of the harness: it was found in spite of it.
    code = judgement.exit_code if judgement.exit_code == 1 or not failed else HARNESS_ERROR
    run_dir.update_run(
        verdict=judgement.verdict.value, exit_code=code, phases=phases, ended_at=datetime.now(UTC).isoformat()
    )
    judgement.run["phases"] = phases  # type: ignore[index]
    write_report(run_dir, judgement)
    progress.close()
    for line in (*summary(judgement), *anomalies(judgement), *last_lines(judgement, str(run_dir.root))):
        progress.line(line)
    return Ended(code, run_dir, judgement)
