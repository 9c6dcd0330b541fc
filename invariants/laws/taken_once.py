"""An item reaches its task once: taken by one entry, or still unread, or stamped unread by the end.

Items are numbered per task, from 1 without a gap, whoever sent them (people, children, the store's timers, orders), so
every number up to the row's ``inbox_seq`` must be in exactly one of these places. Keys are judged from what clients
were told: one key, one number, for ever, also after its item was taken; and what they sent is what is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import FinalRow, LogEntry, RunFacts, Sent, TaskEvidence
from invariants.items import items_of, posted, sender
from invariants.kinship import item_hash
from invariants.law import Fact, Finding, Law, Tally
from invariants.wording import instant, kind
from noeta.core.events import MessageTaken, numbers_taken
from noeta.core.task import Status
from noeta.core.wake import Item


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Where each item went."""
    taken: dict[int, LogEntry] = {}
    sent = posted(task)
    for entry in task.log:
        for number, item in items_of(entry.event):
            tally.counts[f"{sender(item)} taken"] += 1
            if isinstance(entry.event, MessageTaken):
                yield from _same_bytes(task, sent.get(number), item, entry)
        for number in numbers_taken(entry.event):
            tally.saw()
            first = taken.setdefault(number, entry)
            if first is not entry:
                yield Finding(
                    "taken-twice",
                    f"{task.holder(first.epoch)} took item {number} of {task.task} at seq {first.seq} under epoch "
                    f"{first.epoch}; but {task.holder(entry.epoch)} took it again at seq {entry.seq} "
                    f"{kind(entry.event)} under epoch {entry.epoch}",
                    (first, entry),
                )
    yield from _keys(task, tally)
    if task.final is not None:
        tally.counts["stamped unread"] += len(task.final.stamped or ())
        for unread in task.final.unread:
            tally.counts[f"{sender(unread.item)} unread"] += 1
            yield from _same_bytes(task, sent.get(unread.number), unread.item, task.final)
        yield from _places(task.task, task.final, taken, {one.number: one for one in task.sent})


def _same_bytes(task: TaskEvidence, sent: Sent | None, item: Item, where: Fact) -> Iterator[Finding]:
    """What lies in the inbox, or was taken while the task ran, is what was posted (a wake: ``wake-once``)."""
    if sent is not None and sent.item != item_hash(item):
        yield Finding(
            "other-bytes",
            f"a client posted item {sent.number} ({sent.item[:12]}) to {task.task} at {instant(sent.at)}; but what is "
            f"there is {item_hash(item)[:12]}",
            (sent, where),
        )


def _keys(task: TaskEvidence, tally: Tally) -> Iterator[Finding]:
    """Answers to clients: one key, one number."""
    numbers: dict[str, Sent] = {}
    keys: dict[int, Sent] = {}
    for one in task.sent:
        if one.number is None or one.outcome not in ("stored", "repeat", "cancelled"):
            continue
        tally.saw()
        if one.key is not None:
            first = numbers.setdefault(one.key, one)
            if first.number != one.number:
                yield Finding(
                    "key-forgotten",
                    f"key {one.key} was stored for {task.task} as number {first.number} at {instant(first.at)}; but a "
                    f"repeat was answered {one.outcome} as number {one.number} at {instant(one.at)}",
                    (first, one),
                )
        other = keys.setdefault(one.number, one)
        if other.key != one.key and other.outcome != "repeat" and one.outcome != "repeat":
            yield Finding(
                "number-reused",
                f"number {one.number} of {task.task} was given to key {other.key} and to key {one.key}",
                (other, one),
            )


def _places(task: str, final: FinalRow, taken: dict[int, LogEntry], sent: dict[int | None, Sent]) -> Iterator[Finding]:
    """Each number up to the newest is in exactly one place."""
    unread = {item.number for item in final.unread}
    newest = final.row.inbox_seq
    for number in sorted(unread & taken.keys()):
        yield Finding(
            "taken-yet-unread",
            f"item {number} of {task} was taken at seq {taken[number].seq}; but it still lies unread in the inbox",
            (taken[number], final),
        )
    for number in sorted(taken.keys() & set(final.stamped or ())):
        yield Finding(
            "taken-yet-stamped",
            f"item {number} of {task} was taken at seq {taken[number].seq}; but the end of the task stamped it unread "
            "as well",
            (taken[number], final),
        )
    for number in sorted(number for number in taken if number > newest):
        yield Finding(
            "never-posted",
            f"seq {taken[number].seq} of {task} takes item {number}; but the inbox never got past number {newest}",
            (taken[number], final),
        )
    ended = final.row.status is Status.TERMINAL
    if ended and final.stamped is None:
        return
    if ended:
        for number in sorted(unread):
            yield Finding(
                "left-unread",
                f"item {number} of {task} lies unread in the inbox of a task that has ended, and its end did not "
                "stamp it",
                (final,),
            )
    placed = taken.keys() | unread | set(final.stamped or ())
    complete = newest if final.inbox_seen is None else min(newest, final.inbox_seen)
    for number in range(1, complete + 1):
        if number not in placed:
            one = sent.get(number)
            what = (
                f"item {number}" if one is None else f"message {one.key} (number {number}), acknowledged to its sender,"
            )
            yield Finding(
                "vanished",
                f"{what} of {task} is neither taken by an entry nor unread in the inbox"
                + (" nor stamped by the end" if ended else ""),
                (final,) if one is None else (one, final),
            )
    for number in sorted(number for number in sent if number is not None and number > newest):
        yield Finding(
            "vanished",
            f"message {sent[number].key} of {task} was acknowledged as number {number}; but its inbox never got past "
            f"{newest}",
            (sent[number], final),
        )


LAW = Law(
    key="taken-once",
    title="Taken once",
    statement=(
        "An inbox item, whoever sent it, is taken by exactly one append, as it was posted, or stamped unread by the "
        "terminal one; a repeat with the same dedupe key is dropped, also after the first was taken."
    ),
    source="Tasks and waking; One writer and crash recovery (every message is taken exactly once)",
    reads="the log, the final inbox, and what clients were answered",
    codes={
        "taken-twice": "two entries take the same item",
        "taken-yet-unread": "a taken item is still in the inbox",
        "taken-yet-stamped": "a taken item is stamped unread by the end as well",
        "never-posted": "an entry takes a number that no post was given",
        "vanished": "an item is nowhere",
        "left-unread": "an item is unread in an ended task's inbox, unstamped",
        "key-forgotten": "a repeat with a known key was given a number of its own",
        "number-reused": "two keys were given one number",
        "other-bytes": "a message taken, or unread, is not what was posted",
    },
    check=check,
)
