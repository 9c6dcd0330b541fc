"""A child is born once, with the entry that names it, and its parent hears of its end once.

Each task is judged beside what its family left (`RunFacts.kin`). As the one that delegates: the tasks that its entries
name, and every task whose id is derived from its own. As a parent: the results that reached it, byte for byte what each
child's terminal entry owes. As a child: an order to end, if its parent ended before it did, whatever it then went
on to. By the store's clock: it reads it when it holds the rows of both.

Reports of a child to its parent are counted wherever the child's log is at hand: in the simulator, in a run directory,
and in a live store for the children of which the parent has a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from invariants.evidence import FinalRow, LogEntry, RunFacts, TaskEvidence
from invariants.facts import Kin
from invariants.items import items_of
from invariants.kinship import ORDER, ORDER_KEY, birth_of, item_hash
from invariants.law import Fact, Finding, Law, Tally
from invariants.wording import instant, item_words, kind
from noeta.core import texts
from noeta.core.events import Ending, TaskCreated, TaskWoken, ToolFinished, ToolParked
from noeta.core.ids import child_id
from noeta.core.task import Status
from noeta.core.wake import (
    BACKGROUND,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
)


@dataclass(slots=True)
class _Told:
    """``named``: by which entry each child was born; ``groups``: the members of each group in birth order; ``heard``:
    where the result of each child was taken; ``ordered``: it has the order of its ended parent; ``reports``: how often
    each child reported."""

    depth: int = 0
    root: str = ""
    named: dict[str, LogEntry] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    heard: dict[str, Fact] = field(default_factory=dict)
    ordered: bool = False
    reports: Counter[str] = field(default_factory=Counter)


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """One task as the bearer, the parent and the child that it is."""
    told = _Told(root=task.task)
    for entry in task.log:
        match entry.event:
            case TaskCreated() as created:
                told.root, told.depth = created.root_task_id or task.task, created.subtask_depth
                yield from _row_differs(task, entry, created)
            case ToolParked(call_id=call, children=children) | ToolFinished(call_id=call, children=children):
                if children:
                    tally.saw(len(children))
                    yield from _born(task, entry, call, children, told, run)
            case TaskWoken(event=SubtaskGroupCompleted() as group):
                yield from _birth_order(task, entry, group, told)
            case _:
                pass
        for _, item in items_of(entry.event):
            told.ordered |= item == ORDER
            yield from _heard(task, entry, entry.at, item, told, run, tally)
    tally.saw(birth_of(task.task) is not None)
    yield from _unnamed(task, told, run)
    if task.final is not None:
        for unread in task.final.unread:
            told.ordered |= unread.key == ORDER_KEY
            yield from _heard(task, task.final, unread.at, unread.item, told, run, tally)
        yield from _unheard(task, task.final, told, run)
        yield from _unordered(task, task.final, told, run, tally)


# -- births ------------------------------------------------------------------------------------------------


def _row_differs(task: TaskEvidence, entry: LogEntry, created: TaskCreated) -> Iterator[Finding]:
    final = task.final
    if final is not None and (final.row.parent, final.row.group) != (created.parent_task_id, created.group):
        yield Finding(
            "wrong-family",
            f"{task.task} was born to {created.parent_task_id} in group {created.group}; but its row names "
            f"{final.row.parent} and {final.row.group}",
            (entry, final),
        )


def _born(
    task: TaskEvidence, entry: LogEntry, call: str, children: tuple[str, ...], told: _Told, run: RunFacts
) -> Iterator[Finding]:
    """The tasks that one entry names."""
    if list(children) != [child_id(task.task, call, n) for n in range(1, len(children) + 1)]:
        yield Finding(
            "misnumbered",
            f"seq {entry.seq} of {task.task} bears {', '.join(children[:5])} with call {call}; but its children are "
            f"numbered from 1 without a gap",
            (entry,),
        )
    group = f"{task.task}.{call}" if len(children) > 1 else None
    if isinstance(entry.event, ToolParked):
        told.groups[group or ""] = children
        alone = SubtaskCompleted(children[0])
        wanted = alone if group is None else SubtaskGroupCompleted(group, len(children))
        if entry.event.wake_on != wanted:
            yield Finding(
                "wrong-wait",
                f"seq {entry.seq} of {task.task} bears {len(children)} children and waits for "
                f"{item_words(entry.event.wake_on)}; but their results are {item_words(wanted)}",
                (entry,),
            )
    else:
        group = BACKGROUND
    for child in children:
        first = told.named.setdefault(child, entry)
        if first is not entry:
            yield Finding(
                "born-twice",
                f"{child} was born with seq {first.seq} of {task.task}; but seq {entry.seq} bears it again",
                (first, entry),
            )
            continue
        yield from _as_named(task, entry, child, run.kin.get(child), group, told, run)


def _as_named(
    task: TaskEvidence, entry: LogEntry, child: str, kin: Kin | None, group: str | None, told: _Told, run: RunFacts
) -> Iterator[Finding]:
    """The child itself beside the entry that names it."""
    if kin is None:
        if run.kin_whole:
            yield Finding(
                "unborn",
                f"seq {entry.seq} of {task.task} says that it bore {child}; but there is no such task",
                (entry,),
            )
        return
    if kin.born_at is not None and kin.born_at != entry.at:
        yield Finding(
            "born-apart",
            f"{child} was born at {instant(kin.born_at)}; but seq {entry.seq} of {task.task}, which says that it bore "
            f"it, was written at {instant(entry.at)}; so one could have landed without the other",
            (entry,),
        )
    parent = told.root if group == BACKGROUND else task.task
    found = (kin.parent, kin.group, kin.root, kin.depth)
    if found != (parent, group, told.root, told.depth + 1):
        yield Finding(
            "wrong-family",
            f"{child}, born with seq {entry.seq} of {task.task}, should have parent {parent}, group {group}, root "
            f"{told.root} and depth {told.depth + 1}; but it has {', '.join(map(str, found))}",
            (entry,),
        )


def _unnamed(task: TaskEvidence, told: _Told, run: RunFacts) -> Iterator[Finding]:
    """Tasks with a derived id that no entry names. One born after the log was read is none of them."""
    read_to = task.log[-1].at if task.log else None
    for child, kin in run.below(task.task):
        birth = birth_of(child)
        if birth is None or birth.bearer != task.task or child in told.named:
            continue
        if run.still or (read_to is not None and kin.born_at is not None and kin.born_at <= read_to):
            yield Finding(
                "unnamed",
                f"{child} was born at {instant(kin.born_at)}; but no entry of {task.task} says that it bore it",
                tuple(task.log[-1:]) or _last(task),
            )
    birth = birth_of(task.task)
    if birth is not None and run.kin_whole and birth.bearer not in run.kin and task.log:
        words = f"{task.task} is there; but {birth.bearer}, whose child it is, is not"
        yield Finding("unnamed", words, tuple(task.log[:1]))


# -- results -----------------------------------------------------------------------------------------------


def _birth_order(task: TaskEvidence, entry: LogEntry, group: SubtaskGroupCompleted, told: _Told) -> Iterator[Finding]:
    members = told.groups.get(group.group_id)
    found = tuple(result.subtask_id for result in group.results)
    if members is not None and found != members:
        yield Finding(
            "group-order",
            f"seq {entry.seq} of {task.task} takes the results of group {group.group_id} as {', '.join(found[:5])}; "
            f"but its members in birth order are {', '.join(members[:5])}",
            (told.named.get(members[0], entry), entry),
        )


def _heard(
    task: TaskEvidence, where: LogEntry | FinalRow, at: int, item: Item, told: _Told, run: RunFacts, tally: Tally
) -> Iterator[Finding]:
    """A result in the log or in the inbox. What is no child's of this task was posted by somebody else."""
    if isinstance(item, SubtaskCompleted):
        child = item.subtask_id
    elif isinstance(item, HumanResponseReceived) and item.sender:
        child = item.sender
    else:
        return
    kin = run.kin.get(child)
    if kin is None or kin.parent != task.task:
        return
    if isinstance(item, HumanResponseReceived) and kin.result != item_hash(item):
        yield from _reported(task, where, child, item, told, run)  # words that it said while it worked
        return
    tally.saw()
    first = told.heard.setdefault(child, where)
    if first is not where:
        yield Finding("result-twice", f"{task.task} has the result of {child} twice", (first, where))
    elif kin.ended_at is None or at < kin.ended_at:
        ended = "has not ended" if kin.ended_at is None else f"ended at {instant(kin.ended_at)}"
        yield Finding(
            "result-early", f"{task.task} had the result of {child} at {instant(at)}; but {child} {ended}", (where,)
        )
    elif kin.result != item_hash(item):
        yield Finding(
            "other-result",
            f"{task.task} has as the result of {child} the bytes {item_hash(item)[:12]}; but its end owes "
            f"{(kin.result or 'none')[:12]}",
            (where,),
        )


