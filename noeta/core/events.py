"""The vocabulary of the log: facts, past tense, one line each.

An entry is an event with its position, the epoch it was written under and the store's time. The log is the
truth; the task row is only an accelerator for claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args

import msgspec
from msgspec import UNSET, UnsetType

from noeta.core.wake import HumanResponseReceived, Item, WakeCondition


class ToolCall(msgspec.Struct, frozen=True):
    """One tool call of a reply. ``id`` is minted from the log; the provider's own id is kept for the wire."""

    id: str
    tool: str
    input: Any
    provider_id: str = ""


class TaskCreated(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The first entry of every log: what is asked of which agent. ``interactive`` tasks wait for the next
    message after a turn, one-shot tasks end.

    ``parent_task_id`` gets the result, ``root_task_id`` is the top of the tree (None: the task itself), and
    ``subtask_depth`` counts the tasks above this one in whose calls it was born.
    """

    agent: str
    goal: str
    interactive: bool = False
    parent_task_id: str | None = None
    group: str | None = None
    root_task_id: str | None = None
    subtask_depth: int = 0


class MessageTaken(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The inbox item ``number`` was taken while the task ran: a message, an order to stop, or what a wait that is
    over still brought in (the model is not told of that)."""

    number: int
    message: Item


class TaskWoken(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The wait ended; the inbox items ``numbers`` were taken. Keeps: wake-once."""

    numbers: tuple[int, ...]
    event: Item


class ModelCalled(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A request is about to leave. Keeps: same-request.

    ``request_hash`` is SHA-256 over its canonical bytes; ``engine_hash`` over the agent's instructions and tools,
    so that a request that differs from the one before says why: the code that makes it changed.
    """

    request_hash: str
    attempt: int
    engine_hash: str = ""


class ModelReplied(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The model answered. ``stop`` is ``end``, ``tool_use`` or ``max_tokens``."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    stop: str = "end"


class ToolStarted(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The tool is about to run; ``start`` counts the starts of this call from 1. ``input``: what it runs with, if a
    gate rewrote what the model asked for."""

    call_id: str
    start: int
    input: Any | UnsetType = UNSET


class ApprovalAsked(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A gate wants a person's approval before the call is started; it waits for ``wake_on``. ``input``: what it would
    run with, if a gate rewrote it."""

    call_id: str
    wake_on: HumanResponseReceived
    question: str
    input: Any | UnsetType = UNSET


class ToolFinished(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The call has its result. ``source``: ``ran``, ``recovered`` (looked up), ``woken`` (it waited, and this came),
    ``denied`` (it was not started), or ``unknown``. ``children``: the tasks born with this entry, which nobody waits
    for. Keeps: children-once."""

    call_id: str
    output: str
    is_error: bool = False
    source: str = "ran"
    children: tuple[str, ...] = ()


class ToolParked(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The tool has run, and the call waits for its answer. ``children``: the tasks born with this entry, whose results
    are the answer. Keeps: children-once."""

    call_id: str
    wake_on: WakeCondition
    children: tuple[str, ...] = ()


class StepAttemptAbandoned(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A takeover sealed what its predecessor left half done from this seq on; the model call in it is given up."""

    abandoned_from_seq: int
    reason: str


class NoticeGiven(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The runtime says something to people, not to the model: why the task was parked, and about which calls."""

    text: str


class JobStarted(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A background job is about to be started by the owner of the task. Keeps: jobs-told-once."""

    job_id: str
    command: str


class JobEnded(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A job has ended, and nothing of it is left: see ``jobs.JobEnd``. The model is told. Keeps: jobs-told-once."""

    job_id: str
    how: str
    exit_code: int | None = None
    signal: int | None = None
    output: str = ""
    detail: str = ""


class JobLost(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The owner that a job belonged to is gone, and the job with it; nobody knows how far it came. The model is told.
    Keeps: jobs-told-once."""

    job_id: str


class CronSet(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """An entry of the task's cron table was made; occurrences after ``since`` (seconds since the epoch) count."""

    cron_id: str
    expression: str
    zone: str
    prompt: str
    since: float


class CronRemoved(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """An entry of the cron table was taken away."""

    cron_id: str


class CronFired(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The occurrence at ``due_at`` (seconds since the epoch) begins a turn, or joins the one that another began;
    ``missed`` older ones were skipped, since nobody was there. Keeps: timers-once."""

    cron_id: str
    due_at: float
    missed: int = 0


class TurnFailed(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The turn ended without an answer: ``llm_error``, ``llm_truncated``, ``internal_error``. Keeps: bounded."""

    reason: str
    message: str


class TaskSuspended(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The task waits for ``wake_on``, with the turn's answer if there was one. ``reason``: why it rests without an
    answer: ``turn_failed: <code>``, ``closed`` or ``cancelled`` and what the order said."""

    wake_on: WakeCondition
    answer: str | None = None
    reason: str = ""


class TaskCompleted(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The task ended with its answer (None: the model gave none)."""

    answer: str | None = None


class TaskFailed(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The task ended failed; ``reason`` is a stable code, ``message`` says more. Keeps: bounded."""

    reason: str
    message: str = ""


class TaskCancelled(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The task was ended from outside."""

    reason: str = ""


Event = (
    TaskCreated
    | MessageTaken
    | TaskWoken
    | ModelCalled
    | ModelReplied
    | ApprovalAsked
    | ToolStarted
    | ToolFinished
    | ToolParked
    | StepAttemptAbandoned
    | NoticeGiven
    | JobStarted
    | JobEnded
    | JobLost
    | CronSet
    | CronRemoved
    | CronFired
    | TurnFailed
    | TaskSuspended
    | TaskCompleted
    | TaskFailed
    | TaskCancelled
)
Ending = TaskCompleted | TaskFailed | TaskCancelled
"""The terminal events: nothing follows them. Keeps: terminal-is-final."""

EVENT_TYPES: Final = frozenset(kind.__name__ for union in (Event, Item) for kind in get_args(union))
"""Every type tag this version can read: another tag means that a newer version wrote the entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in its place. ``at`` is the store's time in microseconds; ``body`` the stored bytes, as text."""

    seq: int
    epoch: int
    at: int
    event: Event
    body: str


def numbers_taken(event: Event) -> tuple[int, ...]:
    """The inbox items this event takes. Keeps: taken-once."""
    match event:
        case MessageTaken():
            return (event.number,)
        case TaskWoken():
            return event.numbers
        case _:
            return ()
