"""The server's whole answer to one statement, and what it says of the commit. Pure.

ReadyForQuery is the word that counts: of the extended protocol CommandComplete comes *before* the commit, which
happens at Sync. A statement that came to its end and then ReadyForQuery "no transaction is open", with no error in
between: it is committed. What it committed may still be nothing: a verb whose fence refuses says so in a column.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from noeta.chaos.proxy import messages
from noeta.chaos.proxy.frames import Frame
from noeta.chaos.proxy.session import IDLE, Commit

WROTE: Final = frozenset({"created", "stored", "landed", "pending", "terminal", "cancelled", "resumed"})
WROTE_NOTHING: Final = frozenset(
    {"lost", "unknown", "moved_log", "taken", "other_child", "other", "repeat", "ended", "older", "again", "kin"}
    | {"running"}
)
"""The words of ``o_outcome`` in the store's functions (`backends/stores/sql/postgres/`)."""

OUTCOME: Final = "o_outcome"
LISTS: Final = ("o_claims", "o_fired", "o_requeued", "o_ids")
"""Columns with what a verb took, as a JSON list: nothing was written if all that are there are empty."""

RENEWALS: Final = "o_answers"
HELD: Final = '"held"'
ROWS_MAX: Final = 200
SAID_CHARS_MAX: Final = 200


class Outcome(StrEnum):
    """What became of a commit whose connection was cut."""

    LANDED = "landed"
    NOT_LANDED = "not-landed"
    UNKNOWN = "unknown"
    """Nobody can say: the server's connection ended before its answer did."""


class Verdict(NamedTuple):
    """``why``: what was seen, in words."""

    outcome: Outcome
    why: str


class Answer:
    """The frames of an answer, as they come. ``results_before``: statements of this answer whose result came before
    anybody listened."""

    def __init__(self, commit: Commit, results_before: int) -> None:
        self._commit = commit
        self._results = results_before
        self._columns: list[str] = []
        self._rows: list[dict[str, str | None]] = []
        self._tag: str | None = None
        self._sqlstate: str | None = None
        self._status: str | None = None

    def add(self, frame: Frame) -> None:
        """The next frame of the server."""
        is_mine = self._commit.whole or self._results == self._commit.place
        match frame.kind:
            case messages.COLUMNS:
                self._columns = messages.columns(frame)
            case messages.ROW if is_mine and len(self._rows) < ROWS_MAX:
                self._rows.append(dict(zip(self._columns, messages.row(frame), strict=False)))
            case messages.COMPLETE | messages.EMPTY | messages.SUSPENDED:
                if is_mine:
                    self._tag = messages.tag(frame) if frame.kind == messages.COMPLETE else ""
                self._results += 1
                self._columns = []
            case messages.ERROR:
                self._sqlstate = messages.error(frame).get(messages.SQLSTATE, "?")
            case messages.READY:
                self._status = messages.status(frame)

    @property
    def is_whole(self) -> bool:
        """Whether nothing more of it is to come."""
        return self._status is not None

    @property
    def sqlstate(self) -> str | None:
        """Of the error that it came with."""
        return self._sqlstate

    def verdict(self) -> Verdict:
        """What it says of the commit."""
        if self._status is None:
            return Verdict(Outcome.UNKNOWN, "the server's connection ended before ReadyForQuery")
        if self._sqlstate is not None:
            return Verdict(Outcome.NOT_LANDED, f"ErrorResponse {self._sqlstate}")
        if self._tag is None:
            return Verdict(Outcome.NOT_LANDED, "ReadyForQuery without CommandComplete")
        seen = f"CommandComplete {self._tag!r} and ReadyForQuery {self._status!r}"
        if self._status != IDLE:
            return Verdict(Outcome.NOT_LANDED, f"{seen}: its transaction is still open, and ends with its connection")
        if self._tag.startswith("ROLLBACK"):
            return Verdict(Outcome.NOT_LANDED, f"{seen}: its transaction had failed")
        outcome, said = _of_rows(self._rows)
        return Verdict(outcome, f"{seen}; {said}")


def _of_rows(rows: list[dict[str, str | None]]) -> tuple[Outcome, str]:
    """What the verb itself says of what it wrote; a commit that says nothing of it has landed."""
    words = [row[OUTCOME] or "" for row in rows if OUTCOME in row]
    if words:
        said = f"it answered {', '.join(map(repr, words))[:SAID_CHARS_MAX]}"
        if any(word in WROTE for word in words):
            return Outcome.LANDED, said
        known = all(word in WROTE_NOTHING for word in words)
        return (Outcome.NOT_LANDED, said) if known else (Outcome.UNKNOWN, f"{said}, which nobody here knows")
    renewals = [row[RENEWALS] or "" for row in rows if RENEWALS in row]
    if renewals:
        held = sum(one.count(HELD) for one in renewals)
        return (Outcome.LANDED if held else Outcome.NOT_LANDED), f"it renewed {held} claims"
    lists = [row[name] or "[]" for row in rows for name in LISTS if name in row]
    if lists and all(one == "[]" for one in lists):
        return Outcome.NOT_LANDED, "it took nothing"
    return Outcome.LANDED, f"it answered {len(rows)} rows"
