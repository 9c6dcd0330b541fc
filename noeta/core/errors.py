"""The error tree, sorted by what the caller does next.

::

    NoetaError(code)                stable code, safe to match on; never match on the text
    ├── StoreUnavailable            nothing was written; the caller may try again later
    ├── CommitUnknown               it may have landed; never retry blindly, read the log
    ├── Conflict                    somebody else was first: stop, write nothing more, charge nobody
    │   └── InvalidLease            the claim is lost or its lease is over
    ├── IllegalTransition           names the task, its status and the command; nothing changed
    ├── UnknownTask                 there is no such task; nothing changed
    ├── BadInput                    names the field, the limit and the value; before any side effect
    │   └── DuplicateTask           the id is taken by a task with other content
    ├── ContentNotFound             no content has this hash
    └── UnreadableLog               newer version (leave it to a newer worker) or corrupt (end the task)
"""

from __future__ import annotations

from functools import partial


class NoetaError(Exception):
    """Base of every error noeta raises on purpose."""

    code = "noeta_error"


class StoreUnavailable(NoetaError):
    """The store could not be asked, and nothing was written. Stop this step; the lease runs out."""

    code = "store_unavailable"


class CommitUnknown(NoetaError):
    """The write may or may not have landed, and may still land. Stop as if the claim were lost."""

    code = "commit_unknown"


class Conflict(NoetaError):
    """The fence refused the write and nothing was written. Keeps: one-writer."""

    code = "conflict"


class InvalidLease(Conflict):
    """The claim was taken over, released, or its lease is over by the store's clock."""

    code = "invalid_lease"


class IllegalTransition(NoetaError):
    """The command does not apply to the task's status; nothing changed."""

    code = "illegal_transition"


class UnknownTask(NoetaError):
    """There is no task with this id; nothing changed."""

    code = "unknown_task"

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {task_id!r}")
        self.task_id = task_id

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.task_id,)


class BadInput(NoetaError):
    """A value was refused before any side effect; names the field, the limit and the value."""

    code = "bad_input"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross processes: a pool that cannot read one is broken by it."""
        return type(self), (self.field, self.problem)


class DuplicateTask(BadInput):
    """A task with this id exists and was created with other content; nothing changed."""

    code = "duplicate_task"


class ContentNotFound(NoetaError):
    """The content store holds no body with this hash."""

    code = "content_not_found"


class UnreadableLog(NoetaError):
    """The log holds an entry this version cannot decode.

    ``newer`` tells the two cases apart: written by a newer version (leave the task to a newer worker), or
    damaged (the task ends failed after ``LOAD_ATTEMPTS`` claims).
    """

    code = "unreadable_log"

    def __init__(self, message: str, *, newer: bool) -> None:
        super().__init__(message)
        self.newer = newer

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), newer=self.newer), self.args
