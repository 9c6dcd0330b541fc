"""What the tests of recovery and of lost claims share: the next owner of a task, and a look at its log."""

from __future__ import annotations

from collections import Counter

from noeta.core.events import (
    Entry,
    Event,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskCreated,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.fold import fold
from noeta.core.store import Claim
from noeta.core.task import Status
from noeta.testing.store_contract import Stage

LEASE = 60.0
Journal = list[tuple[str, int]]


def take(stage: Stage, worker: str) -> Claim:
    """Claim the task, after the lease of whoever held it."""
    stage.clock.advance(LEASE)
    stage.store.requeue_stale()
    stage.clock.advance(LEASE)
    return stage.claim(worker)


def last(stage: Stage, kind: type[Event]) -> Event:
    return next(event for event in reversed(stage.events()) if isinstance(event, kind))


def kinds(stage: Stage) -> list[str]:
    return [type(event).__name__ for event in stage.events()]


def finished_well(stage: Stage, journal: Journal) -> None:
    events = stage.events()
    assert events[-1] == TaskCompleted("bye")
    starts = Counter(key for key, _ in journal)
    assert all(count == 1 for count in starts.values()), journal
    finished = {event.call_id: event.source for event in events if isinstance(event, ToolFinished)}
    assert sorted(call_id[-1] for call_id in finished) == ["0", "1"]
    for call_id, source in finished.items():
        assert starts[f"t:{call_id}"] in ((1,) if source == "ran" else (0, 1))
    calls_pair(events)
    entries: list[Entry] = list(stage.page().entries)
    assert [entry.epoch for entry in entries] == sorted(entry.epoch for entry in entries)
    assert fold("t", entries).status is Status.TERMINAL


def calls_pair(events: list[Event]) -> None:
    """Keeps: calls-pair."""
    assert isinstance(events[0], TaskCreated)
    open_model, open_tools = False, set[str]()
    for event in events:
        match event:
            case ModelCalled():
                assert not open_model
                open_model = True
            case ModelReplied() | TurnFailed() | StepAttemptAbandoned():
                open_model = False
            case ToolStarted():
                open_tools.add(event.call_id)
            case ToolFinished():
                open_tools.discard(event.call_id)
            case _:
                pass
    assert not open_model and not open_tools
