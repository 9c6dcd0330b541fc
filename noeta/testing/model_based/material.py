"""What steps are made of: items, conditions, entries and commits that fit what the reference shows of a task.

Most of it is what a worker would do; every draw has a share of what it must not do, or does too late. The first choice
of each list is the plainest, because a failure shrinks towards it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from hypothesis import strategies as st

from noeta.core import ids
from noeta.core.events import (
    Ending,
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
)
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import Child, Claim, Commit, Content, Continue, LogPage, Next, Post, Suspend, UnreadItem
from noeta.core.wake import (
    BACKGROUND,
    CLOSE,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    condition_key,
    find_wake,
    item_group_key,
)
from noeta.testing.model_based.pair import BODIES

T = TypeVar("T")

GROUP: Final = "g"
GROUP_MEMBERS: Final = 2
KEYS: Final = ("k1", "k2", "event:go@2", "event:go#1")
"""Two plain ones, and two that look like those a store derives."""

MESSAGE: Final = HumanResponseReceived(text="hello")
ITEMS: Final[tuple[Item, ...]] = (
    ExternalEvent("go"),
    ExternalEvent("go", {"n": 1}),
    MESSAGE,
    HumanResponseReceived("question", "yes"),
    ControlReceived(CLOSE),
)
"""Without a cancel, which ends whoever nobody runs: a rule of its own draws it."""

ORDERS: Final = (ControlReceived(), ControlReceived(reason="why"), ControlReceived(CLOSE, "why"))
ENDINGS: Final[tuple[Ending, ...]] = (
    TaskCompleted("done"),
    TaskCompleted(),
    TaskFailed("llm_error", "why"),
    TaskCancelled("stop"),
)
TIMER_MICROS: Final = (10 * MICROS_PER_SECOND, MICROS_PER_SECOND, 1, 0, -5 * MICROS_PER_SECOND)
"""How far ahead timers are set."""


class Material:
    """Draws from one example's data, over the pages the reference shows."""

    def __init__(self, data: st.DataObject, pages: Mapping[str, LogPage], now: int) -> None:
        self._data = data
        self._pages = pages
        self._now = now

    def pick(self, options: Sequence[T]) -> T:
        """One of these; the first is the plainest."""
        return self._data.draw(st.sampled_from(options))

    def chance(self, one_in: int) -> bool:
        """True once in so many draws."""
        return self._data.draw(st.integers(1, one_in)) == one_in

    def number(self, least: int, most: int) -> int:
        return self._data.draw(st.integers(least, most))

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """From one to ``most`` of these, no place twice."""
        return self._data.draw(st.lists(st.sampled_from(options), min_size=1, max_size=most, unique_by=id))

    # -- items and conditions ------------------------------------------------------------------------------

    def item(self, task: str) -> Item:
        """An item for this task: anything, or the result of one of its children."""
        children = [id for id in self._pages if id.startswith(f"{task}.")]
        if children and self.chance(2):
            return self._result(self.pick(children))
        return self.pick(ITEMS)

    def ending_item(self, page: LogPage) -> Item:
        """An item that ends this wait, or brings its end nearer; the condition itself, or the same with a payload."""
        condition = page.row.wake_on
        match condition:
            case SubtaskGroupCompleted():
                members = [id for id, one in self._pages.items() if one.row.group == condition.group_id]
                return self._result(self.pick(members)) if members else ControlReceived()
            case SubtaskCompleted():
                return self._result(condition.subtask_id)
            case ExternalEvent(event_kind=kind):
                return ExternalEvent(kind, self.pick((None, 1, 2)))
            case HumanResponseReceived(handle=handle):
                return HumanResponseReceived(handle, self.pick(("", "hello")))
            case _:
                return ControlReceived()

    def _result(self, child: str) -> SubtaskCompleted:
        page = self._pages.get(child)
        group = page.row.group if page is not None else None
        return SubtaskCompleted(child, output=self.pick(("", "early")), group_id=group)

    def condition(self, page: LogPage) -> WakeCondition:
        children = [id for id in self._pages if id.startswith(f"{page.row.id}.")]
        if sum(item_group_key(one.item) == f"group:{GROUP}" for one in page.unread) >= GROUP_MEMBERS:
            return SubtaskGroupCompleted(GROUP, GROUP_MEMBERS)
        kinds: list[WakeCondition] = [
            ExternalEvent("go"),
            HumanResponseReceived(),
            HumanResponseReceived("question"),
            self.timer(),
            self.timed(),
        ]
        kinds += [SubtaskCompleted(child) for child in children]
        if any(self._pages[child].row.group == GROUP for child in children):
            kinds += [SubtaskGroupCompleted(GROUP, GROUP_MEMBERS)] * 2
        return self.pick(kinds)

    def timer(self) -> TimerFired:
        return TimerFired((self._now + self.pick(TIMER_MICROS)) / MICROS_PER_SECOND)

    def timed(self) -> WakeCondition:
        """A wait that the store ends by itself: a timer, or a wait with a time limit."""
        timer = self.timer()
        limit = timer.fire_at
        kinds: list[WakeCondition] = [
            timer,
            ExternalEvent("go", timeout_at=limit),
            HumanResponseReceived("question", timeout_at=limit),
        ]
        return self.pick(kinds)

    # -- commits -------------------------------------------------------------------------------------------

    def commit(self, page: LogPage, next: Next, entries: tuple[Event, ...] = ()) -> Commit:
        """A commit with this decision, on the inbox as it is, or as the decision may have seen it before."""
        newest = page.row.inbox_seq
        seen = self.pick((newest, newest, newest, max(0, newest - 1), 0, newest + 1))
        return Commit(entries, next, seen)

    def entries(self, page: LogPage) -> tuple[Event, ...]:
        """What a worker writes while it goes on: now and then nothing."""
        entry = self.pick((ModelCalled("hash", 1), ModelReplied("text"), None))
        return () if entry is None else (entry,)

    def taking(self, page: LogPage) -> tuple[Event, ...]:
        """An entry that takes unread items: one, those that ended the last wait; or one that is not there to take."""
        unread = page.unread
        if not unread or self.chance(5):
            return (MessageTaken(self.number(0, page.row.inbox_seq + 1), MESSAGE),)
        waits = [entry.event.wake_on for entry in page.entries if isinstance(entry.event, TaskSuspended)]
        woken = find_wake(waits[-1], [(one.number, one.item) for one in unread]) if waits else None
        if woken is not None and self.chance(2):
            return (TaskWoken(*woken),)
        return (taken(self.pick(unread)),)

    def suspend(self, page: LogPage, wake_on: WakeCondition | None = None) -> Commit:
        """A wait with its entry; a group's with the results it knows of."""
        wake_on = wake_on or self.condition(page)
        commit = self.commit(page, Continue(), () if self.chance(8) else (TaskSuspended(wake_on),))
        known = tuple(
            one.item
            for one in page.unread
            if one.number <= commit.inbox_seen and item_group_key(one.item) == condition_key(wake_on)
        )
        keep = self.chance(3)
        return replace(commit, next=Suspend(wake_on, keep, known, again=not keep and self.chance(3)))

    def children(self, page: LogPage, *, group: bool, full: bool) -> tuple[Child, ...]:
        """One child, or a whole group, of the call at the end of the log; or one that was born before (if ``full``,
        only that), perhaps with another goal."""
        row = page.row
        born = [one.row for id, one in self._pages.items() if id.startswith(f"{row.id}.")]
        if born and (full or self.chance(3)):
            child = self.pick(born)
            goal = self.pick(("goal", "other goal"))
            if child.group == BACKGROUND:
                return (_in_background(child.id, goal),)
            return (Child(child.id, "agent", goal, group=child.group),)
        if full:
            return ()
        call = ids.call_id(row.last_seq, 0)
        name = GROUP if group else None
        count = GROUP_MEMBERS if group else 1
        return tuple(Child(ids.child_id(row.id, call, n), "agent", "goal", group=name) for n in range(count))

    def background(self, page: LogPage) -> tuple[Child, ...]:
        """A child that nobody waits for, of the call at the end of the log: its parent is the root."""
        row = page.row
        return (_in_background(ids.child_id(row.id, ids.call_id(row.last_seq, 0), 0), "goal"),)

    def posts(self, page: LogPage, tasks: Sequence[str]) -> tuple[Post, ...]:
        """An item for another task, for itself, or for one that does not exist."""
        task = self.pick(tasks)
        return (Post(task, self.item(task), self.pick(KEYS)),)

    def contents(self) -> tuple[Content, ...]:
        return (Content(self.pick(BODIES)),)


def _in_background(child: str, goal: str) -> Child:
    root, *calls = child.split(".")
    return Child(child, "agent", goal, group=BACKGROUND, parent=root, root=root, depth=len(calls) // 2)


def forged(claim: Claim) -> tuple[Claim, ...]:
    """Claims that nobody ever had: the fence must refuse each."""
    return (
        replace(claim, token="forged"),
        replace(claim, epoch=claim.epoch + 1),
        replace(claim, epoch=max(0, claim.epoch - 1)),
        replace(claim, task_id="nobody"),
    )


def taken(unread: UnreadItem) -> Event:
    """The entry that takes this item."""
    if isinstance(unread.item, HumanResponseReceived | ControlReceived):
        return MessageTaken(unread.number, unread.item)
    return TaskWoken((unread.number,), unread.item)
