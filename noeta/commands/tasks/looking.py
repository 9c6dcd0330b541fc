"""Reading one task as a whole: its log, its unread items, its row, and the tasks below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from noeta.core import limits
from noeta.core.errors import StoreUnavailable, UnreadableLog
from noeta.core.events import (
    ApprovalAsked,
    Entry,
    Event,
    MessageTaken,
    ModelReplied,
    TaskCancelled,
    TaskWoken,
    ToolParked,
    numbers_taken,
)
from noeta.core.fold import CallState, TaskState, fold
from noeta.core.gates import approval_handle, is_approval
from noeta.core.store import Store, UnreadItem
from noeta.core.task import Status, TaskRow
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived, Item, timed_out

PAGE: Final = 200
TAIL: Final = 50
"""Entries that tell for which calls a task is parked; of a reply that asked for very many, some are not named."""

BELOW_MAX: Final = 500
"""Tasks of one tree that are shown; a larger one is listed with `noeta tasks list --after`."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A task as it was at one instant. ``unread``: at most ``limits.COMMIT_PARTS_MAX`` of its unread items."""

    row: TaskRow
    entries: tuple[Entry, ...]
    unread: tuple[UnreadItem, ...]
    unread_more: bool

    @property
    def last(self) -> Event:
        """The newest entry's event."""
        return self.entries[-1].event


@dataclass(frozen=True, slots=True)
class Question:
    """An open question to a person: the handle of its answer, and the call that asks.

    ``approval``: what a gate asks, before it lets the call start with this input; None: the call itself asks.
    """

    handle: str
    call_id: str
    tool: str
    input: Any
    approval: str | None = None

    @property
    def text(self) -> str | None:
        """What is asked, if a gate asks, or the call's input has it where ``AskUser`` puts it."""
        if self.approval is not None:
            return self.approval
        asked = self.input.get("question") if isinstance(self.input, dict) else None
        return asked if isinstance(asked, str) else None


def look(store: Store, task_id: str) -> Seen:
    """The whole log, in pages; row and inbox are those of the instant at which its end was read.

    Raises:
        UnknownTask, UnreadableLog.
    """
    entries: list[Entry] = []
    while True:
        after = entries[-1].seq if entries else 0
        # The inbox is read with the end of the log alone: items may be large.
        reads_inbox = bool(entries)
        page = store.read(task_id, after, limit=PAGE, inbox_after=0 if reads_inbox else limits.INTEGER_MAX)
        entries.extend(page.entries)
        if reads_inbox and not page.more:
            more = page.inbox_seen < page.row.inbox_seq
            return Seen(page.row, tuple(entries), page.unread, more)


def last_event(store: Store, row: TaskRow) -> tuple[Event | None, int | None]:
    """The event a row's log ends with, and when it was written, in microseconds. None: this version cannot read it."""
    try:
        page = store.read(row.id, row.last_seq - 1, limit=1, inbox_after=limits.INTEGER_MAX)
    except UnreadableLog:
        return None, None
    return page.entries[0].event, page.entries[0].at


def below(store: Store, task_id: str) -> tuple[list[TaskRow], bool]:
    """The tasks born in the calls of this one and of those below it, in birth order, and whether there are more.

    Their ids begin with this one's and a dot, so that they stand together in the order of ids.
    """
    prefix = f"{task_id}."
    rows: list[TaskRow] = []
    after = prefix
    while len(rows) <= BELOW_MAX:
        page = store.tasks(after=after, limit=PAGE)
        mine = [row for row in page if row.id.startswith(prefix)]
        rows.extend(mine)
        if len(page) < PAGE or len(mine) < len(page):
            break
        after = page[-1].id
    kept = sorted(rows[:BELOW_MAX], key=lambda row: _birth_order(row.id))
    return kept, len(rows) > BELOW_MAX


def _birth_order(task_id: str) -> list[tuple[int, str]]:
    """Numbers in ids by their value: ``t.3-0.10`` was born after ``t.3-0.2``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in task_id.replace("-", ".").split(".")]


def questions(seen: Seen) -> list[Question]:
    """What the task asks people and has no answer to, whatever it waits for first. A log that makes no sense asks
    nothing: it can still be shown."""
    state = _folded(seen)
    if state is None or state.ending is not None:
        return []
    gates = {one.wake_on.handle: one.question for one in _asked_by_gates(seen)}
    return [
        Question(call.parked.handle, call.call.id, call.call.tool, call.input, gates.get(call.parked.handle))
        for call in state.calls.values()
        if _asks_person(call) and isinstance(call.parked, HumanResponseReceived)
    ]


def open_approvals(seen: Seen) -> list[Question]:
    """The calls that a gate asks about, and nobody's decision was taken."""
    return [one for one in questions(seen) if one.approval is not None]


