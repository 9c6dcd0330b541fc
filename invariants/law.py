"""What a law is: a key, a sentence, where it comes from, and one pass that can say no.

A checker is called once per task with a ``Tally`` of its own for the whole run. It yields anomalies as it finds
them and tells the tally how much it saw; ``conclude`` runs after the last task, for what only a total shows.
Checkers read evidence and nothing else: no clock, no files, no order of tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
    TaskEvidence,
)
from invariants.wording import describe

DOUBTS_KEPT: Final = 10
"""Reasons for doubt kept per law; the rest is counted."""

WHOLE_RUN: Final = "(the whole run)"
"""Stands where a task's id would, in what is found in no task."""

Fact = LogEntry | Attempt | Sample | FinalRow | JournalLine | JobLine | LockSeen | Sent | FaultSeen | Foretold
"""A piece of evidence that an anomaly can point at."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One place where a law is broken. ``code`` names the way; ``text`` tells it in one sentence; ``witnesses``
    are the pieces of evidence that prove it, in the order in which to read them."""

    law: str
    code: str
    task: str
    text: str
    witnesses: tuple[Fact, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {
            "law": self.law,
            "code": self.code,
            "task": self.task,
            "text": self.text,
            "witnesses": [describe(fact) for fact in self.witnesses],
        }


@dataclass(slots=True)
class Tally:
    """How much a checker saw and what it could not tell, over the whole run."""

    seen: int = 0
    doubts: list[str] = field(default_factory=list)
    doubts_total: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def saw(self, count: int = 1) -> None:
        """So many things that this law speaks of were looked at."""
        self.seen += count

    def doubt(self, reason: str) -> None:
        """Something could not be judged: the law is at most unknown."""
        self.doubts_total += 1
        if len(self.doubts) < DOUBTS_KEPT:
            self.doubts.append(reason)


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly as a checker yields it; the law and the task are added by ``Law.judge``."""

    code: str
    text: str
    witnesses: tuple[Fact, ...] = ()


Checker = Callable[[TaskEvidence, RunFacts, Tally], Iterator[Finding]]
Conclusion = Callable[[RunFacts, Tally], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Law:
    """An invariant with a key.

    Attributes:
        statement: the law in one sentence.
        source: where it comes from.
        codes: every anomaly code it can yield, with what it means.
        reads: which evidence it needs; without it the law is unknown.
        conclude: what it says of the run as a whole, once it has seen every task.
    """

    key: str
    title: str
    statement: str
    source: str
    reads: str
    codes: Mapping[str, str]
    check: Checker
    conclude: Conclusion | None = None

    def judge(self, task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Anomaly]:
        """The anomalies of one task. A code that the law does not declare is a bug of the checker."""
        return self._named(task.task, self.check(task, run, tally))

    def judge_run(self, run: RunFacts, tally: Tally) -> Iterator[Anomaly]:
        """Those of no single task, once all were judged."""
        return iter(()) if self.conclude is None else self._named(WHOLE_RUN, self.conclude(run, tally))

    def _named(self, task: str, findings: Iterator[Finding]) -> Iterator[Anomaly]:
        for found in findings:
            assert found.code in self.codes, f"law {self.key!r} does not declare the code {found.code!r}"
            yield Anomaly(self.key, found.code, task, found.text, found.witnesses)
