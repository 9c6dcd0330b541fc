"""Clients that talk to tasks: they post messages while a task runs and while it waits, and write down every answer.

A post whose outcome is unknown is repeated with the same key until it is known: that is what a client must do, and
what the dedupe key is for. Some messages are posted several times on purpose. What sub-agents ask is answered by one
more client, as soon as it is seen that they wait: nobody knows their ids beforehand.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from noeta.chaos.board import Board
from noeta.chaos.history import History
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable
from noeta.core.store import Store
from noeta.core.wake import Item
from scripted_model import ScheduledMessage
from scripted_model.workload import answer_for, go_on_for, is_due

LOOK_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 0.2


@dataclass(slots=True)
class _Talk:
    """What is still to be said to one task, in order; ``due_at`` of the first, once it is due. ``believes_from``: the
    first sample of the board that was surely taken after the last post. ``post``: item and key of the first, once it
    was sent."""

    left: deque[ScheduledMessage]
    due_at: float | None = None
    posts_made: int = 0
    believes_from: int = 0
    post: tuple[Item, str] | None = None

    def done(self) -> None:
        """The first message is said."""
        self.left.popleft()
        self.due_at, self.posts_made, self.post = None, 0, None


@dataclass(slots=True)
class Told:
    """What became of the clients' posts, by the store's word for it, and posts that no answer settled."""

    outcomes: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    refused: list[str] = field(default_factory=list)

    def count(self, outcome: str) -> None:
        """One more of these."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    @property
    def posted(self) -> int:
        """Posts that were answered."""
        return sum(self.outcomes.values())


class Clients:
    """Threads that say what the workload schedules. Each task is talked to by one of them, in order.

    One more answers what nobody could schedule: sub-agents that ask, and tasks of ``one_shot`` that are parked.
    """

    def __init__(
        self,
        store: Store,
        messages: Iterable[ScheduledMessage],
        board: Board,
        history: History,
        *,
        one_shot: Collection[str] = (),
        threads: int = 2,
    ) -> None:
        self.told = Told()
        self._one_shot = frozenset(one_shot)
        self._store, self._board, self._history = store, board, history
        self._lock = threading.Lock()
        self._stop = threading.Event()
        by_task: dict[str, _Talk] = {}
        for message in messages:
            by_task.setdefault(message.task, _Talk(deque())).left.append(message)
        self._talks: list[dict[str, _Talk]] = [{} for _ in range(threads)]
        for place, (task, talk) in enumerate(sorted(by_task.items())):
            self._talks[place % threads][task] = talk
        self._threads = [
            threading.Thread(target=self._run, args=(f"client-{n}", talks), name=f"client-{n}", daemon=True)
            for n, talks in enumerate(self._talks, start=1)
        ]
        self._threads.append(threading.Thread(target=self._answer, name="client-below", daemon=True))

    def start(self) -> None:
        """Begin to talk."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """End after the posts in flight; whether all did in time."""
        self._stop.set()
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def unsaid(self, tasks: Sequence[str]) -> list[str]:
        """Keys of messages to these tasks whose post has no answer yet."""
        wanted = set(tasks)
        with self._lock:
            return [
                message.key
                for talks in self._talks
                for task, talk in talks.items()
                if task in wanted
                for message in talk.left
            ]

    def _run(self, name: str, talks: dict[str, _Talk]) -> None:
        while not self._stop.is_set():
            for task, talk in talks.items():
                if talk.left and self._is_time(task, talk):
                    self._post(name, talk)
                if self._stop.is_set():
                    return
            self._stop.wait(LOOK_SECONDS)

    def _answer(self) -> None:
        """Answer every sub-agent that asks, and every one-shot task that is parked, once."""
        answered: set[str] = set()
        while not self._stop.wait(LOOK_SECONDS):
            for task, seen in self._board.all().items():
                answer = None
                if "." in task:
                    answer = answer_for(seen.sample)
                elif task in self._one_shot:
                    answer = go_on_for(task, seen.sample)
                if answer is None or answer[1] in answered or self._stop.is_set():
                    continue
                try:
                    posted = self._history.post("client-below", self._store, task, *answer)
                except (StoreUnavailable, CommitUnknown):
                    continue  # it still waits: again with the next look
                answered.add(answer[1])
                with self._lock:
                    self.told.count(posted.outcome)

    def _is_time(self, task: str, talk: _Talk) -> bool:
        """Whether the first message may be posted now: its task was seen as its kind asks, some time ago.

        The rule of ``scripted_model.is_due``, over sampled rows: one sampled before the last post says nothing about
        now.
        """
        if talk.due_at is None:
            seen = self._board.get(task)
            if seen is None or self._board.shown < talk.believes_from:
                return False
            message = talk.left[0]
            if not is_due(message, seen.sample, (), set()):
                return False
            talk.due_at = time.monotonic() + message.delay_seconds
        return time.monotonic() >= talk.due_at

    def _post(self, name: str, talk: _Talk) -> None:
        message = talk.left[0]
        talk.post = talk.post or self._post_of(message)
        if talk.post is None:  # an answer to a question that is over
            with self._lock:
                talk.done()
            return
        try:
            posted = self._history.post(name, self._store, message.task, *talk.post)
        except (StoreUnavailable, CommitUnknown):
            with self._lock:
                self.told.retries += 1
            self._stop.wait(RETRY_SECONDS)
            return
        except NoetaError as error:
            with self._lock:
                self.told.refused.append(f"{message.key}: {error}")
                talk.done()
            return
        talk.posts_made += 1
        with self._lock:
            self.told.count(posted.outcome)
            if talk.posts_made >= message.posts:
                talk.done()
                # The sample in progress may have begun before the post: the one after it did not.
                talk.believes_from = self._board.shown + 2

    def _post_of(self, message: ScheduledMessage) -> tuple[Item, str] | None:
        """What is posted, given the newest sample of its task."""
        seen = self._board.get(message.task)
        assert seen is not None, message
        return message.post_for(seen.sample)
