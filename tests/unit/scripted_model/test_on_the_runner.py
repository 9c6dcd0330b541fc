"""Workloads played by the real runner over the memory store, one drive at a time, under a still clock.

No threads: waiting moves the clock, a death is a drive that ends at once, and the next claim comes when the lease has
lapsed. Clients post between drives, and in the middle of them, at the tools' own points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from noeta.backends.stores.memory import MemoryStore
from noeta.core.errors import IllegalTransition
from noeta.core.events import Entry, ModelReplied, TaskCompleted, TaskFailed, TaskSuspended, ToolFinished, TurnFailed
from noeta.core.retry import RetryPolicy
from noeta.core.runner.lease import Held
from noeta.core.runner.runner import Runner
from noeta.core.store import Claim, NewTask
from noeta.core.task import Status
from noeta.core.world import Event, Spawned
from scripted_model.app import make_engine
from scripted_model.foretell import Foretold, foretell_all
from scripted_model.generate import workload
from scripted_model.journal import JournalBook, MemoryJournal
from scripted_model.profile import Kind, Profile
from scripted_model.workload import AGENT, Workload, is_due
from tests.unit.scripted_model.driving import Died, die

LEASE_SECONDS = 1_000.0
ATTEMPTS = 4


@dataclass
class StillEvent:
    """Waiting for it moves the clock and nothing else."""

    world: StillWorld
    _set: bool = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "nobody else is here to set it"
        self.world.now += timeout
        return self._set


@dataclass
class StillWorld:
    """One thread, a clock that moves when somebody waits, and a hook at every point."""

    at_point: Callable[[str, dict[str, Any]], None] = lambda name, facts: None
    now: float = 1_000_000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def event(self) -> Event:
        return StillEvent(self)

    def wait_any(self, events: Sequence[Event], timeout: float | None) -> Event | None:
        raise NotImplementedError

    def spawn(self, name: str, run: Callable[[], None]) -> Spawned:
        raise NotImplementedError

    def random(self, name: str) -> Random:
        raise NotImplementedError

    def point(self, name: str, **facts: Any) -> None:
        self.at_point(name, facts)


@dataclass
class Stage:
    """A store, a clock, a journal and the clients of one workload."""

    load: Workload
    world: StillWorld = field(default_factory=StillWorld)
    book: JournalBook = field(default_factory=JournalBook)
    posted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.world.wall)
        self.world.at_point = lambda name, facts: self.post(facts["task"]) if name == "tool.before_journal" else None
        self.engine = make_engine(
            MemoryJournal(self.book, "w1", self.world.wall),
            retry=RetryPolicy(ATTEMPTS, 0.001, 0.001),
            die=die,
            pause=lambda seconds: None,
        )

    def post(self, task: str) -> None:
        """Post what is due for this task."""
        messages = self.load.messages_of(task)
        for place, message in enumerate(messages):
            if message.key in self.posted or not is_due(message, self.store.task(task), messages[:place], self.posted):
                continue
            self.posted.add(message.key)
            for _ in range(message.posts):
                try:
                    self.store.post(task, message.item, message.key)
                except IllegalTransition:
                    self.refused.add(message.key)

    def run(self) -> None:
        for task in self.load.tasks:
            self.store.create(NewTask(task.id, AGENT, task.goal, interactive=task.interactive))
        while True:
            claims = self.store.claim("w1", None, LEASE_SECONDS, limit=1).claims
            if claims:
                self.drive(claims[0])
            elif not self.advance():
                return

    def advance(self) -> bool:
        """Let clients speak, or leases lapse; False when nothing is left to happen."""
        before = len(self.posted)
        for task in self.load.tasks:
            self.post(task.id)
        rows = [self.store.task(task.id) for task in self.load.tasks]
        if len(self.posted) == before and all(row.status in (Status.SUSPENDED, Status.TERMINAL) for row in rows):
            return False
        if not any(row.status is Status.PENDING and (row.ready_at or 0) <= self.world.now * 1e6 for row in rows):
            self.world.now += 2 * LEASE_SECONDS
        return True

    def drive(self, claim: Claim) -> None:
        held = Held(self.world, self.store, claim, self.world.monotonic() + LEASE_SECONDS)
        try:
            Runner(lambda state: self.engine, self.world, self.store, held).drive()
        except Died:
            self.world.now += 2 * LEASE_SECONDS

    def log(self, task: str) -> tuple[Entry, ...]:
        return self.store.read(task, 0, limit=10_000).entries


def ending_of(log: tuple[Entry, ...]) -> tuple[str, str | None, str | None]:
    failed = next((e.event.reason for e in reversed(log) if isinstance(e.event, TurnFailed)), None)
    match log[-1].event:
        case TaskCompleted(answer=answer):
            return ("completed", None, answer)
        case TaskFailed(reason=reason):
            return ("failed", reason, None)
        case TaskSuspended(answer=answer):
            return ("waiting", None if answer is not None else failed, answer)
        case other:
            raise AssertionError(f"{other} is no ending")


def calls_of_log(log: tuple[Entry, ...]) -> list[tuple[str, str, str, bool]]:
    finished = {e.event.call_id: e.event for e in log if isinstance(e.event, ToolFinished)}
    calls = [call for e in log if isinstance(e.event, ModelReplied) for call in e.event.calls]
    return [(c.input["tag"], c.tool, finished[c.id].source, finished[c.id].is_error) for c in calls]


def check_as_foretold(stage: Stage, foretold: Foretold) -> None:
    log = stage.log(foretold.task)
    assert ending_of(log) == (foretold.outcome, foretold.reason, foretold.answer)
    assert calls_of_log(log) == [(c.tag, c.tool, c.source, c.is_error) for c in foretold.calls]
    assert set(foretold.message_keys) <= stage.posted - stage.refused


@pytest.mark.parametrize("seed", range(6))
def test_the_real_runner_leads_every_task_to_what_was_foretold(seed: int) -> None:
    stage = Stage(workload(seed, len(Kind), Profile(retry_attempts=ATTEMPTS)))
    stage.run()

    told = foretell_all(stage.load)
    for foretold in told:
        check_as_foretold(stage, foretold)
    assert len(stage.book.deaths) == sum(one.deaths for one in told)
    assert set(Counter(effect.token for effect in stage.book.effects).values()) == {1}
