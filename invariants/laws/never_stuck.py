"""No task is stuck, by decision and not by guess.

A task is stuck when it has not ended and

* it is pending, running or kept, or its timer is due, and could have been claimed for longer than
  ``RunFacts.stuck_after`` while a worker that serves its queue had room and polled; or
* it is suspended and not kept, and an unread item satisfies its wait: nothing would ever wake it; or
* it is suspended, and the child it awaits, or every member of its group, ended that long ago or never was; or
* it is kept, its timer has been due for that long, and its owner, whose lease is not over, has not resumed it; or
* it was delegated, and waits for words that none of its calls asked for: nobody speaks to it, and its parent waits; or
* its wait ends by itself at an instant, and its row does not say so.

Waiting otherwise for a person or an outside event without a limit is never stuck, and a task that was parked because
nobody can tell what a call did waits for a person. Due and without an idle worker in
sight is not stuck either, but then nobody can tell, and the law says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import FinalRow, RunFacts, TaskEvidence
from invariants.law import Fact, Finding, Law, Tally
from invariants.wording import instant, item_words, span
from noeta.core.events import TaskCreated, ToolParked
from noeta.core.ids import micros
from noeta.core.store import UnreadItem
from noeta.core.task import Shape, Status, claimable_at
from noeta.core.wake import (
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    WakeCondition,
    due_at,
    matches_wake,
    members_missing,
)


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """The final row, decided."""
    final = task.final
    if final is None:
        return
    tally.saw()
    row = final.row
    if row.shape is Shape.TERMINAL:
        return
    if row.wake_on is not None and row.status is Status.SUSPENDED:
        yield from _wake_lost(task, final, row.wake_on, run)
        yield from _nobody_left(task, final, row.wake_on, run)
        yield from _nobody_speaks(task, final, row.wake_on)
        yield from _unlimited(task, final, row.wake_on)
        yield from _owner_deaf(task, final, row.wake_on, run)
    yield from _unclaimed(task, final, run, tally)


def _last(task: TaskEvidence) -> tuple[Fact, ...]:
    return (task.log[-1],) if task.log else ()


def _unclaimed(task: TaskEvidence, final: FinalRow, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    row = final.row
    due = claimable_at(row)
    if due is None:
        if row.shape is not Shape.SUSPENDED:
            yield Finding(
                "unclaimable",
                f"{task.task} is {row.shape.value}; but it has no instant from which a claim could take it",
                (final,),
            )
        return
    waited = final.at - due
    if waited <= run.stuck_after:
        return
    idle = run.idle_since.get(row.queue)
    if idle is None:
        tally.doubt(
            f"{task.task} could be claimed since {span(waited)} and nobody did, but no idle worker was seen on queue "
            f"{row.queue!r}"
        )
    elif final.at - max(due, idle) > run.stuck_after:
        yield Finding(
            "unclaimed",
            f"{task.task} is {row.shape.value} and could be claimed since {instant(due)}, {span(waited)} before the "
            f"end; but a worker on queue {row.queue!r} polled with room since {instant(idle)} and never took it",
            (final, *_last(task)),
        )


def _unlimited(task: TaskEvidence, final: FinalRow, wake_on: WakeCondition) -> Iterator[Finding]:
    due = due_at(wake_on)
    if due is not None and final.row.ready_at != micros(due):
        yield Finding(
            "limit-forgotten",
            f"{task.task} waits for {item_words(wake_on)} until {instant(micros(due))}; but its row may be claimed at "
            f"{instant(final.row.ready_at)}",
            (final, *_last(task)),
        )


def _owner_deaf(task: TaskEvidence, final: FinalRow, wake_on: WakeCondition, run: RunFacts) -> Iterator[Finding]:
    """Nobody but its owner ends the wait of a kept task, while its lease lasts."""
    row, due = final.row, due_at(wake_on)
    if not row.kept or due is None or row.lease_until is None or row.lease_until <= final.at:
        return
    if final.at - micros(due) > run.stuck_after:
        yield Finding(
            "owner-deaf",
            f"{task.task} is kept by {row.worker} and waits for {item_words(wake_on)} until {instant(micros(due))}, "
            f"{span(final.at - micros(due))} before the end; but its owner, which holds it until "
            f"{instant(row.lease_until)}, has not gone on with it",
            (final, *_last(task)),
        )


def _wake_lost(task: TaskEvidence, final: FinalRow, wake_on: WakeCondition, run: RunFacts) -> Iterator[Finding]:
    satisfying = _satisfying(wake_on, final.unread)
    if not satisfying:
        return
    newest = satisfying[-1]
    if final.row.kept and final.at - newest.at <= run.stuck_after:
        return  # its owner hears of the item by its next renewal
    yield Finding(
        "wake-lost",
        f"{task.task} is suspended on {item_words(wake_on)}; but item {newest.number} {item_words(newest.item)}, "
        f"posted at {instant(newest.at)}, satisfies that and lies unread; so its wake was lost",
        (final, *_last(task)),
    )


def _satisfying(wake_on: WakeCondition, unread: tuple[UnreadItem, ...]) -> list[UnreadItem]:
    """The unread items that end the wait; of a group, its members' results once none is missing."""
    direct = [item for item in unread if matches_wake(wake_on, item.item)]
    if direct or not isinstance(wake_on, SubtaskGroupCompleted):
        return direct
    members = [
        item for item in unread if isinstance(item.item, SubtaskCompleted) and item.item.group_id == wake_on.group_id
    ]
    return [] if members_missing(wake_on, tuple(item.item for item in members)) else members


