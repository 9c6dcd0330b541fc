"""Did it really happen? Counts the named situations that a run's evidence shows.

A storm in which no interrupted call was ever recovered is no proof of recovery, however valid its log. Each
situation is read off logs, attempts, journal and faults, never off what the nemesis meant to do. Which of them
must occur is data (`profiles.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from invariants import Answer, FaultSeen, Kin, LogEntry, TaskEvidence, Verb
from noeta.chaos.background_situations import BACKGROUND, at_rest, count_background
from noeta.chaos.waiting_situations import WAITING, count_waiting
from noeta.core import texts
from noeta.core.events import (
    Ending,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskFailed,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.tool import MAX_ATTEMPTS
from noeta.core.wake import HumanResponseReceived

SITUATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "taken-over": "a task was taken from a worker that did not give it back",
        "recovered-by-lookup": "an interrupted call was answered by its tool's look-up",
        "recovered-by-rerun": "an interrupted retry_safe call was started again",
        "recovered-as-unknown": "an interrupted call was told as 'outcome unknown'",
        "model-called-again": "an interrupted model call was made again by another claim",
        "three-starts-bound": "a retry_safe call reached its third start and was given up",
        "three-model-calls-bound": "a model call was interrupted three times and failed its turn",
        "attempt-sealed": "a takeover sealed what its predecessor left half done",
        "append-refused": "an append was refused by the fence",
        "append-refused-after-pause": "a resumed worker's append was refused by the fence",
        "append-unavailable": "an append could not be sent, and nothing was written",
        "renewal-unknown": "a renewal's outcome was unknown",
        "renewal-lost": "a renewal found its claim lost",
        "commit-unknown-landed": "an append of unknown outcome is in the log",
        "commit-unknown-not-landed": "an append of unknown outcome is not in the log",
        "answer-lost": "an append was never answered: its worker died in between",
        "claim-released": "a worker gave a task back before its end",
        "message-taken-running": "a message was taken while its task ran",
        "message-taken-waiting": "a message ended its task's wait",
        "message-repeat-dropped": "a repeated post was dropped by its key",
        "message-refused": "a post to an ended task was refused",
        "effect-journalled-late": "the effect of an earlier start was journalled beside a later one",
        "bounded-failure": "a task or turn ended by one of the runtime's bounds",
        "failure-retried": "an error escaped a step, and the task was tried again",
        "claim-adopted": "a worker found what its claim of unknown outcome had taken",
        "message-taken-after-takeover": "what a lost worker had not taken was taken by its successor",
        "wake-redelivered": "a wake came again after the worker that heard it first was lost",
        "create-repeated": "a task was created again with the same content",
        "commit-cut-landed": "a connection was cut once its commit had landed, before the answer",
        "commit-cut-not-landed": "a connection was cut before its commit, which wrote nothing",
        **WAITING,
        **BACKGROUND,
    }
)
"""Every situation that is counted, and what it means."""


POINTS: Final[Mapping[str, str]] = MappingProxyType({"claim.adopted": "claim-adopted"})
"""Situations that are a named point of the runtime."""


def count_points(passed: Mapping[str, int]) -> Counter[str]:
    """The situations among the points that processes passed."""
    return Counter({situation: passed[point] for point, situation in POINTS.items() if passed.get(point)})


ON_THE_WIRE: Final[Mapping[str, str]] = MappingProxyType(
    {"commit-cut-landed": "cut_after_commit", "commit-cut-not-landed": "cut_before_commit"}
)
"""Situations that only a wire can show, each with the kind of fault without which nobody can ask for it."""


def askable(required: Mapping[str, int], possible: frozenset[str]) -> Mapping[str, int]:
    """The requirements without those of the wire, where no such fault was planned, or the store has no wire."""
    return {name: least for name, least in required.items() if ON_THE_WIRE.get(name, "") in {"", *possible}}


def count_cuts(cuts: Mapping[str, int]) -> Counter[str]:
    """The situations among the proxy's outcomes."""
    return Counter({f"commit-cut-{outcome}": count for outcome, count in cuts.items() if outcome != "unknown"})


def count_situations(
    task: TaskEvidence, faults: Sequence[FaultSeen] = (), kin: Mapping[str, Kin] = MappingProxyType({})
) -> Counter[str]:
    """The situations of one task. ``kin``: its family."""
    counts = _of_log(task)
    counts.update(count_waiting(task, kin))
    counts.update(count_background(task, faults))
    counts.update(_of_attempts(task, {fault.process for fault in faults if fault.kind.startswith("pause")}))
    for one in task.sent:
        if one.outcome == "repeat":
            counts["message-repeat-dropped"] += 1
        elif one.outcome == "ended":
            counts["message-refused"] += 1
    starts = Counter(line.call for line in task.journal)
    counts["effect-journalled-late"] += sum(1 for number in starts.values() if number > 1)
    return +counts


