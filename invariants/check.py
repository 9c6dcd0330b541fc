"""Judges a run: every law over every task, in one pass over the evidence.

A checker that crashes makes its law unknown with the traceback, never valid, and stops no other law. So does a
reader that crashes half way: what was found until then stays found. Anomalies are counted without limit and kept
up to a number, so that a store that breaks everything does not fill the memory of the one who judges it.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from invariants.catalogue import LAWS
from invariants.evidence import Evidence, RunFacts, TaskEvidence
from invariants.law import Anomaly, Law, Tally
from invariants.verdict import Verdict, decide, merge

ANOMALIES_KEPT: Final = 20
"""Anomalies kept per law; the first ones tell the story."""

CRASH_LINES_KEPT: Final = 40
"""Lines of a crashed checker's traceback kept, from its end."""


@dataclass(frozen=True, slots=True)
class LawReport:
    """What one law says of a run. ``codes``: how often each anomaly was found, those not kept included."""

    law: Law
    verdict: Verdict
    seen: int
    anomalies: tuple[Anomaly, ...]
    anomalies_total: int
    codes: dict[str, int]
    doubts: tuple[str, ...]
    doubts_total: int
    counts: dict[str, int]
    crashes_total: int
    crash: str | None

    def why(self) -> str:
        """The reason for the verdict, in one line."""
        if self.anomalies_total:
            found = ", ".join(f"{code} {count}" for code, count in sorted(self.codes.items()))
            return f"{self.anomalies_total} anomalies: {found}"
        if self.crash is not None:
            return f"the checker crashed: {self.crash.strip().splitlines()[-1]}"
        if self.doubts:
            return self.doubts[0]
        return f"saw {self.seen}" if self.seen else f"saw nothing (reads {self.law.reads})"

    def as_dict(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {
            "law": self.law.key,
            "verdict": self.verdict.value,
            "seen": self.seen,
            "anomalies_total": self.anomalies_total,
            "codes": dict(sorted(self.codes.items())),
            "anomalies": [anomaly.as_dict() for anomaly in self.anomalies],
            "doubts_total": self.doubts_total,
            "doubts": list(self.doubts),
            "counts": dict(sorted(self.counts.items())),
            "crashes_total": self.crashes_total,
            "crash": self.crash,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What all laws say of a run."""

    verdict: Verdict
    tasks: int
    laws: tuple[LawReport, ...]

    def __getitem__(self, key: str) -> LawReport:
        """The report of one law."""
        for one in self.laws:
            if one.law.key == key:
                return one
        raise KeyError(key)

    def anomalies(self) -> Iterator[Anomaly]:
        """Those kept, law by law."""
        for one in self.laws:
            yield from one.anomalies

    def as_dict(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {
            "verdict": self.verdict.value,
            "tasks": self.tasks,
            "laws": [one.as_dict() for one in self.laws],
        }


@dataclass(slots=True)
class _Judge:
    """One law at work."""

    law: Law
    kept_max: int
    tally: Tally = field(default_factory=Tally)
    kept: list[Anomaly] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    crash: str | None = None

    def see(self, task: TaskEvidence, run: RunFacts) -> None:
        self.guard(lambda: self._keep(self.law.judge(task, run, self.tally)))

    def conclude(self, run: RunFacts) -> None:
        self.guard(lambda: self._keep(self.law.judge_run(run, self.tally)))

    def guard(self, step: Callable[[], None]) -> None:
        """Run a step; a crash is recorded and makes the law unknown."""
        try:
            step()
        except Exception as error:  # the boundary of a checker: what it dies of is its verdict
            self.crashed(error)

    def crashed(self, error: Exception) -> None:
        self.crashes += 1
        if self.crash is None:
            lines = "".join(traceback.format_exception(error)).splitlines()
            self.crash = "\n".join(lines[-CRASH_LINES_KEPT:])

    def _keep(self, found: Iterator[Anomaly]) -> None:
        for anomaly in found:
            self.codes[anomaly.code] += 1
            if len(self.kept) < self.kept_max:
                self.kept.append(anomaly)

    def report(self) -> LawReport:
        total = self.codes.total()
        tally = self.tally
        return LawReport(
            self.law,
            decide(anomalies=total, seen=tally.seen, doubts=tally.doubts_total, crashes=self.crashes),
            tally.seen,
            tuple(self.kept),
            total,
            dict(self.codes),
            tuple(tally.doubts),
            tally.doubts_total,
            dict(tally.counts),
            self.crashes,
            self.crash,
        )


def check_all(evidence: Evidence, laws: Sequence[Law] | None = None, *, anomalies_kept: int = ANOMALIES_KEPT) -> Report:
    """Judge a run by these laws (all, if none are named).

    Args:
        anomalies_kept: how many anomalies each law keeps; all are counted.
    """
    judges = [_Judge(law, anomalies_kept) for law in (LAWS if laws is None else laws)]
    run = evidence.run
    tasks = 0
    try:
        for task in evidence.tasks():
            tasks += 1
            for judge in judges:
                judge.see(task, run)
    except Exception as error:  # the boundary of a reader: no law has seen everything then
        for judge in judges:
            judge.crashed(error)
    for judge in judges:
        judge.conclude(run)
    reports = tuple(judge.report() for judge in judges)
    return Report(merge(one.verdict for one in reports), tasks, reports)
