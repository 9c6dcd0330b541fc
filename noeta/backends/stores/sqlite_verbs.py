"""What the verbs of the SQLite store do inside their transaction: read, let ``core`` decide, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noeta.backends.stores.sqlite_rows import known
from noeta.backends.stores.sqlite_tables import Tables
from noeta.core import rules
from noeta.core.errors import BadInput, Conflict, NoetaError, UnknownTask
from noeta.core.ids import timer_key
from noeta.core.lower import CASCADE_BODY, CASCADE_KEY, LoweredItem, LoweredTask, Write, lower_cancel
from noeta.core.store import Appended, Claim, Posted, Renewal, Resumed
from noeta.core.task import Status, TaskRow
from noeta.core.wake import ANY_WAIT, ControlReceived


def create(tables: Tables, new: LoweredTask, field: str) -> bool:
    """Whether the task is new; a repeat changes nothing."""
    content_hash = tables.content_hash(new.id)
    if content_hash is not None:
        rules.check_same(field, new, content_hash)
        return False
    tables.add(rules.born(new, tables.now), new)
    return True


def sweep(tables: Tables, queues: Sequence[str] | None, limit: int) -> list[str]:
    """Put back what has lapsed. Keeps: bounded."""
    lapsed = tables.lapsed(queues, limit)
    for row in lapsed:
        tables.put(row, rules.swept(row))
    return [row.id for row in lapsed]


def renew(tables: Tables, claim: Claim, lease: int) -> Renewal:
    """Keeps: one-writer."""
    row = tables.find(claim.task_id)
    if row is None or not rules.holds(row, claim, tables.now):
        return Renewal(claim.task_id, "lost", now=tables.now)
    after, renewal = rules.renewed(row, lease, tables.now, ordered=tables.has_order(row.id))
    tables.put(row, after)
    return renewal


def fenced(tables: Tables, claim: Claim) -> TaskRow:
    """Keeps: one-writer. Sound because the transaction holds the write lock until it has written."""
    row = tables.task(known(claim.task_id))
    if not rules.holds(row, claim, tables.now):
        raise rules.lost(row, claim)
    return row


def resume(tables: Tables, claim: Claim) -> Resumed:
    """The owner of a kept task goes on. Keeps: one-writer, timers-once."""
    before = fenced(tables, claim)
    row = tables.add_timer(before, tables.now) if rules.kept_timer_due(before, tables.now) else before
    after = rules.resumed(row)
    tables.put(before, after)
    fired = tables.number_of_key(after.id, timer_key(after.id, after.last_seq)) is not None
    return Resumed(tables.now, after.inbox_seq, after.last_seq, fired)


def applied_or_refused(tables: Tables, claim: Claim, write: Write) -> Appended | NoetaError:
    """A refusal comes before the first write of its member, so that it touches no other."""
    try:
        return apply(tables, claim, write)
    except (Conflict, UnknownTask, BadInput) as error:
        return error


def apply(tables: Tables, claim: Claim, write: Write) -> Appended:
    """One commit: everything is checked before anything is written. Keeps: one-writer, gapless-log, taken-once."""
    row = fenced(tables, claim)
    if row.last_seq != write.expected_seq:
        raise Conflict(f"task {row.id!r} ends at seq {row.last_seq}, expected {write.expected_seq}")
    moved = write.inbox_seen is not None and row.inbox_seq > write.inbox_seen
    what = rules.landing(write, moved=moved)
    for number, _ in write.takes:
        if not tables.is_unread(row.id, number):
            raise Conflict(f"item {number} of task {row.id!r} is not unread")
    rules.check_children(write.children, tables.content_hash)

    first_seq = row.last_seq + 1
    after = rules.landed(row, write, what, tables.now)
    tables.add_entries(row, what.bodies)
    for number, index in write.takes:
        tables.take(row.id, number, first_seq + index)
    tables.put(row, after)
    if what.ends:
        tables.stamp_unread(row.id, after.last_seq)
    born = [child for child in write.children if create(tables, child, "child.id")]
    for hash, content in write.contents:
        tables.put_content(hash, content)
    refused = [
        one.key or ""
        for one in write.posts
        if (what.ends or not one.with_ending) and post(tables, one) in (None, "ended")
    ]
    for child in born:
        if child.adopted and _has_ended(tables, child.parent):  # Keeps: never-stuck
            _order(tables, tables.task(child.id))
    if what.ends:
        order_children(tables, row.id)
    status = tables.task(row.id).status if write.posts else after.status  # a task may post to itself
    return Appended(first_seq, after.last_seq, tables.now, status, moved, row.inbox_seq, tuple(refused))


def posted(tables: Tables, item: LoweredItem) -> Posted:
    """A post on its own.

    Raises:
        UnknownTask
    """
    before = tables.task(item.task_id).status
    outcome = post(tables, item)
    assert outcome is not None
    after = tables.task(item.task_id)
    stored = outcome == "stored"
    made_ready = stored and before is Status.SUSPENDED and after.status is Status.PENDING
    if stored:
        return Posted(outcome, after.inbox_seq, made_ready)
    return Posted(outcome, tables.number_of_key(item.task_id, item.key or ""), made_ready)


def post(tables: Tables, item: LoweredItem) -> str | None:
    """``stored``, ``repeat`` or ``ended``; None: there is no such task. Keeps: taken-once, terminal-is-final."""
    row = tables.find(item.task_id)
    if row is None:
        return None
    if item.key is not None and tables.number_of_key(row.id, item.key) is not None:
        return "repeat"
    if row.status is Status.TERMINAL:
        return "ended"
    tables.add_item(row, item)
    tables.put(row, rules.received(row, item, tables.now))
    return "stored"


def cancel(tables: Tables, item: LoweredItem, order: ControlReceived) -> Posted:
    """A cancel: a task that nobody runs ends in this transaction, a running one gets the item.
    Keeps: terminal-is-final, epochs-rise, children-once.

    Raises:
        UnknownTask
    """
    row = tables.task(known(item.task_id))
    is_repeat = item.key is not None and tables.number_of_key(row.id, item.key) is not None
    if is_repeat or not rules.ends_at_once(row, tables.now):
        return posted(tables, item)
    what = lower_cancel(item, order, row.parent, row.group)
    after = rules.cancelled(row)
    tables.add_item(row, item)
    tables.add_entries(replace(row, epoch=after.epoch), (what.ending,))
    tables.put(row, after)
    tables.stamp_unread(row.id, after.last_seq)
    order_children(tables, row.id)
    if what.result is not None:
        post(tables, what.result)
    return Posted("cancelled", after.inbox_seq, made_ready=False, epoch=after.epoch, last_seq=after.last_seq)


def order_children(tables: Tables, parent: str) -> None:
    """Every unfinished child hears that its parent has ended. Keeps: children-once."""
    for child in tables.children(parent):
        _order(tables, child)


def _order(tables: Tables, row: TaskRow) -> None:
    if row.status is Status.TERMINAL or tables.number_of_key(row.id, CASCADE_KEY) is not None:
        return
    order = LoweredItem(row.id, CASCADE_KEY, CASCADE_BODY, ANY_WAIT, None)
    tables.add_item(row, order)
    tables.put(row, rules.ordered_to_end(row, order, tables.now))


def _has_ended(tables: Tables, task_id: str | None) -> bool:
    row = None if task_id is None else tables.find(task_id)
    return row is None or row.status is Status.TERMINAL