def _nobody_left(task: TaskEvidence, final: FinalRow, wake_on: WakeCondition, run: RunFacts) -> Iterator[Finding]:
    """It waits for children that have all ended, or never were, and none of their results will come."""
    if _satisfying(wake_on, final.unread):
        return
    since = task.log[-1].at if task.log else final.row.created_at
    if final.at - since <= run.stuck_after:
        return
    if isinstance(wake_on, SubtaskCompleted):
        child = run.kin.get(wake_on.subtask_id)
        if child is None and not run.kin_whole:
            return
        if child is None:
            yield Finding(
                "child-absent",
                f"{task.task} waits for {wake_on.subtask_id} since {instant(since)}; but there is no such task",
                (final, *_last(task)),
            )
        elif child.status is Status.TERMINAL and run.settled(child.ended_at, final.at):
            yield Finding(
                "child-ended",
                f"{task.task} waits for {wake_on.subtask_id}; but that ended at {instant(child.ended_at)} and its "
                f"result is not in the inbox",
                (final, *_last(task)),
            )
    elif isinstance(wake_on, SubtaskGroupCompleted) and run.kin_whole:
        yield from _group_ended(task, final, wake_on.group_id, run)


def _group_ended(task: TaskEvidence, final: FinalRow, group: str, run: RunFacts) -> Iterator[Finding]:
    members = run.members(task.task, group)
    ended = [one for one in members if one.status is Status.TERMINAL and run.settled(one.ended_at, final.at)]
    if len(ended) == len(members):
        yield Finding(
            "group-ended",
            f"{task.task} waits for group {group}; but all of its {len(members)} members have ended and their results "
            f"do not complete it",
            (final, *_last(task)),
        )


def _nobody_speaks(task: TaskEvidence, final: FinalRow, wake_on: WakeCondition) -> Iterator[Finding]:
    """A delegated task talks to its parent alone, and through its result. Only the question of a call has somebody who
    answers."""
    created = task.log[0].event if task.log else None
    if not isinstance(created, TaskCreated) or created.parent_task_id is None or created.interactive:
        return
    if not isinstance(wake_on, HumanResponseReceived) or wake_on.timeout_at is not None:
        return
    parked = (entry.event.wake_on for entry in task.log if isinstance(entry.event, ToolParked))
    asked = {one.handle for one in parked if isinstance(one, HumanResponseReceived)}
    if wake_on.handle not in asked and not _satisfying(wake_on, final.unread):
        yield Finding(
            "nobody-speaks",
            f"{task.task} was delegated by {created.parent_task_id} and waits for {item_words(wake_on)}; but none of "
            f"its calls asked for that, so that nobody will say it",
            (final, *_last(task)),
        )


LAW = Law(
    key="never-stuck",
    title="Never stuck",
    statement=(
        "No task that has not ended stays unclaimed while it could be claimed beside an idle worker, or suspended "
        "although an unread item satisfies its wait, or although all that it waits for has ended or never was, or "
        "nobody would ever say it."
    ),
    source="harness design, section 4",
    reads="the final rows with their inboxes, and when idle workers polled",
    codes={
        "unclaimed": "due for longer than the stated time beside an idle worker",
        "unclaimable": "neither ended nor waiting, and no claim can ever take it",
        "wake-lost": "suspended beside an unread item that satisfies its wait",
        "child-ended": "waits for a child that has ended",
        "child-absent": "waits for a child that never was",
        "group-ended": "waits for a group whose members have all ended",
        "nobody-speaks": "a delegated task waits for words that no call of it asked for",
        "owner-deaf": "a kept task whose timer has been due for long, and its living owner lets it rest",
        "limit-forgotten": "its wait ends by itself, and its row says another instant, or none",
    },
    check=check,
)
