"""Sorts what went wrong with a statement by what the caller may conclude.

By SQLSTATE, by constraint name, and by whether the first byte was sent; never by message text. The table is
the one of the store contract: an error that came for the statement means that nothing was written; silence
after the first byte means that a write may have landed. Keeps: acked-stays.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from noeta.core.errors import BadInput, CommitUnknown, Conflict, NoetaError, StoreUnavailable


class SchemaMismatch(StoreUnavailable):
    """The schema is missing, older or newer than this version needs; only `noeta migrate` or an update helps."""

    code = "schema_mismatch"


class UnsafeServer(StoreUnavailable):
    """The server or the session does not keep what the store must promise; the message names the setting."""

    code = "unsafe_server"


class Sent(Enum):
    """How far a statement got when it failed."""

    NOTHING = "nothing"
    """No byte left: the connection could not be made, or broke before."""
    ANSWERED = "answered"
    """The server answered with an error for this statement, and the connection lives."""
    CUT = "cut"
    """Bytes left, and no answer came: EOF, reset, our own deadline, a FATAL."""


class Failure(Exception):
    """A statement that did not end well, before it is sorted."""

    def __init__(self, sent: Sent, message: str, sqlstate: str | None = None, constraint: str | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.message = message
        self.sqlstate = sqlstate
        self.constraint = constraint

    def __str__(self) -> str:
        return self.message if self.sqlstate is None else f"{self.message} [{self.sqlstate}]"

    def before_sending(self) -> Failure:
        """The same, when it befell what comes before the statement: of the statement itself no byte left."""
        sent = Sent.NOTHING if self.sent is Sent.CUT else self.sent
        return Failure(sent, self.message, self.sqlstate, self.constraint)

    @property
    def is_rerun(self) -> bool:
        """Rolled back by a conflict between transactions: to be run again with the same checks."""
        return self.sent is Sent.ANSWERED and self.sqlstate in _RERUN

    @property
    def is_lost_statement(self) -> bool:
        """The session does not know a statement it had prepared (a pooler gave us another one)."""
        return self.sent is Sent.ANSWERED and self.sqlstate == _NO_SUCH_STATEMENT


_RERUN: Final = frozenset({"40001", "40P01"})
_UNKNOWN_EVEN_IF_ANSWERED: Final = frozenset({"40003"})
_NO_SUCH_STATEMENT: Final = "26000"
_MISSING: Final = frozenset({"3F000", "42P01", "42883", "42704", "42703"})
_DENIED: Final = frozenset({"42501"})
_BAD_VALUE_CLASS: Final = "22"
_VIOLATED_CLASS: Final = "23"
_TOO_BIG_CLASS: Final = "54"

CONSTRAINTS: Final[dict[str, str]] = {
    "task_key": "a task with this id was created at the same time",
    "entry_key": "the log has an entry at this seq",
    "entry_seq_from_one": "an entry's seq is below 1",
    "item_key": "the inbox has an item with this number",
    "item_dedupe_key": "the inbox has an item with this key",
    "item_one_fate": "the item has been taken or stamped unread",
    "item_body_until_taken": "an item has a body exactly until it is taken",
    "content_key": "a content with this hash was stored at the same time",
    "snapshot_key": "a snapshot of this version was stored at the same time",
}
"""Constraints that another writer can make us violate: the write lost a race and nothing was written."""


def sort_failure(failure: Failure, *, writes: bool, role: str, schema: str) -> NoetaError:
    """The error the caller of the store sees."""
    state = failure.sqlstate or ""
    if failure.sent is Sent.NOTHING:
        return StoreUnavailable(f"nothing was sent: {failure}")
    if failure.sent is Sent.CUT or state.startswith("08") or state in _UNKNOWN_EVEN_IF_ANSWERED:
        if writes:
            return CommitUnknown(f"the write may have landed: {failure}")
        return StoreUnavailable(f"no answer came: {failure}")
    if state in _MISSING:
        return SchemaMismatch(f"schema {schema!r} is missing or incomplete, run `noeta migrate`: {failure}")
    if state in _DENIED:
        return StoreUnavailable(f"role {role!r} lacks a right in schema {schema!r}: {failure}")
    violated = failure.constraint if state.startswith(_VIOLATED_CLASS) else None  # 54000 names an index, too
    if violated is not None and violated in CONSTRAINTS:
        return Conflict(f"{CONSTRAINTS[violated]} ({violated}): {failure}")
    if violated is not None or state.startswith((_BAD_VALUE_CLASS, _TOO_BIG_CLASS)):
        return BadInput(failure.constraint or "value", f"refused by the database: {failure}")
    return StoreUnavailable(f"the statement failed and nothing was written: {failure}")
