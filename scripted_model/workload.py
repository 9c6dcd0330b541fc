"""A workload as data: scripted tasks, and what clients say to them and when.

Times are relative, to something the client sees (a task that waits, a task that runs), never to a wall clock,
so that the same workload fits a slow machine and the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from noeta.core import codec
from noeta.core.task import Status, TaskRow
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from scripted_model.script import Script, to_goal

AGENT: Final = "scripted"
"""The agent that plays scripts."""


class ScriptedTask(msgspec.Struct, frozen=True):
    """A task to create: ``goal`` is ``script.to_goal()``. ``delay_seconds``: after the load, until it is due."""

    id: str
    script: Script
    delay_seconds: float = 0.0

    @property
    def goal(self) -> str:
        """The task's first message."""
        return to_goal(self.script)

    @property
    def interactive(self) -> bool:
        """Whether the task waits for a message after each turn."""
        return self.script.interactive


class ScheduledMessage(msgspec.Struct, frozen=True):
    """Something a client says to a task.

    ``kind``: a ``turn`` message starts turn ``turn`` and is posted while the task waits; a ``note`` belongs
    to turn ``turn``, is posted while the task runs (or waits already) and changes nothing. ``delay_seconds``:
    from the moment ``is_due`` says so. ``posts``: how often it is posted, always under the same key.
    ``may_be_refused``: the task may have ended by then.
    """

    task: str
    number: int
    kind: Literal["turn", "note"]
    turn: int
    text: str
    delay_seconds: float = 0.0
    posts: int = 1
    may_be_refused: bool = False

    @property
    def key(self) -> str:
        """The dedupe key, the same for every post of this message."""
        return f"human:{NEXT_GOAL}:{self.task}/{self.number}"

    @property
    def item(self) -> HumanResponseReceived:
        """What is posted."""
        return HumanResponseReceived(NEXT_GOAL, self.text)


class Workload(msgspec.Struct, frozen=True):
    """Everything a run loads. Messages stand in the order in which each task's client posts them.

    ``retry_attempts`` is the retry policy the scripts were written for: a runtime with a smaller one ends
    other turns than foretold.
    """

    seed: str
    lease_seconds: float
    retry_attempts: int
    tasks: tuple[ScriptedTask, ...]
    messages: tuple[ScheduledMessage, ...]

    def messages_of(self, task: str) -> tuple[ScheduledMessage, ...]:
        """What is said to one task, in order."""
        return tuple(message for message in self.messages if message.task == task)

    def to_json(self) -> bytes:
        """The same workload gives the same bytes."""
        return codec.canonical(self)


def from_json(body: bytes) -> Workload:
    """A workload as ``to_json`` wrote it.

    Raises:
        msgspec.DecodeError: it is something else.
    """
    return msgspec.json.decode(body, type=Workload)


def is_due(message: ScheduledMessage, row: TaskRow, earlier: Iterable[ScheduledMessage], posted: set[str]) -> bool:
    """Whether a client that sees this row should post the message now (``delay_seconds`` later).

    ``earlier``: the messages before it in the order of its task; ``posted``: the keys of those already
    posted. A task that has ended makes everything due: the refusal is evidence, an endless wait is none.
    """
    if any(before.key not in posted for before in earlier):
        return False
    if message.kind == "turn":
        return row.status in (Status.SUSPENDED, Status.TERMINAL)
    return row.status is not Status.PENDING
