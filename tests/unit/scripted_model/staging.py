"""The stage on which the real runner plays a workload: the memory store, a still clock, and clients between drives.

No threads: waiting moves the clock, a death is a drive that ends at once, and the next claim comes when the lease has
lapsed. Clients post between drives, and in the middle of them, at the tools' own points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import Entry, TaskCreated
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.retry import RetryPolicy
from noeta.core.runner.lease import Held
from noeta.core.runner.runner import Runner
from noeta.core.store import Claim, NewTask
from noeta.core.task import TaskRow, claimable_at
from noeta.core.wake import ControlReceived, Item
from noeta.core.world import Event, Spawned
from noeta.plugins import waiting_tools
from scripted_model.app import make_engine
from scripted_model.foretell import Foretold, depth_of, foretell_all, foretell_child
from scripted_model.journal import JournalBook, MemoryJournal
from scripted_model.workload import AGENT, Workload, answer_for, is_due
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
        raise AssertionError("one thread, and nobody else to wait for")

    def spawn(self, name: str, run: Callable[[], None]) -> Spawned:
        raise AssertionError("one thread, and nobody else to wait for")

    def random(self, name: str) -> Random:
        raise AssertionError("one thread, and nobody else to wait for")

    def point(self, name: str, **facts: Any) -> None:
        self.at_point(name, facts)


@dataclass
class Stage:
    """A store, a clock, a journal and the clients of one workload.

    ``patient``: nobody says anything while time alone still brings the tasks on. ``forgets_after``: so many messages,
    after which another client begins, who knows of none.
    """

    load: Workload
    patient: bool = False
    forgets_after: int | None = None
    world: StillWorld = field(default_factory=StillWorld)
    book: JournalBook = field(default_factory=JournalBook)
    posted: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    held: Held | None = None

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.world.wall)
        self.world.at_point = lambda name, facts: self.post(facts["task"]) if name == "tool.before_journal" else None
        self.engine = make_engine(
            MemoryJournal(self.book, "w1", self.world.wall),
            retry=RetryPolicy(ATTEMPTS, 0.001, 0.001),
            die=die,
            pause=lambda seconds: None,
            more_tools=waiting_tools().values(),
        )

    def rows(self) -> tuple[TaskRow, ...]:
        return self.store.tasks(limit=10_000)

    def post(self, task: str) -> None:
        """Post what is due for this task."""
        messages = self.load.messages_of(task)
        for place, message in enumerate(messages):
            row = self.store.task(task)
            if message.key in self.posted or not is_due(message, row, messages[:place], self.posted):
                continue
            self.posted.add(message.key)
            say = message.post_for(row)
            for _ in range(message.posts if say is not None else 0):
                assert say is not None
                self.say(task, *say)
        answer = answer_for(self.store.task(task)) if "." in task else None
        if answer is not None:
            self.say(task, *answer)

    def say(self, task: str, item: Item, key: str) -> None:
        if self.store.post(task, item, key).outcome != "ended":
            self.accepted.add(key)
        if self.held is not None and self.held.claim.task_id == task:
            # What the next renewal would tell its owner, who is in the middle of a tool.
            self.held.inbox_seq = self.store.task(task).inbox_seq
            if isinstance(item, ControlReceived):
                self.held.order()

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
        """Let clients speak, timers fire or leases lapse; False when nothing is left to happen."""
        if self.forgets_after is not None and len(self.posted) >= self.forgets_after:
            self.posted.clear()
            self.forgets_after = None
        if self.patient and self.pass_time():
            return True
        before = len(self.posted), len(self.accepted)
        for row in self.rows():
            self.post(row.id)
        return (len(self.posted), len(self.accepted)) != before or self.pass_time()

    def pass_time(self) -> bool:
        """Until somebody may be claimed."""
        instants = [at for at in map(claimable_at, self.rows()) if at is not None]
        if instants:
            self.world.now = max(self.world.now, min(instants) / MICROS_PER_SECOND) + 0.001
        return bool(instants)

    def drive(self, claim: Claim) -> None:
        self.held = Held(self.world, self.store, claim, self.world.monotonic() + LEASE_SECONDS)
        try:
            Runner(lambda state: self.engine, self.world, self.store, self.held).drive()
        except Died:
            self.world.now += 2 * LEASE_SECONDS
        finally:
            self.held = None

    def log(self, task: str) -> tuple[Entry, ...]:
        return self.store.read(task, 0, limit=10_000).entries

    def foretold(self) -> dict[str, Foretold]:
        """Of the whole workload, and of everybody who was born below it."""
        told = {one.task: one for one in foretell_all(self.load)}
        for row in self.rows():
            if row.id not in told:
                created = self.log(row.id)[0].event
                assert isinstance(created, TaskCreated)
                child = foretell_child(row.id, created.goal, root=told[created.root_task_id or ""])
                assert created.subtask_depth == depth_of(row.id)
                told[row.id] = child
        return told
