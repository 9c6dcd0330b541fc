"""Every task does what its script foretells, and a failure is excused only by a fault that can be named.

A script is deterministic, so its outcome is known before the run. Faults may push a task into a bound: three
interrupted model calls, a call whose outcome nobody knows, ten takeovers. Such an outcome counts as excused only
when *every* attempt stands under an epoch of its own and the history names the fault that hit the holder of
that epoch. Otherwise a runtime that fails its tasks at the first difficulty would look as good as one that
carries on. Above ``EXCUSED_MAX`` even excused outcomes make the run unknown: too little was tested.

A task whose cancel was accepted ends cancelled, or failed as foretold if that came first; if the cancel was refused,
because the task had ended, all else holds. A sub-agent may end cancelled by its own family: its parent had ended, or
had given up the call that waited. Whoever ends cancelled has done a part of its script until then and nothing else: no
more calls and turns than foretold, the foretold failures in their order, and nothing after it took the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from invariants.bounds import BoundHit, bounds_hit
from invariants.evidence import FaultSeen, Foretold, LogEntry, Outcome, RunFacts, Sent, TaskEvidence
from invariants.items import items_of
from invariants.law import Fact, Finding, Law, Tally
from invariants.wording import instant, kind, shorten, span
from noeta.core import texts
from noeta.core.events import (
    Ending,
    JobEnded,
    JobLost,
    MessageTaken,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    TurnFailed,
    numbers_taken,
)
from noeta.core.wake import CANCEL, NEXT_GOAL, ControlReceived, HumanResponseReceived, Item

EXCUSED_MAX: Final = 0.05
"""The share of tasks whose outcome may be excused by faults before the run says too little."""

EXCUSABLE_REASONS: Final = frozenset({texts.LLM_ERROR, texts.TOO_MANY_TAKEOVERS})
"""The reasons with which the bounds below fail a turn or a task. Any other is no fault's doing, whatever else hit."""


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """One task's outcome beside its script."""
    script = task.foretold
    if script is None:
        return
    tally.saw()
    actual = _outcome(task.log[-1]) if task.log else None
    if actual is None:
        yield _unfinished(task, script, run)
        return
    if actual is Outcome.CANCELLED and (_was_cancelled(task, script) or _family_ended(task, run)):
        tally.counts["cancelled"] += 1
        yield from _went_on(task)
        differs = _cut_short_differs(task, script)
    else:
        differs = _difference(task, script, actual)
    if differs is None:
        yield from _untaken(task, script, actual)
        return
    code, words = differs
    unexcused = _unexcused(task, script, run)
    if unexcused is None:
        tally.counts["excused"] += 1
        return
    why, witnesses = unexcused
    yield Finding(code, f"{words}; {why}", (script, task.log[-1], *witnesses))


