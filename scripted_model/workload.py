"""A workload as data: scripted tasks, and what clients say to them and when.

Times are relative, to something the client sees (a task that waits, a task that runs), never to a wall clock,
so that the same workload fits a slow machine and the simulator. Whether something is due is decided from the
task's row alone: a client that died has a successor that knows nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, Protocol

import msgspec

from noeta.core import codec
from noeta.core.ids import sha256_text
from noeta.core.task import Status
from noeta.core.texts import APPROVE
from noeta.core.wake import (
    CANCEL,
    CLOSE,
    NEXT_GOAL,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    WakeCondition,
)
from scripted_model.script import AGENT as AGENT
from scripted_model.script import Script, to_goal
from scripted_model.words import POSTED_ODD, with_odd

QUESTION_PREFIX: Final = "question:"
"""How the handle of a question begins; the task and the call that ask follow."""

APPROVAL_PREFIX: Final = "approval:"
"""How the handle begins under which a person says whether a call may start; the task and the call follow."""

REFUSAL: Final = "no, leave it"
"""What is said to a call that is not approved."""

GO_ON: Final = "go on: nobody knows what it did"
"""What is said to a task that is parked."""

MessageKind = Literal["turn", "note", "answer", "decision", "event", "cancel", "close"]


class Row(Protocol):
    """What a client must see of a task: a ``TaskRow``, or a sample of one."""

    @property
    def status(self) -> Status: ...

    @property
    def wake_on(self) -> WakeCondition | None: ...

    @property
    def last_seq(self) -> int: ...


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


class ScheduledMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something a client says to a task, or does to it. By ``kind``:

    * ``turn``: starts turn ``turn``; posted while the task waits for its next goal.
    * ``note``: belongs to turn ``turn``, is posted while the task runs (or waits already) and changes nothing.
    * ``answer``: to the question that the task waits for when it is posted. The question's handle is in the row
      (``post_for``), so that key and text are known only then.
    * ``decision``: whether the call that waits for that when it is posted may start; otherwise like an answer.
    * ``event``: of ``event_kind``, with ``payload``, which may be null.
    * ``cancel``: ends the task. ``close``: stops the turn of an interactive task.

    ``when``: from when on events, cancels and closes are due: ``created`` (at once: an event may come before anybody
    waits for it), ``begun`` (a worker has had it) or ``waiting`` (it is suspended; an event: until somebody outside
    does something). ``delay_seconds``: from the moment ``is_due`` says so. ``posts``: how often it is posted,
    always under the same key. ``may_be_refused``: the task may have ended by then.
    """

    task: str
    number: int
    kind: MessageKind
    turn: int
    text: str = ""
    delay_seconds: float = 0.0
    posts: int = 1
    may_be_refused: bool = False
    when: Literal["created", "begun", "waiting"] = "begun"
    event_kind: str = ""
    payload: Any = None

    @property
    def key(self) -> str:
        """The dedupe key, the same for every post of this message. Of an answer or a decision only a name: see
        ``post_for``."""
        name = f"{self.task}/{self.number}"
        match self.kind:
            case "turn" | "note":
                return f"human:{NEXT_GOAL}:{name}"
            case "event":
                return f"event:{self.event_kind}:{name}"
            case "answer" | "decision" | "cancel" | "close":
                return f"{self.kind}:{name}"

    @property
    def item(self) -> Item:
        """What is posted.

        Raises:
            ValueError: it is an answer or a decision, whose handle stands in the row: ``post_for`` reads it.
        """
        match self.kind:
            case "turn" | "note":
                return HumanResponseReceived(NEXT_GOAL, self.text)
            case "event":
                return ExternalEvent(self.event_kind, self.payload)
            case "cancel" | "close":
                return ControlReceived(CANCEL if self.kind == "cancel" else CLOSE, self.text)
            case "answer" | "decision":
                raise ValueError(f"{self.key}: the handle of a question stands in the row that waits for it")

    def post_for(self, row: Row) -> tuple[Item, str] | None:
        """What is posted to a task with this row, and under which key; None: an answer or a decision that nobody waits
        for (any more), which is passed over."""
        if self.kind == "decision":
            asked = _asked_of(row, APPROVAL_PREFIX)
            return None if asked is None else _decision_on(asked.handle, self.text)
        if self.kind != "answer":
            return self.item, self.key
        question = _asked_of(row, QUESTION_PREFIX)
        return None if question is None else _answer_to(question.handle)


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


