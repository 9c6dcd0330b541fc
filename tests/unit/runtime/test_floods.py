"""An inbox that never stands still: a task still ends or rests, and nothing that was sent is lost.

https://github.com/temporalio/temporal/issues/4137, https://github.com/temporalio/temporal/issues/8097
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from noeta.backends.stores.around import AroundStore, Call
from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import TaskCompleted, TaskSuspended, numbers_taken
from noeta.core.runner import Engine
from noeta.core.runner.runner import LOOKS_MAX, MOVED_ENDINGS_MAX
from noeta.core.store import NewTask, Store
from noeta.core.task import Status
from noeta.core.wake import ExternalEvent, HumanResponseReceived, Item
from noeta.plugins import waiting_tools
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle
from tests.actors import Model, engine, says
from tests.unit.runtime.machines import asks_timer

T = TypeVar("T")
ENDLESS = 200
"""Items after which whoever sends them gives up: the task did not come to an end."""


class Flooded(AroundStore):
    """A store in which somebody posts one more item right before every append."""

    def __init__(self, inner: Store, item: Callable[[int], Item]) -> None:
        super().__init__(inner)
        self._item = item
        self.sent = 0
        self.appends = 0

    def around(self, call: Call, do: Callable[[], T]) -> T:
        if call.verb == "append":
            self.appends += 1
            assert self.sent < ENDLESS, "the task does not come to an end"
            if self.inner.post("t", self._item(self.sent)).outcome == "stored":
                self.sent += 1
        return do()


def flooded(agent: Engine, item: Callable[[int], Item], **task: Any) -> tuple[MemoryStore, Flooded, WorkerLoop]:
    memory = MemoryStore(lambda: 1_000.0)
    memory.create(NewTask("t", "main", "goal", **task))
    store = Flooded(memory, item)
    return memory, store, WorkerLoop(bundle(store, agent), heartbeat_interval=0.0)


def accounted(store: MemoryStore) -> tuple[int, int, int]:
    """How many items were taken, are unread, and were stamped by the end."""
    page = store.read("t")
    taken = sum(len(numbers_taken(entry.event)) for entry in page.entries)
    stamped = sum(item.unread_at is not None for item in store._tasks["t"].items)
    return taken, len(page.unread), stamped


def test_news_that_nobody_waits_for_does_not_keep_a_task_from_its_end() -> None:
    """Keeps: bounded, taken-once."""
    memory, store, loop = flooded(engine(Model((says("done"),))), lambda n: ExternalEvent("noise", n))

    loop.tick()

    assert memory.read("t").entries[-1].event == TaskCompleted("done")
    assert store.appends <= MOVED_ENDINGS_MAX + 3
    assert accounted(memory) == (0, 0, store.sent)


def test_messages_that_never_cease_are_each_taken_or_stamped() -> None:
    """Keeps: bounded, taken-once."""
    replies = tuple(says(f"answer {n}") for n in range(ENDLESS))
    memory, store, loop = flooded(engine(Model(replies)), lambda n: HumanResponseReceived(text=f"message {n}"))

    loop.tick()

    taken, unread, stamped = accounted(memory)
    assert memory.task("t").status is Status.TERMINAL
    assert (unread, taken + stamped) == (0, store.sent)
    assert taken >= MOVED_ENDINGS_MAX


def test_news_that_nobody_waits_for_costs_a_waiting_task_a_bounded_number_of_looks() -> None:
    """Then it is left pending, and the next claim goes on: no worker is kept by it. Keeps: bounded, wake-once."""
    agent = engine(Model((asks_timer(1e6), says("done"))), *waiting_tools().values())
    memory, store, loop = flooded(agent, lambda n: ExternalEvent("noise", n))
    loop.tick()
    assert memory.task("t").status is Status.PENDING  # the inbox moved while it suspended
    assert isinstance(memory.read("t").entries[-1].event, TaskSuspended)
    before, entries = store.appends, memory.task("t").last_seq

    loop.tick()

    assert store.appends - before == LOOKS_MAX
    assert (memory.task("t").status, memory.task("t").last_seq) == (Status.PENDING, entries)
    quiet = WorkerLoop(bundle(memory, agent), heartbeat_interval=0.0)
    quiet.tick()
    assert memory.task("t").status is Status.SUSPENDED
    assert quiet.tick() is False
