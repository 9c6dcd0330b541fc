"""The stage on which the real runner plays a workload: the memory store, a still clock, and clients between drives.

No threads: waiting moves the clock, a death is a drive that ends at once, and the next claim comes when the lease has
lapsed. Clients post between drives, and in the middle of them, at the tools' own points. A task with a background shell
rests with its claim kept, and goes on under it, until a death takes all shells and kept claims of the one worker along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import CronFired, Entry, TaskCreated
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.retry import RetryPolicy
from noeta.core.runner.lease import Held
from noeta.core.runner.runner import Runner
from noeta.core.store import NewTask
from noeta.core.task import TaskRow, claimable_at
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived, Item
from noeta.core.world import Event, Spawned
from noeta.plugins import waiting_tools
from noeta.plugins.cron import CronCreate, CronDelete
from noeta.plugins.shell import shell_tools
from scripted_model.app import engine_for, make_engine
from scripted_model.foretell import Foretold, depth_of, foretell_all, foretell_child
from scripted_model.journal import JournalBook, MemoryJournal
from scripted_model.workload import AGENT, Workload, answer_for, go_on_for, is_due
from tests.unit.scripted_model.driving import Died, die
from tests.unit.scripted_model.still_jobs import StillJobs

LEASE_SECONDS = 1_000.0
FIRINGS_WATCHED = 3
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
    kept: dict[str, Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.one_shot = {task.id for task in self.load.tasks if not task.interactive}
        self.store = MemoryStore(self.world.wall)
        self.world.at_point = lambda name, facts: self.post(facts["task"]) if name == "tool.before_journal" else None
        self.engine = make_engine(
            MemoryJournal(self.book, "w1", self.world.wall),
            retry=RetryPolicy(ATTEMPTS, 0.001, 0.001),
            die=die,
            pause=lambda seconds: None,
            more_tools=(*waiting_tools().values(), *shell_tools().values(), CronCreate(), CronDelete()),
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
        row = self.store.task(task)
        answer = answer_for(row) if "." in task else None
        if task in self.one_shot:
            answer = go_on_for(task, row)
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
        elif task in self.kept:
            self.kept[task].heard = True

    def run(self) -> None:
        for task in self.load.tasks:
            self.store.create(NewTask(task.id, AGENT, task.goal, interactive=task.interactive))
        while True:
            if self.resume():
                continue
            found = self.store.claim("w1", None, LEASE_SECONDS, limit=1)
            if found.claims:
                (claim,) = found.claims
                self.kept.pop(claim.task_id, None)
                held = Held(self.world, self.store, claim, self.world.monotonic() + LEASE_SECONDS)
                held.saw_store_time(found.now)
                self.drive(held)
            elif not self.advance():
                return

    def resume(self) -> bool:
        """Go on with a task whose claim was kept, if something came for it; whether there is one."""
        for task, held in list(self.kept.items()):
            self.store.renew([held.claim], LEASE_SECONDS)
            held.deadline = self.world.monotonic() + LEASE_SECONDS
            jobs = held.jobs
            assert jobs is not None
            due = self.store.task(task).ready_at
            moved = self.store.task(task).inbox_seq > held.inbox_seq
            if held.heard or moved or jobs.ended() or (due is not None and due <= micros(self.world.now)):
                del self.kept[task]
                resumed = self.store.resume(held.claim)
                held.inbox_seq = max(held.inbox_seq, resumed.inbox_seq)
                held.resumed()
                self.drive(held)
                return True
        return False

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
        instants = [at for row in self.rows() if row.id not in self.kept and (at := self.next_at(row)) is not None]
        for task, held in self.kept.items():
            assert isinstance(held.jobs, StillJobs)
            ends = [held.jobs.ends_at(job) for job in held.jobs.live()]
            instants += [micros(end) for end in ends if end is not None]
            due = self.store.task(task).ready_at
            instants += [] if due is None else [due]
        if instants:
            self.world.now = max(self.world.now, min(instants) / MICROS_PER_SECOND) + 0.001
        return bool(instants)

    def next_at(self, row: TaskRow) -> int | None:
        """When it may be claimed. A cron table is watched for a few occurrences: then it is for its client to act."""
        wake_on = row.wake_on
        rests = isinstance(wake_on, HumanResponseReceived) and wake_on.handle == NEXT_GOAL and row.ready_at is not None
        fired = sum(isinstance(entry.event, CronFired) for entry in self.log(row.id)) if rests else 0
        return None if fired >= FIRINGS_WATCHED else claimable_at(row)

    def drive(self, held: Held) -> None:
        self.held = held
        if held.jobs is None:
            held.jobs = StillJobs(self.world.monotonic, self.world.event)
        try:
            Runner(lambda state: engine_for(state, self.engine), self.world, self.store, held).drive()
        except Died:
            self.world.now += 2 * LEASE_SECONDS
            self.kept.clear()
        else:
            if held.kept:
                self.kept[held.claim.task_id] = held
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