def is_due(message: ScheduledMessage, row: Row, earlier: Iterable[ScheduledMessage], posted: set[str]) -> bool:
    """Whether a client that sees this row should post the message now (``delay_seconds`` later).

    ``earlier``: the messages before it in the order of its task; ``posted``: the keys of those already
    posted. The row must have been read after the last of these posts. A task that has ended makes everything due:
    the refusal is evidence, an endless wait is none. So does, for what is due only while it waits, a task that waits
    for something else that only a client can bring: what this message is for is behind it, for somebody who died
    since has posted it before.
    """
    if any(before.key not in posted for before in earlier):
        return False
    if row.status is Status.TERMINAL:
        return True
    match message.kind:
        case "turn":
            # Or for what only a message before this one could bring, which somebody else has posted then.
            return _waits_for_client(row) and not _has_limit(row)
        case "answer" | "decision":
            return _waits_for_client(row)
        case "event" if message.when == "waiting":
            return _waits_for_client(row)
        case "note":
            return row.status is not Status.PENDING
        case "event" | "cancel" | "close":
            return {
                "created": True,
                "begun": row.status is not Status.PENDING,
                "waiting": row.status is Status.SUSPENDED,
            }[message.when]


def answer_for(row: Row) -> tuple[Item, str] | None:
    """What is said to a task that waits for the answer to a question, and its key; None if it waits for none, or only
    for a time.

    For every descendant of a task of the workload: their ids are not known beforehand, so that nobody could schedule
    what is said to them. Item and key are functions of the handle, so that several clients, or one again, are one;
    a scheduled ``answer`` is the same, too. A question with a time limit is left to it. About one sub-agent in four is
    not answered but cancelled, under ``child_cancel_key``: its parent goes on all the same. A call that waits for an
    approval gets it.
    """
    asked = _asked_of(row, APPROVAL_PREFIX)
    if asked is not None:
        return _decision_on(asked.handle, APPROVE)
    question = _asked_of(row, QUESTION_PREFIX)
    if question is None or question.timeout_at is not None:
        return None
    task, _, _ = question.handle.removeprefix(QUESTION_PREFIX).rpartition(":")
    if "." in task and int(sha256_text(question.handle)[2], 16) < 4:
        return ControlReceived(CANCEL, "nobody answers"), child_cancel_key(task)
    return _answer_to(question.handle)


def child_cancel_key(task: str) -> str:
    """The key under which ``answer_for`` cancels a sub-agent."""
    return f"cancel:{task}"


def _answer_to(handle: str) -> tuple[HumanResponseReceived, str]:
    digest = sha256_text(handle)
    odd = POSTED_ODD[int(digest[0], 16) % len(POSTED_ODD)] if int(digest[1], 16) < 4 else None
    return HumanResponseReceived(handle, with_odd(f"the answer is {digest[:16]}", odd)), f"human:{handle}:answer"


def go_on_for(task: str, row: Row) -> tuple[Item, str] | None:
    """What is said to a one-shot task that is parked, and its key; None if it is not.

    Such a task waits for its next goal then, and at no other time. It may be parked more than once: the key names the
    length of its log, so that several clients, or one again, are one, and each park is answered.
    """
    wake_on = row.wake_on
    if row.status is not Status.SUSPENDED or wake_on != HumanResponseReceived(NEXT_GOAL):
        return None
    return HumanResponseReceived(NEXT_GOAL, GO_ON), f"human:{NEXT_GOAL}:{task}/goes-on/{row.last_seq}"


def _decision_on(handle: str, text: str) -> tuple[HumanResponseReceived, str]:
    return HumanResponseReceived(handle, text), f"human:{handle}:decision"


def _asked_of(row: Row, prefix: str) -> HumanResponseReceived | None:
    """What a person is asked under such a handle."""
    wake_on = row.wake_on
    if row.status is Status.SUSPENDED and isinstance(wake_on, HumanResponseReceived):
        return wake_on if wake_on.handle.startswith(prefix) else None
    return None


def _waits_for_client(row: Row) -> bool:
    return row.status is Status.SUSPENDED and isinstance(row.wake_on, HumanResponseReceived | ExternalEvent)


def _has_limit(row: Row) -> bool:
    """Whether its wait ends by itself. A rest between turns does not: what its cron table begins is a turn, too."""
    match row.wake_on:
        case HumanResponseReceived(handle=handle, timeout_at=timeout_at):
            return timeout_at is not None and handle != NEXT_GOAL
        case ExternalEvent(timeout_at=timeout_at):
            return timeout_at is not None
        case _:
            return False
