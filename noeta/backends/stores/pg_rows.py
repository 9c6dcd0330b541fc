"""Rows of the database to the frozen values of the contract. No rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from noeta.backends.stores.pg_connection import Row
from noeta.core import codec, limits
from noeta.core.errors import UnknownTask
from noeta.core.store import Claim, Claims, LogPage, Posted, Renewal, Resumed, UnreadItem
from noeta.core.task import Status, TaskRow

ClaimAnswer = tuple[str, str, int, int, int, int, int, int, str, str | None, str | None]
"""id, queue, epoch, lease_until, last_seq, inbox_seq, takeovers, fail_attempts, cause, parent, group."""


class _Held(msgspec.Struct, array_like=True):
    outcome: str
    lease_until: int = 0
    inbox_seq: int = 0
    timer_due: bool = False


_claims = msgspec.json.Decoder(list[ClaimAnswer])
_texts = msgspec.json.Decoder(tuple[str, ...])
_floors = msgspec.json.Decoder(dict[str, int])
_renewals = msgspec.json.Decoder(list[_Held])
_places = msgspec.json.Decoder(list[int])


@dataclass(frozen=True, slots=True)
class ClaimsFound:
    """What a claim call did, and what it learned about where to look next."""

    claims: Claims
    floors: Mapping[str, int]
    queues: tuple[str, ...] | None
    probed: bool


def claims(row: Row, worker: str, token: str) -> ClaimsFound:
    now, taken, fired, requeued, floors, queues, probed = row
    return ClaimsFound(
        Claims(
            tuple(_claim(answer, worker, token) for answer in _claims.decode(_given(taken))),
            _texts.decode(_given(fired)),
            _texts.decode(_given(requeued)),
            integer(now),
        ),
        _floors.decode(_given(floors)),
        None if queues is None else _texts.decode(queues),
        boolean(probed),
    )


def renewals(row: Row, asked: Sequence[Claim]) -> list[Renewal]:
    now = integer(row[0])
    ordered = set(_places.decode(_given(row[2])))
    return [
        Renewal(
            claim.task_id,
            held.outcome,
            held.lease_until,
            held.inbox_seq,
            held.timer_due,
            now,
            ordered=held.outcome == "held" and place in ordered,
        )
        for place, (claim, held) in enumerate(zip(asked, _renewals.decode(_given(row[1])), strict=True))
    ]


def resumed(row: Row) -> Resumed:
    """What a claim that holds is told."""
    _, _, now, inbox_seq, last_seq, timer_fired = row
    return Resumed(integer(now), integer(inbox_seq), integer(last_seq), boolean(timer_fired))


def posted(task_id: str, row: Row) -> Posted:
    outcome = text(row[0])
    if outcome == "unknown":
        raise UnknownTask(task_id)
    return Posted(outcome, optional_integer(row[1]), boolean(row[2]))


def cancelled(task_id: str, row: Row) -> Posted:
    """What a cancel did; of a task it ended, the terminal entry's epoch and seq."""
    epoch, last_seq = row[3:5]
    return replace(posted(task_id, row), epoch=optional_integer(epoch), last_seq=optional_integer(last_seq))


def log_page(rows: Sequence[Row], after: int) -> LogPage:
    """The parts of the ``read`` statement: the row, entries, unread items (one more than asked if there are more)."""
    row = task_row(rows[0][6:])
    entries = tuple(
        codec.decode_entry(integer(seq), integer(epoch), integer(at), text(body))
        for part, seq, epoch, at, _, body, *_ in rows
        if part == b"1"
    )
    found = [row[1:6] for row in rows if row[0] == b"2"]
    items = tuple(
        UnreadItem(integer(number), optional_text(key), codec.decode_item(text(body)), text(body), integer(at))
        for number, _, at, key, body in found[: limits.COMMIT_PARTS_MAX]
    )
    return LogPage(
        entries,
        more=row.last_seq > after + len(entries),
        unread=items,
        inbox_seen=items[-1].number if len(found) > len(items) else row.inbox_seq,
        row=row,
    )


def task_row(row: Row) -> TaskRow:
    (
        id,
        queue,
        status,
        kept,
        epoch,
        worker,
        token,
        lease_until,
        ready_at,
        wake_on,
        wake_key,
        wake_missing,
        inbox_seq,
        last_seq,
        takeovers,
        fail_attempts,
        parent,
        group,
        created_at,
    ) = row
    return TaskRow(
        id=text(id),
        queue=text(queue),
        status=Status(text(status)),
        kept=boolean(kept),
        epoch=integer(epoch),
        worker=optional_text(worker),
        token=optional_text(token),
        lease_until=optional_integer(lease_until),
        ready_at=optional_integer(ready_at),
        wake_on=None if wake_on is None else codec.decode_condition(wake_on),
        wake_key=optional_text(wake_key),
        wake_missing=integer(wake_missing),
        inbox_seq=integer(inbox_seq),
        last_seq=integer(last_seq),
        takeovers=integer(takeovers),
        fail_attempts=integer(fail_attempts),
        parent=optional_text(parent),
        group=optional_text(group),
        created_at=integer(created_at),
    )


def text(value: bytes | None) -> str:
    return _given(value).decode()


def optional_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def integer(value: bytes | None) -> int:
    return int(_given(value))


def optional_integer(value: bytes | None) -> int | None:
    return None if value is None else int(value)


def boolean(value: bytes | None) -> bool:
    return value == b"t"


def blob(value: bytes | None) -> bytes:
    """bytea as text: ``\\x`` and hex digits."""
    given = _given(value)
    assert given.startswith(b"\\x"), "the session's bytea_output is not hex"
    return bytes.fromhex(given[2:].decode())


def is_storable(value: str) -> bool:
    """Whether Postgres can hold this text at all."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in value


def _given(value: bytes | None) -> bytes:
    assert value is not None, "a column that is never null is null"
    return value


def _claim(answer: ClaimAnswer, worker: str, token: str) -> Claim:
    id, queue, epoch, lease_until, last_seq, inbox_seq, takeovers, fail_attempts, cause, parent, group = answer
    return Claim(
        task_id=id,
        queue=queue,
        worker=worker,
        epoch=epoch,
        token=token,
        lease_until=lease_until,
        last_seq=last_seq,
        inbox_seq=inbox_seq,
        takeovers=takeovers,
        fail_attempts=fail_attempts,
        cause=cause,
        parent=parent,
        group=group,
    )