def conclude(run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Too many excuses say that the run tested too little."""
    yield from ()
    excused = tally.counts["excused"]
    if excused > EXCUSED_MAX * tally.seen:
        tally.doubt(
            f"{excused} of {tally.seen} outcomes are excused by faults, more than {EXCUSED_MAX:.0%}: too little was "
            f"tested"
        )


def _outcome(last: LogEntry) -> Outcome | None:
    match last.event:
        case TaskCompleted():
            return Outcome.COMPLETED
        case TaskFailed():
            return Outcome.FAILED
        case TaskCancelled():
            return Outcome.CANCELLED
        case TaskSuspended():
            return Outcome.WAITING
        case _:
            return None


def _cancels(task: TaskEvidence, script: Foretold) -> list[Sent]:
    """Posts that end the task, if they were accepted."""
    return [one for one in task.sent if one.key is not None and one.key in script.cancels]


def _was_cancelled(task: TaskEvidence, script: Foretold) -> bool:
    """Whether a cancel of the script's was accepted, or may have been."""
    return any(one.outcome != "ended" for one in _cancels(task, script))


def _must_be_cancelled(task: TaskEvidence, script: Foretold) -> Sent | None:
    """The cancel that was surely accepted, if there is one."""
    return next((one for one in _cancels(task, script) if one.outcome in ("stored", "cancelled", "repeat")), None)


def _family_ended(task: TaskEvidence, run: RunFacts) -> bool:
    """Whether a sub-agent was cancelled because its parent had ended, or had given up the call that waited for it."""
    created, last = task.log[0].event, task.log[-1]
    if (
        not isinstance(created, TaskCreated)
        or created.parent_task_id is None
        or not isinstance(last.event, TaskCancelled)
    ):
        return False
    parent = run.kin.get(created.parent_task_id)
    if parent is None:
        return False
    since = {texts.PARENT_ENDED: parent.ended_at, texts.WAIT_GIVEN_UP: parent.gave_up_at}.get(last.event.reason)
    return since is not None and since <= last.at


def _unfinished(task: TaskEvidence, script: Foretold, run: RunFacts) -> Finding:
    if not task.log:
        return Finding("unfinished", f"{task.task} should end {script.outcome.value}; but it has no log", (script,))
    last = task.log[-1]
    pace = "nobody knows whether it was still moving"
    if task.final is not None:
        quiet = task.final.at - last.at
        moving = "it was still moving: slow" if quiet <= run.stuck_after else "it had stopped moving: stuck"
        pace = f"its last entry was {span(quiet)} old at the deadline, {moving}"
    return Finding(
        "unfinished",
        f"{task.task} should end {script.outcome.value}; but its log stops at seq {last.seq} {kind(last.event)} "
        f"at {instant(last.at)}; {pace}",
        (script, last),
    )


def _difference(task: TaskEvidence, script: Foretold, actual: Outcome) -> tuple[str, str] | None:
    """The first way in which the log is not what the script foretells, as a code and words."""
    last = task.log[-1].event
    failed = tuple(entry.event.reason for entry in task.log if isinstance(entry.event, TurnFailed))
    reason = last.reason if isinstance(last, TaskFailed) else None
    name = task.task
    cancel = _must_be_cancelled(task, script)
    if cancel is not None and not (actual is script.outcome is Outcome.FAILED):
        words = f"{name} should end cancelled, since {cancel.key} was answered {cancel.outcome}"
        return "cancel-ignored", f"{words}; but it ended {actual.value}"
    if actual is not script.outcome:
        why = f" ({reason})" if reason else ""
        return "wrong-outcome", f"{name} should end {script.outcome.value}; but it ended {actual.value}{why}"
    if script.reason is not None and reason is not None and reason != script.reason:
        return "wrong-reason", f"{name} should fail for {script.reason}; but it failed for {reason}"
    if (failed != script.failures) if script.turns is not None else (_runs(failed) != _runs(script.failures)):
        foretold, found = (", ".join(reasons[:5]) or "none" for reasons in (script.failures, failed))
        return "turn-failed", f"the turns of {name} foretold to fail: {foretold}; but those that failed: {found}"
    if script.answer is not None and isinstance(last, TaskCompleted | TaskSuspended) and last.answer != script.answer:
        said = "nothing" if last.answer is None else repr(shorten(last.answer))
        return "wrong-answer", f"{name} should answer {shorten(script.answer)!r}; but it answered {said}"
    turns = sum(_ends_turn(entry) for entry in task.log)
    if script.turns is not None and turns != script.turns:
        return "wrong-turns", f"{name} should end {script.turns} turns; but its log ends {turns}"
    return _calls_differ(task, script)


def _cut_short_differs(task: TaskEvidence, script: Foretold) -> tuple[str, str] | None:
    """The first way in which the log of a cancelled task is not the beginning of what its script foretells."""
    failed = [entry.event.reason for entry in task.log if isinstance(entry.event, TurnFailed)]
    foretold = list(script.failures)
    if script.turns is None:
        failed, foretold = _runs(tuple(failed)), _runs(script.failures)
    if failed != foretold[: len(failed)]:
        expected, found = (", ".join(reasons[:5]) or "none" for reasons in (foretold, failed))
        words = f"the turns of {task.task} foretold to fail: {expected}; but until its cancel these failed: {found}"
        return "turn-failed", words
    rests = sum(_ends_turn(entry) for entry in task.log if not isinstance(entry.event, Ending))
    if script.turns is not None and rests > script.turns:
        return "wrong-turns", f"{task.task} should end {script.turns} turns; but {rests} ended before its cancel"
    return _calls_differ(task, script, cut_short=True)


def _went_on(task: TaskEvidence) -> Iterator[Finding]:
    """What a task did after it took the order that ended it. One that rested on words of a person was spared: its host
    lets them open it again."""
    ordered: LogEntry | None = None
    for entry in task.log:
        match entry.event:
            case TaskSuspended():
                ordered = None
            case MessageTaken() | TaskWoken() | StepAttemptAbandoned():
                if ordered is None and any(_is_cancel(item) for _, item in items_of(entry.event)):
                    ordered = entry
            case JobEnded() | JobLost():
                pass  # nothing of it outlives the task
            case TaskCancelled() if entry is task.log[-1]:
                pass
            case event if ordered is not None or isinstance(event, Ending):
                first = "" if ordered is None else f"took the order to end at seq {ordered.seq}; but "
                yield Finding(
                    "cancel-ignored",
                    f"{task.task} {first}wrote {kind(entry.event)} at seq {entry.seq} before its end as cancelled",
                    (*(() if ordered is None else (ordered,)), entry, task.log[-1]),
                )
                return
            case _:
                pass


def _is_cancel(item: Item) -> bool:
    return isinstance(item, ControlReceived) and item.action == CANCEL


def _runs(reasons: tuple[str, ...]) -> list[str]:
    """The reasons, each run of the same one as one: a message to a task that rests after a failed turn opens that
    turn again, and it fails again."""
    return [reason for reason, _ in groupby(reasons)]


def _calls_differ(task: TaskEvidence, script: Foretold, *, cut_short: bool = False) -> tuple[str, str] | None:
    if script.calls is None:
        return None
    made: Counter[str] = Counter()
    for entry in task.log:
        if isinstance(entry.event, ModelReplied):
            made.update(call.tool for call in entry.event.calls)
    for tool in sorted({*made, *script.calls}):
        foretold = script.calls.get(tool, 0)
        if made[tool] > foretold or (made[tool] < foretold and not cut_short):
            return "wrong-calls", f"{task.task} should call {tool} {foretold} times; but its log has {made[tool]}"
    return None


def _ends_turn(entry: LogEntry) -> bool:
    event = entry.event
    if isinstance(event, TaskSuspended):
        return isinstance(event.wake_on, HumanResponseReceived) and event.wake_on.handle == NEXT_GOAL
    return isinstance(event, Ending)


def _untaken(task: TaskEvidence, script: Foretold, actual: Outcome) -> Iterator[Finding]:
    """Messages that the script needs and that lie in the inbox, or were stamped unread, although the task is done."""
    if task.final is None or actual not in (Outcome.COMPLETED, Outcome.WAITING):
        return
    needed = set(script.messages)
    sent = {one.number: one for one in task.sent if one.number is not None and one.key in needed}
    taken = {number for entry in task.log for number in numbers_taken(entry.event)}
    unread = {item.number for item in task.final.unread} | set(task.final.stamped or ())
    for number, one in sorted(sent.items()):
        if number not in taken and number in unread:
            yield Finding(
                "message-untaken",
                f"{task.task} reached its foretold end; but message {one.key} (number {number}) still lies unread",
                (script, one, task.log[-1]),
            )


def _unexcused(task: TaskEvidence, script: Foretold, run: RunFacts) -> tuple[str, tuple[Fact, ...]] | None:
    """Why faults do not excuse the outcome; None if they do: a bound was hit by named faults, and none without
    them, other than those that the script reaches by itself; and nothing failed for a reason that is no bound's."""
    foretold = {*script.failures, script.reason}
    for entry in task.log:
        match entry.event:
            case TurnFailed(reason=reason) | TaskFailed(reason=reason) if reason not in EXCUSABLE_REASONS | foretold:
                what = f"{kind(entry.event)} at seq {entry.seq} says {shorten(reason)!r}"
                return f"and {what}, which no fault excuses", (entry,)
            case _:
                pass
    proven = False
    for hit in bounds_hit(task, run):
        why = _unproven(task, hit, run)
        if why is None and hit.bound.value in script.excusable:
            proven = True
        elif why is not None and hit.bound.value not in script.bounds:
            return why
    return None if proven else ("and no bound was hit that faults could excuse", ())


def _unproven(task: TaskEvidence, hit: BoundHit, run: RunFacts) -> tuple[str, tuple[Fact, ...]] | None:
    distinct = sorted(set(hit.epochs))
    struck: dict[int, FaultSeen] = {}
    for epoch in distinct:
        fault = run.held_when_struck(task.task, epoch)
        if fault is not None:
            struck[epoch] = fault
    what = f"the bound {hit.bound.value} at seq {hit.entry.seq}"
    if len(distinct) < hit.needed:
        return f"and {what} counts {hit.needed} attempts under only {len(distinct)} epochs {distinct}", (hit.entry,)
    if len(struck) < hit.needed:
        missing = [epoch for epoch in distinct if epoch not in struck]
        named = f"no fault hit the holder of epoch {', '.join(map(str, missing[:5]))}"
        return f"and {what} is not excused: {named}", (hit.entry, *struck.values())
    return None


LAW = Law(
    key="script-finished",
    title="Every script is finished",
    statement=(
        "Every task ends by the deadline with the outcome its script foretells, or, with a part of its script done and "
        "nothing else, cancelled, if its cancel was accepted or its parent had ended or given it up; a bounded failure "
        "counts only where each of its attempts stands under its own epoch and the history names the fault that hit "
        "its holder; over 5 % excused is unknown."
    ),
    source="One writer and crash recovery (the proof: make cluster)",
    reads="what the scripts foretell, the log, and the faults that struck",
    codes={
        "unfinished": "the task did not end by the deadline",
        "cancel-ignored": "its cancel was accepted, and it ended another way, or went on, and no fault excuses it",
        "wrong-outcome": "it ended another way than foretold, and no fault excuses it",
        "wrong-reason": "it failed for another reason than foretold",
        "turn-failed": "a turn failed that should not, and no fault excuses it",
        "wrong-answer": "it answered something else, and no fault excuses it",
        "wrong-turns": "more or fewer turns ended than foretold",
        "wrong-calls": "a tool was called more or less often than foretold",
        "message-untaken": "it reached its end with a needed message still unread",
    },
    check=check,
    conclude=conclude,
)
