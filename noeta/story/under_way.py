"""What is under way at a place in a log, for telling what an end of a claim cuts short.

Less than the fold (`noeta.core.fold`), and never refuses: a log that breaks its laws is what a story may be about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from noeta.core.events import (
    ApprovalAsked,
    CronFired,
    CronRemoved,
    CronSet,
    JobEnded,
    JobLost,
    JobStarted,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.story.parts import Written


@dataclass(slots=True)
class UnderWay:
    """``model``: the model call without a reply. ``calls``: tool calls that run, with their start. ``jobs``: background
    jobs of the present claim (they end with it), with their commands."""

    epoch: int = 0
    model: ModelCalled | None = None
    calls: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)

    def follow(self, entry: Written) -> None:
        """Apply the next entry."""
        if entry.epoch != self.epoch:
            self.epoch = entry.epoch
            self.jobs.clear()
        event = entry.event
        match event:
            case ModelCalled():
                self.model = event
            case ModelReplied():
                self.model = None
            case StepAttemptAbandoned():
                self.model = None  # running tool calls stay: what becomes of each is recorded behind the seal
            case ToolStarted():
                self.calls[event.call_id] = event.start
            case ToolFinished() | ToolParked():
                self.calls.pop(event.call_id, None)
            case JobStarted():
                self.jobs[event.job_id] = event.command
            case JobEnded() | JobLost():
                self.jobs.pop(event.job_id, None)
            case TurnFailed() | TaskSuspended() | TaskCompleted() | TaskFailed() | TaskCancelled():
                self.model = None
                self.calls.clear()
            case TaskCreated() | MessageTaken() | TaskWoken() | NoticeGiven() | ApprovalAsked():
                pass
            case CronSet() | CronRemoved() | CronFired():
                pass
            case _:
                assert_never(event)
