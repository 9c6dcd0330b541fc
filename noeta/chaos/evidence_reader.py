"""Reads a run directory back as ``invariants.Evidence``, task by task.

What a killed process left torn is counted and passed over; what is missing altogether leaves its part empty, and
the laws that need it say ``unknown``. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

import scripted_model
from invariants import (
    Answer,
    Attempt,
    FaultSeen,
    FinalRow,
    Foretold,
    JobLine,
    JournalLine,
    Kin,
    LogEntry,
    RunFacts,
    Sample,
    Sent,
    TaskEvidence,
    ToolKind,
    Verb,
)
from invariants.evidence import STUCK_AFTER
from invariants.kinship import birth_of, kin_of
from noeta.chaos.born import as_foretold, foretold_child
from noeta.chaos.evidence_dir import FAULTS, FINALS, HISTORY, LOCKS, LOG, ROWS, RUN, WORKLOAD, LogLine, RunDir
from noeta.chaos.history import HistoryLine, OpAnswered, OpSent
from noeta.chaos.job_lines import first_and_last
from noeta.chaos.line_index import LineIndex
from noeta.chaos.locks import LockLook, read_looks
from noeta.chaos.nemesis.record import read_faults
from noeta.chaos.recording import posted
from noeta.core import codec
from noeta.core.events import TaskCreated
from noeta.core.ids import micros, sha256_text
from noeta.plugins import waiting_tools
from noeta.plugins.cron import CronCreate, CronDelete, CronList
from noeta.plugins.shell import shell_tools
from scripted_model.journal import EFFECTS_SUFFIX, JOBS_SUFFIX, Effect
from scripted_model.script import SUBTASK_DEPTH_MAX, TOOLS

T = TypeVar("T")

TIMER_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {"ScheduleWakeup": "delay_seconds", "AskUser": "timeout_seconds", "WaitForEvent": "timeout_seconds"}
)
"""Where the input of each of these tools says how many seconds it waits at the most."""

DRAIN_ENDS: Final = frozenset({"quiet", "deadline", "stuck"})
"""How a drain ends that gave every task its time."""


class FinalLine(msgspec.Struct, frozen=True):
    """One line of ``finals.jsonl``: the log was copied whole, and this is its row. None: the store has no such task."""

    task: str
    final: FinalRow | None


_log_lines: Final = msgspec.json.Decoder(LogLine)
_finals: Final = msgspec.json.Decoder(FinalLine)
_samples: Final = msgspec.json.Decoder(Sample)
_effects: Final = msgspec.json.Decoder(Effect)
_attempts: Final = msgspec.json.Decoder(Attempt)
_history: Final[msgspec.json.Decoder[HistoryLine]] = msgspec.json.Decoder(HistoryLine)


@dataclass(frozen=True)
class DirEvidence:
    """The evidence of one run directory. Implements ``invariants.Evidence``."""

    dir: RunDir

    @cached_property
    def run(self) -> RunFacts:
        """What holds for the whole run."""
        facts = self.dir.read_json(RUN) or {}
        drained: dict[str, Any] = facts.get("drain") or {}
        looks, _ = self._looks
        return RunFacts(
            faults=tuple(self.faults()),
            tools=tool_kinds(),
            kin=self._kin,
            kin_whole=self._is_whole,
            still=True,
            idle_since=drained.get("idle_since") or {},
            stuck_after=drained.get("stuck_after", STUCK_AFTER),
            journal_lines=self._journal.lines,
            renewals_recorded=self._attempts.lines > 0,
            lease=micros((facts.get("config") or {}).get("lease_seconds") or 0.0),
            keeps_claims=False,
            depth_max=SUBTASK_DEPTH_MAX,
            lock_looks=tuple(look.at for look in looks),
            locks=tuple(lock for look in looks for lock in look.held),
            statement_timeout=micros((facts.get("locks") or {}).get("statement_timeout_seconds") or 0.0),
        )

    def faults(self) -> Iterator[FaultSeen]:
        """The faults that struck, in the order in which they did."""
        return (line.as_seen() for line in read_faults(self.dir.path(FAULTS)))

    def tasks(self) -> Iterator[TaskEvidence]:
        """Every task that anything names, in id order.

        Unless the copying was cut short: then only those that were copied. An entry that is missing because nobody
        copied it is not lost; that the rest is not judged stands among the doubts of the run (`verdicts.py`).
        """
        named = set(self._finals.tasks())
        if self._is_whole:
            for index in (self._log, self._rows, self._journal, self._job_lines, self._attempts, self._history):
                named.update(index.tasks())
        return (self.of(task) for task in sorted(named))

    def of(self, task: str) -> TaskEvidence:
        """All that is known of one task."""
        history = list(_each(self._history.of(task), _history))
        finals = [line.final for line in _each(self._finals.of(task), _finals) if line.final is not None]
        attempts = self._attempts_of(task)
        log = tuple(self._log_of(task))
        return TaskEvidence(
            task,
            log=log,
            attempts=(*attempts, *client_attempts(history)),
            samples=tuple(_each(self._rows.of(task), _samples)),
            final=finals[-1] if finals else None,
            journal=tuple(journal_line(effect) for effect in _each(self._journal.of(task), _effects)),
            sent=tuple(sent_posts(history)),
            foretold=self.foretold.get(task) or self._foretold_child(task, log),
            job_lines=self._job_lines_of(task),
        )

    @cached_property
    def foretold(self) -> dict[str, Foretold]:
        """What the scripts say, for the tasks whose creation was at least sent. What is foretold of the tasks that were
        born in the run stands in their logs."""
        sent = set(self._history.tasks())
        return {one.task: as_foretold(one) for told in self._told for one in told[1].values() if one.task in sent}

    @cached_property
    def _told(self) -> list[tuple[int, dict[str, scripted_model.Foretold]]]:
        """For each workload, its attempts at a model call, and what its scripts say.

        Nothing, if the run was cut short before its drain came to an end: no deadline has passed then, and a task
        that is not done proves nothing.
        """
        path = self.dir.path(WORKLOAD)
        drained = (self.dir.read_json(RUN) or {}).get("drain") or {}
        if not path.is_file() or drained.get("ended") not in DRAIN_ENDS:
            return []
        loads = msgspec.json.decode(path.read_bytes(), type=list[scripted_model.Workload])
        return [(load.retry_attempts, {one.task: one for one in scripted_model.foretell_all(load)}) for load in loads]

    def _foretold_child(self, task: str, log: Sequence[LogEntry]) -> Foretold | None:
        """What must come of a task that was born in the run, of a root that was loaded."""
        created = log[0].event if log else None
        if not isinstance(created, TaskCreated) or created.root_task_id is None:
            return None
        for retry_attempts, roots in self._told:
            if created.root_task_id in roots:
                child = foretold_child(task, created, roots, retry_attempts=retry_attempts)
                return None if child is None else as_foretold(child)
        return None

    @property
    def torn(self) -> int:
        """Lines that could not be read, in all files."""
        indexes = (
            *(self._log, self._finals, self._rows, self._journal),
            *(self._job_lines, self._attempts, self._history),
        )
        return sum(index.torn for index in indexes) + self._looks[1]

    @property
    def journal_lines(self) -> int:
        """Side effects that were journalled."""
        return self._journal.lines

    @cached_property
    def _is_whole(self) -> bool:
        """Whether every task was copied."""
        collected = (self.dir.read_json(RUN) or {}).get("collected")
        return collected is not None and collected["missing"] is None

    # -- files ---------------------------------------------------------------------------------------------

    @cached_property
    def _log(self) -> LineIndex:
        return LineIndex([self.dir.path(LOG)])

    @cached_property
    def _finals(self) -> LineIndex:
        return LineIndex([self.dir.path(FINALS)])

    @cached_property
    def _rows(self) -> LineIndex:
        return LineIndex([self.dir.path(ROWS)])

    @cached_property
    def _history(self) -> LineIndex:
        return LineIndex([self.dir.path(HISTORY)])

    @cached_property
    def _journal(self) -> LineIndex:
        return LineIndex(sorted(self.dir.journal.glob(f"*{EFFECTS_SUFFIX}")))

    @cached_property
    def _job_lines(self) -> LineIndex:
        return LineIndex(sorted(self.dir.journal.glob(f"*{JOBS_SUFFIX}")))

    @cached_property
    def _looks(self) -> tuple[list[LockLook], int]:
        return read_looks(self.dir.path(LOCKS))

    @cached_property
    def _attempts(self) -> LineIndex:
        return LineIndex(sorted(self.dir.attempts.glob("*.jsonl")))

    def _log_of(self, task: str) -> Iterator[LogEntry]:
        return (log_entry(line) for line in _each(self._log.of(task), _log_lines))

    def _job_lines_of(self, task: str) -> tuple[JobLine, ...]:
        return tuple(first_and_last(self._job_lines.of(task), self._clock_error))

    @cached_property
    def _clock_error(self) -> int:
        return micros((self.dir.read_json(RUN) or {}).get("clock_error_seconds") or 0.0)

    def _attempts_of(self, task: str) -> tuple[Attempt, ...]:
        """The attempts in the order in which they were sent, the answered form replacing the sent one."""
        by_id: dict[str, Attempt] = {}
        for attempt in _each(self._attempts.of(task), _attempts):
            before = by_id.get(attempt.id)
            if before is None or before.answer is None:
                by_id[attempt.id] = attempt
        return tuple(by_id.values())

    @cached_property
    def _kin(self) -> dict[str, Kin]:
        """Of tasks that were delegated, or that delegated: nobody's law asks about any other."""
        born = [birth for task in self._finals.tasks() if (birth := birth_of(task)) is not None]
        bearers = {birth.bearer for birth in born}
        kin: dict[str, Kin] = {}
        for task in self._finals.tasks():
            if task not in bearers and birth_of(task) is None:
                continue
            for line in _each(self._finals.of(task), _finals):
                if line.final is not None:
                    kin[task] = kin_of(line.final.row, self._log_of(task))
        return kin


