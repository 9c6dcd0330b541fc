"""From the log of a simulated execution to the recovery paths it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from invariants.evidence import Answer, Attempt, LogEntry, Verb
from noeta.core import texts
from noeta.core.events import ModelCalled, StepAttemptAbandoned, TaskWoken, ToolFinished, ToolStarted, TurnFailed


def paths_taken(log: Iterable[LogEntry], attempts: Iterable[Attempt]) -> Counter[str]:
    """How often each way out of trouble was taken."""
    taken: Counter[str] = Counter()
    for entry in log:
        match entry.event:
            case StepAttemptAbandoned():
                taken["sealed"] += 1
            case ToolFinished(source="recovered"):
                taken["looked up"] += 1
            case ToolFinished(source="unknown"):
                taken["outcome unknown"] += 1
            case ToolStarted(start=start) if start > 1:
                taken["started again"] += 1
            case ModelCalled(attempt=attempt) if attempt > 1:
                taken["model asked again"] += 1
            case TurnFailed(reason=texts.LLM_ERROR, message=texts.MODEL_CALL_INTERRUPTED):
                taken["model bound"] += 1
            case TaskWoken():
                taken["woken"] += 1
            case _:
                pass
    for asked in attempts:
        if asked.answer is Answer.CONFLICT:
            taken["zombie refused" if asked.verb is Verb.APPEND else f"{asked.verb} refused"] += 1
    return taken