def _of_log(task: TaskEvidence) -> Counter[str]:
    counts: Counter[str] = Counter()
    starts: dict[str, int] = {}
    model_epochs: list[int] = []
    for entry in task.log:
        match entry.event:
            case ModelCalled():
                counts["model-called-again"] += bool(model_epochs) and entry.epoch != model_epochs[-1]
                model_epochs.append(entry.epoch)
            case ModelReplied() | TaskWoken() | TurnFailed() | TaskFailed():
                counts.update(_ending_of_call(entry.event, model_epochs))
                model_epochs = []
            case ToolStarted(call_id=call, start=start):
                starts[call] = start
                counts["recovered-by-rerun"] += start > 1
            case ToolFinished(call_id=call, source="recovered"):
                counts["recovered-by-lookup"] += 1
            case ToolFinished(call_id=call, source="unknown"):
                counts["recovered-as-unknown"] += 1
                counts["three-starts-bound"] += starts.get(call, 0) >= MAX_ATTEMPTS
            case StepAttemptAbandoned():
                counts["attempt-sealed"] += 1
            case MessageTaken(message=HumanResponseReceived()):
                counts["message-taken-running"] += 1
            case _:
                pass
        if isinstance(entry.event, TaskWoken) and isinstance(entry.event.event, HumanResponseReceived):
            counts["message-taken-waiting"] += 1
    counts["taken-over"] += _takeovers(task)
    counts.update(_heard_again(task))
    return counts


def _heard_again(task: TaskEvidence) -> Counter[str]:
    """Wakes and messages whose first hearer was lost: a claim before the one that took them, which wrote nothing."""
    counts: Counter[str] = Counter()
    granted = {one.epoch for one in task.attempts if one.verb is Verb.CLAIM and one.epoch is not None}
    for before, entry in zip(task.log, task.log[1:], strict=False):
        if entry.epoch <= before.epoch:
            continue
        silent = any(before.epoch < epoch < entry.epoch for epoch in granted)
        counts["wake-redelivered"] += silent and isinstance(entry.event, TaskWoken)
        counts["message-taken-after-takeover"] += isinstance(entry.event, MessageTaken)
    return counts


def _ending_of_call(event: object, model_epochs: list[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    if isinstance(event, TurnFailed | TaskFailed):
        counts["bounded-failure"] += 1
        interrupted = event.message == texts.MODEL_CALL_INTERRUPTED
        counts["three-model-calls-bound"] += interrupted and len(set(model_epochs)) >= texts.MAX_MODEL_ATTEMPTS
    return counts


def _takeovers(task: TaskEvidence) -> int:
    """Changes of epoch in the log where the one before had neither rested, ended, released nor failed."""
    gave_back = {
        attempt.epoch
        for attempt in task.attempts
        if attempt.verb in (Verb.RELEASE, Verb.FAIL) and attempt.answer in (Answer.OK, Answer.UNKNOWN, None)
    }
    found = 0
    rests: LogEntry | None = None
    for before, entry in zip(task.log, task.log[1:], strict=False):
        rests = at_rest(before, rests)
        if entry.epoch > before.epoch > 0 and before.epoch not in gave_back:
            found += rests is None and not isinstance(before.event, Ending)
    return found


def _of_attempts(task: TaskEvidence, paused: set[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    stands = {(entry.seq, entry.epoch, entry.body_hash) for entry in task.log}
    created = 0
    for attempt in task.attempts:
        match attempt.verb, attempt.answer:
            case Verb.APPEND, Answer.CONFLICT:
                counts["append-refused"] += 1
                counts["append-refused-after-pause"] += attempt.process in paused
            case Verb.APPEND, Answer.UNKNOWN if attempt.hashes and attempt.epoch is not None:
                landed = (attempt.first_seq, attempt.epoch, attempt.hashes[0]) in stands
                counts["commit-unknown-landed" if landed else "commit-unknown-not-landed"] += 1
            case Verb.APPEND, Answer.UNAVAILABLE:
                counts["append-unavailable"] += 1
            case Verb.RENEW, Answer.UNKNOWN:
                counts["renewal-unknown"] += 1
            case Verb.APPEND, None:
                counts["answer-lost"] += 1
            case Verb.RENEW, Answer.CONFLICT:
                counts["renewal-lost"] += 1
            case Verb.FAIL, Answer.OK if not attempt.hashes:
                counts["failure-retried"] += 1
            case Verb.CREATE, Answer.OK:
                created += 1
            case Verb.RELEASE, Answer.OK:
                counts["claim-released"] += 1
            case _:
                pass
    counts["create-repeated"] += max(0, created - 1)
    return counts