def _reported(
    task: TaskEvidence,
    where: LogEntry | FinalRow,
    child: str,
    words: HumanResponseReceived,
    told: _Told,
    run: RunFacts,
) -> Iterator[Finding]:
    """A report of a child, posted with the entry of the call that made it."""
    if not words.text.startswith(texts.HANDBACK.format(child=child, report="")):
        return
    made = run.reports_of(child)
    told.reports[child] += 1
    if made is not None and told.reports[child] > made:
        yield Finding(
            "report-twice",
            f"{task.task} has {told.reports[child]} reports of {child}; but its calls made {made}",
            (where,),
        )


def _unheard(task: TaskEvidence, final: FinalRow, told: _Told, run: RunFacts) -> Iterator[Finding]:
    """A child that ended has told a parent that has not."""
    row = final.row
    if row.status is Status.TERMINAL or not final.inbox_whole:
        return
    for child, kin in run.below(task.task):
        owes = kin.parent == task.task and kin.status is Status.TERMINAL and kin.result is not None
        if owes and child not in told.heard and run.settled(kin.ended_at, final.at):
            yield Finding(
                "result-lost",
                f"{child} ended at {instant(kin.ended_at)}; but {task.task}, its parent, has neither taken its result "
                f"nor is it unread",
                (told.named.get(child, final), final),
            )


