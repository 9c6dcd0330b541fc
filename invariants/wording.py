"""Evidence in words: one line a fact, the same words in anomalies, explanations and reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from invariants.evidence import (
    Answer,
    Attempt,
    FaultSeen,
    FinalRow,
    Foretold,
    JobLine,
    JournalLine,
    LockSeen,
    LogEntry,
    Sample,
    Sent,
)
from noeta.core.events import Event
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.wake import ControlReceived, Item, condition_key

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS_MAX = 120


def instant(at: int | None) -> str:
    """An instant as the time of day in UTC, to the microsecond; a small one (virtual time) as seconds."""
    if at is None:
        return "an unknown time"
    if abs(at) < 1_000_000 * MICROS_PER_SECOND:
        return f"{at / MICROS_PER_SECOND:g} s"
    try:
        return (_EPOCH + timedelta(microseconds=at)).strftime("%H:%M:%S.%f")
    except OverflowError:
        return f"{at} µs"


def span(micros: int) -> str:
    """A span in seconds."""
    return f"{micros / MICROS_PER_SECOND:.3f} s"


def kind(event: Event) -> str:
    """What kind of entry it is."""
    return type(event).__name__


def item_words(item: Item) -> str:
    """An item by its identity, without its payload."""
    return f"control:{item.action}" if isinstance(item, ControlReceived) else condition_key(item)


def seqs(first: int, count: int) -> str:
    """``seq 7`` or ``seqs 7-9``."""
    return f"seq {first}" if count == 1 else f"seqs {first}-{first + count - 1}" if count else "no entries"


def answered(attempt: Attempt) -> str:
    """What the sender was told."""
    match attempt.answer:
        case None:
            return "never answered"
        case Answer.OK:
            number = "" if attempt.answer_seq is None else f" ({attempt.answer_seq})"
            return f"answered ok{number} at {instant(attempt.answered_at)}"
        case _:
            return f"answered {attempt.answer.value} at {instant(attempt.answered_at)}"


def shorten(text: str) -> str:
    """Text from outside, on one line and short."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _WORDS_MAX else f"{flat[: _WORDS_MAX - 1]}…"


def row_words(row: Sample) -> str:
    """A row without its time."""
    owner = f", owned by {row.worker}" if row.worker is not None else ""
    waits = f" on {condition_key(row.wake_on)}" if row.wake_on is not None else ""
    kept = "kept and " if row.kept else ""
    return f"{kept}{row.status.value}{waits} under epoch {row.epoch}{owner}, last seq {row.last_seq}"


def describe(
    fact: LogEntry | Attempt | Sample | FinalRow | JournalLine | JobLine | LockSeen | Sent | FaultSeen | Foretold,
) -> str:
    """One fact, in one line."""
    match fact:
        case LogEntry():
            return (
                f"log: {fact.task} seq {fact.seq} {kind(fact.event)} under epoch {fact.epoch} "
                f"at {instant(fact.at)}, body {fact.body_hash[:12]}"
            )
        case Attempt():
            what = seqs(fact.first_seq, fact.count) if fact.count and fact.expected_seq is not None else fact.key or ""
            under = "" if fact.epoch is None else f" under epoch {fact.epoch} ({fact.token})"
            words = f"{fact.worker} ({fact.process}) sent {fact.verb.value} {what}".rstrip()
            return f"op {fact.id}: {words} to {fact.task}{under} at {instant(fact.sent_at)}; {answered(fact)}"
        case Sample():
            return f"row: {fact.task} {row_words(fact)}, {fact.unread} unread, at {instant(fact.at)}"
        case FinalRow():
            return f"final row: {fact.row.id} {row_words(fact.as_sample())}, {len(fact.unread)} unread"
        case JournalLine():
            return f"journal: {fact.token} by {fact.tool} on {fact.worker} (pid {fact.pid}) at {instant(fact.at)}"
        case JobLine():
            return f"job: {fact.job} of {fact.task} (pid {fact.pid}) wrote at {instant(fact.at)} ± {span(fact.error)}"
        case LockSeen():
            ran = f", running {shorten(fact.statement)!r}" if fact.statement else ""
            return (
                f"lock: the session of {fact.worker} (pid {fact.pid}) held a row lock at {instant(fact.at)}, its "
                f"transaction open for {fact.age_seconds:.3f} s{ran}"
            )
        case Sent():
            number = "" if fact.number is None else f" as number {fact.number}"
            return f"client: posted key {fact.key} to {fact.task} at {instant(fact.at)}: {fact.outcome}{number}"
        case FaultSeen():
            held = ", ".join(f"{one.task}@{one.epoch}" for one in fact.held[:8]) or "no claim"
            more = f" and {len(fact.held) - 8} more" if len(fact.held) > 8 else ""
            return f"fault: {fact.kind} hit {fact.process} at {instant(fact.at)}, which held {held}{more}"
        case Foretold():
            reason = f" for {fact.reason}" if fact.reason else ""
            said = f" with {shorten(fact.answer)!r}" if fact.answer is not None else ""
            return f"script: {fact.task} ends {fact.outcome.value}{reason}{said}"
