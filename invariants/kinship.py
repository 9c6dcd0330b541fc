"""What a task is to its family, computed from its row and its log, and what its end owes its parent.

The result of a child is written by the store that ends it, and read by the parent that waits for it. Here it is said a
third time, from the terminal entry alone, so that the two can be held to it byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from invariants.evidence import LogEntry
from invariants.facts import Kin
from noeta.core import codec, limits, texts
from noeta.core.events import (
    Ending,
    Event,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    ToolFinished,
    TurnFailed,
)
from noeta.core.ids import sha256_text
from noeta.core.task import Status, TaskRow
from noeta.core.wake import BACKGROUND, CANCEL, ControlReceived, HumanResponseReceived, Item, SubtaskCompleted

HANDBACK: Final = "SubagentHandback"
"""The tool by which a child reports to its parent, once a call."""

ORDER: Final = ControlReceived(CANCEL, texts.PARENT_ENDED)
ORDER_KEY: Final = "cancel:parent"
"""What every child of a task that ends has in its inbox, if it has not ended itself, and under which key: the store
puts it there with the parent's terminal entry, and nobody else can use the key."""


class Birth(NamedTuple):
    """What a derived id says: the task and the call in which it was born, and which child of that call it is."""

    bearer: str
    call: str
    number: int


def birth_of(task: str) -> Birth | None:
    """Where a task was born; None: its id is derived from no other's."""
    parts = task.rsplit(".", 2)
    return Birth(parts[0], parts[1], int(parts[2])) if len(parts) == 3 and parts[2].isdecimal() else None


def item_hash(item: Item) -> str:
    """Hex SHA-256 of an item's stored bytes."""
    return sha256_text(codec.encode("item", item))


def owed(child: str, group: str | None, ending: Ending) -> Item:
    """What the parent of a task that ended so must hear: the result it waits for, or, of one in the background, a
    message. Keeps: children-once."""
    match ending:
        case TaskCompleted(answer=answer):
            status, output = "completed", answer or ""
        case TaskFailed(reason=reason, message=message):
            status, output = "failed", f"{reason}: {message}"
        case TaskCancelled(reason=reason):
            status, output = "cancelled", reason
    if group == BACKGROUND:
        output = codec.cut(output, limits.RESULT_BYTES_MAX, texts.RESULT_CUT)
        text = texts.CHILD_ENDED.format(child=child, status=status, output=output)
        return HumanResponseReceived(text=text, sender=child)
    most = limits.RESULT_BYTES_MAX if group is None else limits.MEMBER_RESULT_BYTES_MAX
    return SubtaskCompleted(child, status, codec.cut(output, most, texts.RESULT_CUT), group)


class Reports:
    """Counts the calls of a task that reported to its parent, entry by entry."""

    def __init__(self) -> None:
        self.made = 0
        self._calls: set[str] = set()

    def see(self, event: Event) -> None:
        """The next entry of its log."""
        match event:
            case ModelReplied(calls=calls):
                self._calls |= {call.id for call in calls if call.tool == HANDBACK}
            case ToolFinished(call_id=call, is_error=False):
                self.made += call in self._calls
            case _:
                pass


def kin_of(row: TaskRow, log: Iterable[LogEntry]) -> Kin:
    """A task as its family knows it, in one pass over its log."""
    born: LogEntry | None = None
    ended: LogEntry | None = None
    gave_up_at: int | None = None
    reports = Reports()
    for entry in log:
        reports.see(entry.event)
        match entry.event:
            case TaskCreated() if born is None:
                born = entry
            case TurnFailed() if gave_up_at is None:
                gave_up_at = entry.at
            case TaskSuspended(reason=reason) if reason and gave_up_at is None:
                gave_up_at = entry.at
            case TaskCompleted() | TaskFailed() | TaskCancelled() if ended is None:
                ended = entry
            case _:
                pass
    return kin_from(
        row.id,
        row.status,
        row.parent,
        row.group,
        born=None if born is None else (born.at, born.event),
        ended=None if ended is None else (ended.at, ended.event),
        gave_up_at=gave_up_at,
        reports=reports.made,
    )


def kin_from(
    task: str,
    status: Status,
    parent: str | None,
    group: str | None,
    *,
    born: tuple[int, Event] | None,
    ended: tuple[int, Event] | None,
    gave_up_at: int | None = None,
    reports: int | None = None,
) -> Kin:
    """The same from what a reader has at hand: ``born`` and ``ended`` are instant and event of its first entry, and of
    its terminal one."""
    created = born[1] if born is not None and isinstance(born[1], TaskCreated) else None
    result = None
    if ended is not None and isinstance(ended[1], Ending) and parent is not None:
        result = item_hash(owed(task, group, ended[1]))
    return Kin(
        status,
        ended_at=None if ended is None else ended[0],
        group=group,
        parent=parent,
        born_at=None if born is None else born[0],
        root=None if created is None else created.root_task_id,
        depth=0 if created is None else created.subtask_depth,
        result=result,
        gave_up_at=gave_up_at,
        reports=reports,
    )
