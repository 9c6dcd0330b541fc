"""Tells what is wrong so that a reader who was not there believes it: at most fifteen lines an anomaly.

After Elle: name the law and the promise, tell the contradiction in one sentence, show the evidence it rests on,
and which faults were around when it happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from invariants.catalogue import LAWS_BY_KEY
from invariants.check import LawReport, Report
from invariants.evidence import (
    Attempt,
    FaultSeen,
    FinalRow,
    Foretold,
    JobLine,
    JournalLine,
    LockSeen,
    LogEntry,
    RunFacts,
    Sample,
    Sent,
)
from invariants.law import WHOLE_RUN, Anomaly, Fact
from invariants.verdict import Verdict
from invariants.wording import describe
from noeta.core.ids import MICROS_PER_SECOND

LINES_MAX: Final = 15
"""Lines of one explanation."""

_WITNESSES_MAX: Final = 5
_FAULTS_MAX: Final = 4
_AROUND: Final = 10 * MICROS_PER_SECOND
"""How long before a witness a fault still counts as around it."""

_LINE_CHARS_MAX: Final = 400


def explain(anomaly: Anomaly, run: RunFacts | None = None) -> str:
    """One anomaly, told. With the facts of the run it names the faults around it."""
    law = LAWS_BY_KEY.get(anomaly.law)
    where = "" if anomaly.task == WHOLE_RUN else f" in task {anomaly.task}"
    lines = [f"{anomaly.law} is broken: {anomaly.code}{where}"]
    if law is not None:
        lines.append(f"promise: {law.statement}")
        lines.append(f"broken here: {law.codes[anomaly.code]}")
    lines.append(f"what happened: {anomaly.text}")
    lines += _listed("because", [describe(fact) for fact in anomaly.witnesses], _WITNESSES_MAX)
    if run is not None:
        faults = [describe(fault) for fault in faults_around(anomaly, run)]
        none = [] if anomaly.task == WHOLE_RUN else ["faults around it: none that touched this task"]
        lines += _listed("faults around it", faults, _FAULTS_MAX) or none
    assert len(lines) <= LINES_MAX
    return "\n".join(_cut(line) for line in lines)


def explain_report(report: Report, run: RunFacts | None = None, *, anomalies_max: int = 5) -> str:
    """The whole verdict: a line a law, then the first anomalies of each broken law, then what crashed."""
    lines = [f"verdict: {report.verdict.value} over {report.tasks} tasks"]
    width = max((len(one.law.key) for one in report.laws), default=0)
    lines += [f"  {one.law.key:<{width}}  {one.verdict.value:<7}  {_cut(one.why())}" for one in report.laws]
    for one in report.laws:
        lines += _details(one, run, anomalies_max)
    return "\n".join(lines) + "\n"


def faults_around(anomaly: Anomaly, run: RunFacts) -> Sequence[FaultSeen]:
    """Faults that hit a holder of the task, the nearest to what happened first; those of the witnesses left out."""
    instants = [at for fact in anomaly.witnesses if (at := _instant(fact)) is not None]
    if not instants:
        return ()
    first, last = min(instants), max(instants)
    shown = {id(fact) for fact in anomaly.witnesses}
    near = []
    for fault in run.faults:
        until = fault.at if fault.ended_at is None else fault.ended_at
        touches = any(held.task == anomaly.task for held in fault.held)
        if touches and id(fault) not in shown and fault.at <= last and until >= first - _AROUND:
            near.append(fault)
    return sorted(near, key=lambda fault: last - fault.at)


def _instant(fact: Fact) -> int | None:
    match fact:
        case LogEntry() | Sample() | FinalRow() | JournalLine() | JobLine() | LockSeen() | Sent() | FaultSeen():
            return fact.at
        case Attempt():
            return fact.sent_at
        case Foretold():
            return None


def _listed(title: str, lines: Sequence[str], lines_max: int) -> list[str]:
    if not lines:
        return []
    shown = [f"  - {line}" for line in lines[:lines_max]]
    more = len(lines) - lines_max
    return [f"{title}:" if more <= 0 else f"{title} (the first {lines_max} of {len(lines)}):", *shown]


def _details(one: LawReport, run: RunFacts | None, anomalies_max: int) -> Iterator[str]:
    for anomaly in one.anomalies[:anomalies_max]:
        yield ""
        yield explain(anomaly, run)
    hidden = one.anomalies_total - min(len(one.anomalies), anomalies_max)
    if one.anomalies and hidden:
        yield f"… and {hidden} more anomalies of {one.law.key}"
    if one.verdict is Verdict.UNKNOWN or one.crash is not None:
        for doubt in one.doubts[:anomalies_max]:
            yield f"{one.law.key} cannot tell: {_cut(doubt)}"
    if one.crash is not None:
        yield f"\nthe checker of {one.law.key} crashed {one.crashes_total} times, first so:\n{one.crash}"


def _cut(line: str) -> str:
    flat = " ".join(line.split("\n"))
    return flat if len(flat) <= _LINE_CHARS_MAX else f"{flat[: _LINE_CHARS_MAX - 1]}…"
