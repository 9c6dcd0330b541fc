"""The people of a simulation: they create the tasks and say what the case has them say, when it is due.

A client that is killed has a successor that remembers nothing: it creates and says everything again, under the same
ids and keys, and what the store knows already must change nothing.
"""

from __future__ import annotations

from typing import Final

from invariants.evidence import Attempt, Sent
from noeta.chaos.recording import MemorySink, RecordingStore, sent_of
from noeta.chaos.sim.cast import Cast
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.scripts import LEASE_SECONDS
from noeta.chaos.sim.server import Server
from noeta.chaos.sim.world import SimWorld
from noeta.core.store import NewTask
from noeta.core.task import TaskRow
from noeta.core.wake import Item
from scripted_model.workload import ScheduledMessage, answer_for, go_on_for, is_due

REPEAT_SECONDS: Final = LEASE_SECONDS / 2
"""When a message is posted once more: longer than a turn that nothing disturbs."""


class Client:
    """One process with an activity per task."""

    def __init__(self, process: SimProcess, server: Server, cast: Cast) -> None:
        self.sent: list[Sent] = []
        self._process = process
        self._server = server
        self._tasks = tuple(cast.new_tasks())
        self._own = {task.id: task for task in self._tasks}
        self._messages = tuple(cast.messages)
        self._world = SimWorld(process)
        self._sink = MemorySink()
        self._store = RecordingStore(
            server.handle(process), self._sink, process=process.name, clock=lambda: process.scheduler.now
        )
        self._created: set[str] = set()
        self._posted: set[str] = set()
        self._ended = 0

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """What it asked of the store."""
        return self._sink.attempts

    @property
    def done(self) -> bool:
        """Whether it has said everything, and nobody waits for words that are not scheduled."""
        return self._ended == len(self._tasks) and not self._asked_unforeseen()

    def start(self) -> None:
        """Begin with every task."""
        for task in self._tasks:
            self._process.start(f"of {task.id}", lambda task=task: self._attend(task))  # type: ignore[misc]
        self._process.start("of those below", self._answer_unforeseen)

    @property
    def may_say(self) -> bool:
        """Whether there is a message left for a task that exists."""
        return self._next() is not None

    def say_next(self) -> None:
        """Post the next message right now, due or not."""
        message = self._next()
        if message is not None:
            self._posted.add(message.key)
            self._send(message)

    def _next(self) -> ScheduledMessage | None:
        left = (m for m in self._messages if m.task in self._created and m.key not in self._posted)
        return next(left, None)

    def _attend(self, task: NewTask) -> None:
        self._world.point("create.before", task=task.id)
        self._store.create(task)
        self._world.point("create.after", task=task.id)
        self._created.add(task.id)
        messages = [message for message in self._messages if message.task == task.id]
        for place, message in enumerate(messages):
            self._wait_until_due(message, messages[:place])
            if message.delay_seconds and message.key not in self._posted:
                self._world.event().wait(message.delay_seconds)
            self._post(message)
            self._repeat(message)
        self._ended += 1

    def _wait_until_due(self, message: ScheduledMessage, earlier: list[ScheduledMessage]) -> None:
        while message.key not in self._posted:
            changed = self._world.event()
            self._server.watch(changed)
            if is_due(message, self._store.task(message.task), earlier, self._posted):
                return
            changed.wait()

    def _repeat(self, message: ScheduledMessage) -> None:
        """Post it again as often as the case says, each time twice: at once, and when its task has had the time to
        take it. A key must be known in both."""
        for _ in range(1, message.posts):
            self._send_at_points(message)
            self._world.event().wait(REPEAT_SECONDS)
            self._send_at_points(message)

    def _post(self, message: ScheduledMessage) -> None:
        """Once, or not at all if it was said before its time."""
        if message.key not in self._posted:
            self._posted.add(message.key)
            self._send_at_points(message)

    def _send_at_points(self, message: ScheduledMessage) -> None:
        self._world.point("post.before", task=message.task)
        self._send(message)
        self._world.point("post.after", task=message.task)

    def _send(self, message: ScheduledMessage) -> None:
        """Without a yield point: also called in the middle of another process's."""
        post = message.post_for(self._server.row(message.task))
        if post is not None:  # the question is over: nobody hears an answer
            self._post_item(message.task, *post)

    def _post_item(self, task: str, item: Item, key: str) -> None:
        posted = self._store.post(task, item, key)
        self.sent.append(sent_of(task, key, item, posted, self._server.now))

    def _answer_unforeseen(self) -> None:
        """What sub-agents ask is answered as soon as they wait for it: nobody knows them beforehand. So is a task that
        is parked: nobody knows when."""
        while True:
            changed = self._world.event()
            self._server.watch(changed)
            for task, item, key in self._asked_unforeseen():
                self._world.point("post.before", task=task)
                self._post_item(task, item, key)
                self._world.point("post.after", task=task)
            changed.wait()

    def _asked_unforeseen(self) -> list[tuple[str, Item, str]]:
        """The questions of sub-agents that wait for an answer, with it and its key, and the tasks that are parked, with
        what lets them go on."""
        found = [(row.id, self._unforeseen(row)) for row in self._server.rows()]
        return [(task, *answer) for task, answer in found if answer is not None]

    def _unforeseen(self, row: TaskRow) -> tuple[Item, str] | None:
        task = self._own.get(row.id)
        if task is None:
            return answer_for(row)
        return None if task.interactive else go_on_for(row.id, row)