def tool_kinds() -> dict[str, ToolKind]:
    """What the scripted tools promise, in the laws' words, and those that come with noeta."""
    scripted = (ToolKind(name, spec.retry_safe, journals_errors=spec.fails) for name, spec in TOOLS.items())
    return {tool.name: tool for tool in (*scripted, *waiting_kinds())}


def waiting_kinds() -> Iterator[ToolKind]:
    """The tools that come with noeta: they do nothing by themselves, so that there is nothing to journal. What a
    background shell does is told by its lines, not by the call that asked for it."""
    crons = {tool.name: tool for tool in (CronCreate(), CronDelete(), CronList())}
    for name, tool in {**waiting_tools(), **shell_tools(), **crons}.items():
        yield ToolKind(name, tool.flags.retry_safe, journals=False, timer_field=TIMER_FIELDS.get(name))


def log_entry(line: LogLine) -> LogEntry:
    """A stored entry as the laws read it; the hash is taken again from its bytes."""
    return LogEntry(line.task, line.seq, line.epoch, line.at, codec.decode_event(line.body), sha256_text(line.body))


def client_attempts(history: Iterable[HistoryLine]) -> Iterator[Attempt]:
    """What clients asked, as attempts; those without an answer stay open."""
    answers = {line.id: line for line in history if isinstance(line, OpAnswered)}
    for line in history:
        if isinstance(line, OpSent):
            attempt = Attempt(
                line.id,
                process=line.client,
                worker=line.client,
                verb=line.verb,
                task=line.task,
                sent_at=line.at,
                expected_seq=0 if line.verb is Verb.CREATE else None,
                hashes=line.hashes,
                key=line.key,
                item=line.item or None,
            )
            answer = answers.get(line.id)
            yield attempt if answer is None else _answered(attempt, answer)


