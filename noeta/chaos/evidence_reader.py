"""Reads a run directory back as ``invariants.Evidence``, task by task.

What a killed process left torn is counted and passed over; what is missing altogether leaves its part empty, and
the laws that need it say ``unknown``. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

import scripted_model
from invariants import (
    Answer,
    Attempt,
    FaultSeen,
    FinalRow,
    Foretold,
    JournalLine,
    Kin,
    LogEntry,
    Outcome,
    RunFacts,
    Sample,
    Sent,
    TaskEvidence,
    ToolKind,
    Verb,
)
from invariants.evidence import STUCK_AFTER
from noeta.chaos.evidence_dir import FAULTS, FINALS, HISTORY, LOG, ROWS, RUN, WORKLOAD, LogLine, RunDir
from noeta.chaos.history import HistoryLine, OpAnswered, OpSent
from noeta.chaos.line_index import LineIndex
from noeta.chaos.nemesis.record import read_faults
from noeta.core import codec
from noeta.core.ids import micros, sha256_text
from noeta.core.task import Status
from scripted_model.journal import EFFECTS_SUFFIX, Effect
from scripted_model.script import TOOLS

T = TypeVar("T")

BOUNDS: Final = frozenset({"model_attempts", "unknown_call", "takeovers"})
"""The bounds that faults from outside may push any task into."""

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
        return RunFacts(
            faults=tuple(self.faults()),
            tools=tool_kinds(),
            kin=self._kin,
            idle_since=drained.get("idle_since") or {},
            stuck_after=drained.get("stuck_after", STUCK_AFTER),
            journal_lines=self._journal.lines,
            renewals_recorded=self._attempts.lines > 0,
            lease=micros((facts.get("config") or {}).get("lease_seconds") or 0.0),
            keeps_claims=False,
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
        collected = (self.dir.read_json(RUN) or {}).get("collected")
        if collected is not None and collected["missing"] is None:
            for index in (self._log, self._rows, self._journal, self._attempts, self._history):
                named.update(index.tasks())
        return (self.of(task) for task in sorted(named))

    def of(self, task: str) -> TaskEvidence:
        """All that is known of one task."""
        history = list(_each(self._history.of(task), _history))
        finals = [line.final for line in _each(self._finals.of(task), _finals) if line.final is not None]
        attempts = self._attempts_of(task)
        return TaskEvidence(
            task,
            log=tuple(log_entry(line) for line in _each(self._log.of(task), _log_lines)),
            attempts=(*attempts, *client_attempts(history)),
            samples=tuple(_each(self._rows.of(task), _samples)),
            final=finals[-1] if finals else None,
            journal=tuple(journal_line(effect) for effect in _each(self._journal.of(task), _effects)),
            sent=tuple(sent_posts(history)),
            foretold=self.foretold.get(task),
        )

    @cached_property
    def foretold(self) -> dict[str, Foretold]:
        """What the scripts say, for the tasks whose creation was at least sent.

        Nothing, if the run was cut short before its drain came to an end: no deadline has passed then, and a task
        that is not done proves nothing.
        """
        path = self.dir.path(WORKLOAD)
        drained = (self.dir.read_json(RUN) or {}).get("drain") or {}
        if not path.is_file() or drained.get("ended") not in DRAIN_ENDS:
            return {}
        sent = set(self._history.tasks())
        told: dict[str, Foretold] = {}
        for load in msgspec.json.decode(path.read_bytes(), type=list[scripted_model.Workload]):
            told |= {one.task: as_foretold(one) for one in scripted_model.foretell_all(load) if one.task in sent}
        return told

    @property
    def torn(self) -> int:
        """Lines that could not be read, in all files."""
        indexes = (self._log, self._finals, self._rows, self._journal, self._attempts, self._history)
        return sum(index.torn for index in indexes)

    @property
    def journal_lines(self) -> int:
        """Side effects that were journalled."""
        return self._journal.lines

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
    def _attempts(self) -> LineIndex:
        return LineIndex(sorted(self.dir.attempts.glob("*.jsonl")))

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
        """Of tasks that have a parent or a group, or are one: nobody waits for any other."""
        kin: dict[str, Kin] = {}
        for task in self._finals.tasks():
            if "." not in task:  # only derived ids name children (`noeta/core/ids.py`)
                continue
            for line in _each(self._finals.of(task), _finals):
                if line.final is None:
                    continue
                row = line.final.row
                ended = row.status is Status.TERMINAL
                at = max((entry.at for entry in _each(self._log.of(task), _log_lines)), default=None) if ended else None
                kin[task] = Kin(row.status, at, row.group)
        return kin


def tool_kinds() -> dict[str, ToolKind]:
    """What the scripted tools promise, in the laws' words."""
    return {
        name: ToolKind(name, retry_safe=spec.retry_safe, journals_errors=spec.fails) for name, spec in TOOLS.items()
    }


def log_entry(line: LogLine) -> LogEntry:
    """A stored entry as the laws read it; the hash is taken again from its bytes."""
    return LogEntry(line.task, line.seq, line.epoch, line.at, codec.decode_event(line.body), sha256_text(line.body))


def as_foretold(told: scripted_model.Foretold) -> Foretold:
    """A script's own words in the laws' words."""
    failures = tuple(turn.reason for turn in told.turns if turn.reason is not None)
    return Foretold(
        told.task,
        Outcome(told.outcome),
        reason=told.reason if told.outcome == "failed" else None,
        answer=told.answer,
        failures=failures,
        turns=None if told.message_keys or told.refusable_keys else len(told.turns),
        calls=told.calls_per_tool,
        messages=told.message_keys,
        bounds=_own_bounds(told),
        excusable=BOUNDS,
    )


def _own_bounds(told: scripted_model.Foretold) -> frozenset[str]:
    """The bounds, by the laws' names, that a script reaches without any fault from outside."""
    own = {"model_attempts"} & set(told.bounds)
    if any(call.source == "unknown" for call in told.calls):
        own.add("unknown_call")
    return frozenset(own)


def client_attempts(history: Iterable[HistoryLine]) -> Iterator[Attempt]:
    """What clients asked, as attempts; those without an answer stay open."""
    answers = {line.id: line for line in history if isinstance(line, OpAnswered)}
    for line in history:
        if isinstance(line, OpSent):
            answer = answers.get(line.id)
            yield Attempt(
                line.id,
                process=line.client,
                worker=line.client,
                verb=line.verb,
                task=line.task,
                sent_at=line.at,
                expected_seq=0 if line.verb is Verb.CREATE else None,
                hashes=line.hashes,
                key=line.key,
                answered_at=None if answer is None else answer.at,
                answer=None if answer is None else answer.answer,
                answer_seq=None if answer is None else answer.number,
            )


def sent_posts(history: Iterable[HistoryLine]) -> Iterator[Sent]:
    """The posts among them, by the store's word; a refused one wrote nothing and is none."""
    answers = {line.id: line for line in history if isinstance(line, OpAnswered)}
    for line in history:
        if isinstance(line, OpSent) and line.verb is Verb.POST:
            answer = answers.get(line.id)
            if answer is None or answer.answer is Answer.UNKNOWN:
                yield Sent(line.task, line.key, None, "unknown", line.at)
            elif answer.outcome is not None:
                yield Sent(line.task, line.key, answer.number, answer.outcome, line.at)


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
