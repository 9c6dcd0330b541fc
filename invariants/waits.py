"""How calls and rests stand, entry by entry, as far as several laws must know it.

Said a second time, and shorter than the fold says it: a law goes on where a broken log no longer folds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from invariants.evidence import LogEntry
from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    Event,
    JobEnded,
    JobLost,
    JobStarted,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolParked,
    ToolStarted,
    TurnFailed,
)
from noeta.core.wake import HumanResponseReceived, Item, WakeCondition, condition_key, item_key, timed_out


@dataclass(slots=True)
class Waits:
    """Which calls wait, and on what. ``between_turns``: the newest rest is one in which no call waits."""

    parked: dict[str, WakeCondition] = field(default_factory=dict)
    between_turns: bool = True

    def see(self, event: Event) -> None:
        """The next entry of the log."""
        match event:
            case ToolParked(call_id=call, wake_on=wake_on) | ApprovalAsked(call_id=call, wake_on=wake_on):
                self.parked[call] = wake_on
            case ToolStarted(call_id=call) | ToolFinished(call_id=call):
                self.parked.pop(call, None)
            case TurnFailed():
                self.parked.clear()
            case TaskSuspended(wake_on=wake_on):
                self.between_turns = wake_on not in self.parked.values()
                if self.between_turns:
                    self.parked.clear()
            case _:
                pass


@dataclass(slots=True)
class LiveJobs:
    """Background jobs that were started and have neither ended nor been lost, each with its start, oldest first."""

    started: dict[str, LogEntry] = field(default_factory=dict)

    def see(self, entry: LogEntry) -> None:
        """The next entry of the log."""
        match entry.event:
            case JobStarted(job_id=job):
                self.started.setdefault(job, entry)
            case JobEnded(job_id=job) | JobLost(job_id=job):
                self.started.pop(job, None)
            case _:
                pass


@dataclass(slots=True)
class Approvals:
    """What persons said about calls that a gate asked them about: the entry that asked, by call."""

    asked: dict[str, LogEntry] = field(default_factory=dict)
    denied: dict[str, LogEntry] = field(default_factory=dict)
    _calls: dict[str, str] = field(default_factory=dict)

    def see(self, entry: LogEntry) -> None:
        """The next entry of the log."""
        match entry.event:
            case ApprovalAsked(call_id=call, wake_on=wake_on):
                self.asked[call] = entry
                self._calls[condition_key(wake_on)] = call
            case TaskWoken(event=event):
                call = self._calls.pop(item_key(event), "")
                asked = self.asked.pop(call, None)
                if asked is not None and not approves(event):
                    self.denied[call] = asked
            case _:
                pass


def approves(item: Item) -> bool:
    """Whether this answer approves a call."""
    return isinstance(item, HumanResponseReceived) and item.text == texts.APPROVE and not timed_out(item)
