"""What one execution came to, and what the laws say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from invariants import HeldInMemory, Report, Verdict, merge
from noeta.chaos.schedule import Schedule
from noeta.chaos.situations import count_points, count_situations


@dataclass(frozen=True, slots=True)
class Result:
    """What one execution was and what the laws say of it.

    ``schedule`` repeats it. ``points``: the yield points of workers, in order. ``struck``: the names of the points
    that were struck. ``situations``: what really happened, by name (`situations.py`). ``workers``, ``activities``:
    how many there were. ``switches``: how often another activity went on than the one before. ``choices``: how often
    more than one was ready. ``seconds`` are virtual. ``ended``: how the scheduler came to its end. ``trace``: the
    lines, if they were kept.
    """

    case: str
    verdict: Verdict
    report: Report
    findings: tuple[str, ...]
    schedule: Schedule
    points: Sequence[str]
    client_points: Sequence[str]
    struck: tuple[str, ...]
    situations: Mapping[str, int]
    workers: int
    activities: int
    switches: int
    choices: int
    seconds: float
    ended: str
    trace_hash: str
    trace: tuple[str, ...]

    @property
    def excused(self) -> int:
        """How many outcomes are not what was foretold, and faults excuse it."""
        return sum(law.counts.get("excused", 0) for law in self.report.laws)

    @property
    def convicted(self) -> frozenset[str]:
        """The keys of what was broken: laws, and findings of the simulator's own."""
        laws = {one.law.key for one in self.report.laws if one.verdict is Verdict.INVALID}
        return frozenset(laws | {finding.partition(":")[0] for finding in self.findings})

    def why(self) -> list[str]:
        """The reasons for a verdict that is not valid, a line each."""
        lines = list(self.findings)
        for law in self.report.laws:
            if law.verdict is Verdict.INVALID or law.doubts or law.crash:
                lines.append(f"{law.law.key}: {law.why()}")
        lines += [f"  {anomaly.law}/{anomaly.code}: {anomaly.text}" for anomaly in self.report.anomalies()]
        return lines


def situations(evidence: HeldInMemory, points: Sequence[str]) -> Counter[str]:
    """What happened in one execution, by name."""
    counts = count_points(Counter(points))
    for task in evidence.tasks():
        counts.update(count_situations(task, evidence.run.faults, evidence.run.kin))
    return counts


def verdict_of(report: Report, findings: Sequence[str]) -> Verdict:
    """The verdict over one small execution. It need not give every law something to see, and an outcome that
    faults excuse is no doubt about it: a whole search is asked for both."""
    if findings:
        return Verdict.INVALID
    verdicts = [Verdict.VALID]
    for law in report.laws:
        excused = law.counts.get("excused", 0) > 0 and law.doubts_total == 1
        if law.verdict is Verdict.INVALID or law.crash or (law.doubts_total and not excused):
            verdicts.append(law.verdict)
    return merge(verdicts)