def _unordered(task: TaskEvidence, final: FinalRow, told: _Told, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """A child that had not ended when its parent did has the order to end among its own items, for ever: taken, unread,
    or stamped by its own end."""
    parent = None if final.row.parent is None else run.kin.get(final.row.parent)
    if parent is None or parent.status is not Status.TERMINAL or told.ordered:
        return
    last = task.log[-1] if task.log else None
    if final.row.status is not Status.TERMINAL:
        left = final.inbox_whole and run.settled(parent.ended_at, final.at)
        how = f"is {final.row.status.value}"
    else:
        ended = last is not None and isinstance(last.event, Ending)
        left = ended and last is not None and parent.ended_at is not None and last.at > parent.ended_at
        how = "" if last is None else f"went on to {kind(last.event)} at {instant(last.at)}"
        if left and _may_be_stamped(task, final):
            if not final.stamped_order:
                tally.counts["orders that nobody can tell"] += 1
            return
    if left:
        yield Finding(
            "left-behind",
            f"{final.row.parent} ended at {instant(parent.ended_at)}; but its child {task.task} {how} and had no order "
            f"to end",
            (*task.log[-1:], final),
        )


def _may_be_stamped(task: TaskEvidence, final: FinalRow) -> bool:
    """Whether the order is among the items that the end stamped, or may be: a reader that knows their numbers alone
    cannot say which they are. What clients were told the number of is something else."""
    if final.stamped_order is not None:
        return final.stamped_order
    return final.stamped is None or not set(final.stamped) <= {one.number for one in task.sent}


def _last(task: TaskEvidence) -> tuple[Fact, ...]:
    return () if task.final is None else (task.final,)


LAW = Law(
    key="children-once",
    title="Children once",
    statement=(
        "Children are born with the append that records their call's ToolFinished or ToolParked, with derived ids; a "
        "parent has each child's result once, as its end owes it, however fast the child was; a child whose parent has "
        "ended is ordered to end."
    ),
    source="Sub-agents; Tasks and waking",
    reads="the log, the final rows, and what is known of the rest of the family",
    codes={
        "unborn": "an entry names a child that does not exist",
        "unnamed": "a task with a derived id that no entry names",
        "born-twice": "two entries name the same child",
        "born-apart": "a child was born at another instant than the entry that names it",
        "misnumbered": "the children of one entry are not numbered 1, 2, 3",
        "wrong-family": "a child has another parent, group, root or depth than its birth says",
        "wrong-wait": "a call that bears children waits for something else",
        "group-order": "a group's results are not its members in birth order",
        "result-twice": "a parent has a child's result twice",
        "report-twice": "a parent has more reports of a child than the child's calls made",
        "result-early": "a parent has a child's result before the child ended",
        "other-result": "a child's result is not what its end owes",
        "result-lost": "a child ended, and its parent knows nothing of it",
        "left-behind": "a child that had not ended when its parent did has no order to end",
    },
    check=check,
)