def approvals_asked(seen: Seen) -> list[str]:
    """The handles of all approvals that this task ever asked for, the latest last."""
    return [one.wake_on.handle for one in _asked_by_gates(seen)]


def decision(seen: Seen, handle: str) -> tuple[int, HumanResponseReceived] | None:
    """The first answer under this handle, taken or not, with its number; None: there is none, or nobody can tell."""
    came = [
        (number, item)
        for number, item in items(seen)
        if isinstance(item, HumanResponseReceived) and item.handle == handle and not timed_out(item)
    ]
    return min(came, key=lambda one: one[0], default=None)


def _asks_person(call: CallState) -> bool:
    return call.waits and isinstance(call.parked, HumanResponseReceived) and call.parked.handle != NEXT_GOAL


def approval_of(store: Store, row: TaskRow) -> Question | None:
    """The approval that a row waits for, if it does; as much of its log is read as tells of it. None also if this
    version cannot read that."""
    if not isinstance(row.wake_on, HumanResponseReceived) or not is_approval(row.id, row.wake_on.handle):
        return None
    call_id = row.wake_on.handle.removeprefix(approval_handle(row.id, ""))
    replied, _, _ = call_id.partition("-")
    try:
        page = store.read(row.id, int(replied) - 1, limit=limits.PAGE_ENTRIES_MAX, inbox_after=limits.INTEGER_MAX)
    except (ValueError, UnreadableLog):
        return None
    reply = page.entries[0].event if page.entries else None
    calls = {call.id: call for call in reply.calls} if isinstance(reply, ModelReplied) else {}
    for entry in page.entries:
        asked = entry.event
        if isinstance(asked, ApprovalAsked) and asked.call_id == call_id in calls:
            input = calls[call_id].input if asked.input is UNSET else asked.input
            return Question(asked.wake_on.handle, call_id, calls[call_id].tool, input, asked.question)
    return None


def tail_of(store: Store, row: TaskRow) -> tuple[Entry, ...]:
    """The end of a row's log, as far as it tells for which calls the task is parked; nothing if this version cannot
    read it, or if something came behind it meanwhile."""
    after = max(0, row.last_seq - TAIL)
    try:
        page = store.read(row.id, after, limit=TAIL, inbox_after=limits.INTEGER_MAX)
    except UnreadableLog:
        return ()
    return page.entries if not page.more and page.row.last_seq == row.last_seq else ()


def is_over(seen: Seen, handle: str) -> bool:
    """Whether the question with this handle was asked and can take no answer any more, and had none: its time limit has
    passed, or its turn was closed."""
    if handle in [one.handle for one in questions(seen)]:
        return False
    parked = [entry.event.wake_on for entry in seen.entries if isinstance(entry.event, ToolParked | ApprovalAsked)]
    answered = [item for _, item in items(seen) if not timed_out(item)]
    was_asked, was_answered = (
        any(isinstance(one, HumanResponseReceived) and one.handle == handle for one in where)
        for where in (parked, answered)
    )
    return was_asked and not was_answered


def items(seen: Seen) -> Iterator[tuple[int, Item]]:
    """What reached the task, by number, as far as log and inbox tell: not what ended tasks left unread."""
    yield from ((one.number, one.item) for one in seen.unread)
    for entry in seen.entries:
        match entry.event:
            case MessageTaken(number=number, message=item):
                yield number, item
            case TaskWoken(numbers=(number,), event=item):
                yield number, item


def item_of(store: Store, task_id: str, number: int | None) -> Item | None:
    """What came under this number; None if nobody can tell any more, or now."""
    try:
        return dict(items(look(store, task_id))).get(number or 0)
    except (StoreUnavailable, UnreadableLog):
        return None


def left_unread(seen: Seen) -> list[int]:
    """The numbers of what an ended task never took; stores keep it, and no longer read it out. The order that ended it
    from outside, which is the last item then, is none of them."""
    if seen.row.status is not Status.TERMINAL:
        return []
    state = _folded(seen)
    was_ordered = isinstance(seen.last, TaskCancelled) and state is not None and state.cancel is None
    newest = seen.row.inbox_seq - was_ordered
    taken = {number for entry in seen.entries for number in numbers_taken(entry.event)}
    return [number for number in range(1, newest + 1) if number not in taken]


def _asked_by_gates(seen: Seen) -> Iterator[ApprovalAsked]:
    return (entry.event for entry in seen.entries if isinstance(entry.event, ApprovalAsked))


def _folded(seen: Seen) -> TaskState | None:
    try:
        return fold(seen.row.id, seen.entries)
    except UnreadableLog:
        return None