def _answered(attempt: Attempt, answer: OpAnswered) -> Attempt:
    if answer.outcome is not None:
        return posted(attempt, answer.outcome, answer.number, answer.epoch, answer.last_seq, answer.at)
    return replace(attempt, answer=answer.answer, answered_at=answer.at, answer_seq=answer.number)


def sent_posts(history: Iterable[HistoryLine]) -> Iterator[Sent]:
    """The posts among them, by the store's word; a refused one wrote nothing and is none."""
    answers = {line.id: line for line in history if isinstance(line, OpAnswered)}
    for line in history:
        if isinstance(line, OpSent) and line.verb is Verb.POST:
            answer = answers.get(line.id)
            if answer is None or answer.answer is Answer.UNKNOWN:
                yield Sent(line.task, line.key, None, "unknown", line.at, line.item, line.wakes)
            elif answer.outcome is not None:
                yield Sent(line.task, line.key, answer.number, answer.outcome, line.at, line.item, line.wakes)


def journal_line(effect: Effect) -> JournalLine:
    """A line of the scripted tools' journal."""
    return JournalLine(
        effect.token,
        effect.task,
        effect.call,
        effect.tool,
        effect.start,
        effect.worker,
        effect.pid,
        micros(effect.time),
    )


def _each(lines: Iterable[bytes], decoder: msgspec.json.Decoder[T]) -> Iterator[T]:
    """The lines that can be read. The index counted those that are no JSON; of another shape is a bug: raises."""
    decode: Callable[[bytes], T] = decoder.decode
    return map(decode, lines)
