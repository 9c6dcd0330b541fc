"""Evidence that is in memory as a whole: of the simulator, of a small run, of tests.

A reader of run directories need not use it: it can hand out ``TaskEvidence`` task by task from sorted files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from invariants.evidence import (
    Attempt,
    FinalRow,
    Foretold,
    JobLine,
    JournalLine,
    LogEntry,
    RunFacts,
    Sample,
    Sent,
    TaskEvidence,
)
from invariants.kinship import kin_of


@dataclass(frozen=True, slots=True)
class HeldInMemory:
    """Evidence that is already in memory: of the simulator, of tests."""

    run: RunFacts
    by_task: Mapping[str, TaskEvidence]

    def tasks(self) -> Iterator[TaskEvidence]:
        """The tasks in id order."""
        return (self.by_task[task] for task in sorted(self.by_task))


def gather(
    run: RunFacts,
    *,
    log: Iterable[LogEntry] = (),
    attempts: Iterable[Attempt] = (),
    samples: Iterable[Sample] = (),
    finals: Iterable[FinalRow] = (),
    journal: Iterable[JournalLine] = (),
    sent: Iterable[Sent] = (),
    foretold: Iterable[Foretold] = (),
    job_lines: Iterable[JobLine] = (),
) -> HeldInMemory:
    """Sort loose evidence by task. ``kin`` and ``journal_lines`` of ``run`` are computed here from what is given."""
    parts = _Sorted()
    for entry in log:
        parts.log[entry.task].append(entry)
    for attempt in attempts:
        parts.attempts[attempt.task].append(attempt)
    for sample in samples:
        parts.samples[sample.task].append(sample)
    for final in finals:
        parts.finals[final.row.id] = final
    for line in journal:
        parts.journal[line.task].append(line)
    for one in sent:
        parts.sent[one.task].append(one)
    for words in foretold:
        parts.foretold[words.task] = words
    for written in job_lines:
        parts.job_lines[written.task].append(written)
    return HeldInMemory(
        replace(
            run,
            kin={task: kin_of(final.row, parts.log.get(task, ())) for task, final in parts.finals.items()},
            journal_lines=sum(map(len, parts.journal.values())),
        ),
        {task: parts.of(task) for task in parts.names()},
    )


@dataclass(slots=True)
class _Sorted:
    log: defaultdict[str, list[LogEntry]] = field(default_factory=lambda: defaultdict(list))
    attempts: defaultdict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    samples: defaultdict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    finals: dict[str, FinalRow] = field(default_factory=dict)
    journal: defaultdict[str, list[JournalLine]] = field(default_factory=lambda: defaultdict(list))
    sent: defaultdict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    foretold: dict[str, Foretold] = field(default_factory=dict)
    job_lines: defaultdict[str, list[JobLine]] = field(default_factory=lambda: defaultdict(list))

    def names(self) -> set[str]:
        named = (
            self.log,
            self.attempts,
            self.samples,
            self.finals,
            self.journal,
            self.sent,
            self.foretold,
            self.job_lines,
        )
        return {task for part in named for task in part}

    def of(self, task: str) -> TaskEvidence:
        return TaskEvidence(
            task,
            self.log.get(task, ()),
            self.attempts.get(task, ()),
            self.samples.get(task, ()),
            self.finals.get(task),
            self.journal.get(task, ()),
            self.sent.get(task, ()),
            self.foretold.get(task),
            self.job_lines.get(task, ()),
        )
