"""Ids and how they are derived: the same inputs give the same id on every worker.

Task ids given by users hold no ``.``, because a child's id is its parent's id, the call and a number joined
by dots: ids of children sort after their parent's, which is the lock order (`docs/adr/0001`).
"""

from __future__ import annotations

import hashlib
from typing import Final, NewType

from noeta.core import limits
from noeta.core.errors import BadInput

TaskId = NewType("TaskId", str)
CallId = NewType("CallId", str)
Micros = NewType("Micros", int)
"""An instant or a span in whole microseconds. Instants count from the Unix epoch."""

MICROS_PER_SECOND: Final = 1_000_000

CHILD_KEY: Final = "child:"
"""How the key of a child's result begins: only its ending makes one."""

TIMER_KEY: Final = "timer:"
"""How the key of a timer's item begins: only the store makes one."""


def micros(seconds: float) -> Micros:
    """Seconds as whole microseconds, the unit of every instant below the world seam."""
    return Micros(round(seconds * MICROS_PER_SECOND))


def check_name(field: str, value: str, *, chars_max: int = limits.NAME_CHARS_MAX) -> str:
    """Refuse a name that some store could not hold: empty, too long (in characters, or in bytes: an index
    counts bytes), NUL, lone surrogates."""
    found: object = value  # callers without a type checker are told, too
    if not isinstance(found, str):
        raise BadInput(field, f"expected text, found {type(found).__name__}")
    if not value:
        raise BadInput(field, "must not be empty")
    if len(value) > chars_max:
        raise BadInput(field, f"at most {chars_max} characters, found {len(value)}")
    if "\x00" in value:
        raise BadInput(field, f"must not contain NUL, found one at character {value.index(chr(0))}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise BadInput(field, f"must not contain a lone surrogate, found one at character {error.start}") from error
    bytes_max = limits.NAME_BYTES_MAX if chars_max <= limits.NAME_CHARS_MAX else limits.KEY_BYTES_MAX
    if size > bytes_max:
        raise BadInput(field, f"at most {bytes_max} bytes as UTF-8, found {size} in {value[:20]!r}…")
    return value


def check_task_id(value: str) -> TaskId:
    """A task id from a user: a name without ``.``, which is kept for derived ids."""
    check_name("task_id", value, chars_max=limits.TASK_ID_CHARS_MAX)
    if "." in value:
        raise BadInput("task_id", f"must not contain '.', which is kept for derived ids, found {value!r}")
    return TaskId(value)


def call_id(replied_seq: int, index: int) -> CallId:
    """The id of a tool call: minted from the log, so that every fold gives the same one."""
    return CallId(f"{replied_seq}-{index}")


def child_id(parent: str, call: str, number: int) -> TaskId:
    """The id of a child task, derived from the call that creates it. Keeps: children-once."""
    return TaskId(f"{parent}.{call}.{number}")


def idempotency_key(task_id: str, call: str) -> str:
    """What a tool passes to an outside system so that a repeat is dropped: the same on every worker."""
    return f"{task_id}:{call}"


def timer_key(task_id: str, suspended_seq: int) -> str:
    """The dedupe key of the timer that the ``TaskSuspended`` at this seq asked for. Keeps: timers-once."""
    return f"{TIMER_KEY}{task_id}:{suspended_seq}"


def lease_id(epoch: int, token: str) -> str:
    """The text form of the fence: (epoch, claim token)."""
    return f"{epoch}:{token}"


def sha256_text(text: str) -> str:
    """Hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_bytes(body: bytes) -> str:
    """Hex SHA-256 of bytes: the address of a content body."""
    return hashlib.sha256(body).hexdigest()
