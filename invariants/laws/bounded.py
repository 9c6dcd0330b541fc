"""Every retry has a bound, and hitting it leaves an entry that names the reason.

The takeover bound is judged with the faults: at the bound the next owner writes the task's end, but that owner
can be killed before it does. Each takeover beyond the bound needs such a fault by name. An attempt that is parked for a
person counts for nothing, and its notice says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from invariants.evidence import LogEntry, RunFacts, TaskEvidence
from invariants.law import Finding, Law, Tally
from invariants.wording import kind
from noeta.core import texts
from noeta.core.events import (
    ModelCalled,
    ModelReplied,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.task import TAKEOVERS_MAX, Status
from noeta.core.tool import MAX_ATTEMPTS


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Counts since the last thing that resets them."""
    calls: list[LogEntry] = []
    starts: Counter[str] = Counter()
    bugs = 0
    for entry in task.log:
        match entry.event:
            case TaskCreated(subtask_depth=depth) if run.depth_max is not None and depth > run.depth_max:
                yield Finding(
                    "too-deep",
                    f"{task.task} stands {depth} below its root; the bound is {run.depth_max}",
                    (entry,),
                )
            case ModelCalled():
                tally.saw()
                calls.append(entry)
                if len(calls) > texts.MAX_MODEL_ATTEMPTS:
                    yield _model_attempts(task, calls)
            case ModelReplied():
                calls, bugs = [], 0
            case StepAttemptAbandoned(reason=texts.WORKER_STOPPED):
                calls = calls[:-1]  # a worker that stopped gave it up alive
            case TaskSuspended() | TaskWoken():
                calls = []  # whatever ends the rest begins a turn, or answers a call of one
            case NoticeGiven(text=text) if not text.strip():
                yield _no_reason(task, entry)
            case ToolStarted(call_id=call_id):
                tally.saw()
                starts[call_id] += 1
                if starts[call_id] > MAX_ATTEMPTS:
                    yield _tool_starts(task, entry, call_id, starts[call_id])
            case ToolFinished(source="unknown", output=output) if not output.strip():
                yield _no_reason(task, entry)
            case TurnFailed(reason=reason):
                tally.saw()
                calls = []
                bugs = bugs + 1 if reason == texts.INTERNAL_ERROR else 0
                if bugs > texts.MAX_INTERNAL_ERRORS:
                    yield _internal_errors(task, entry, bugs)
                if not reason.strip():
                    yield _no_reason(task, entry)
            case TaskFailed(reason=reason):
                tally.saw()
                if not reason.strip():
                    yield _no_reason(task, entry)
            case _:
                pass
    yield from _takeovers(task, run)


def _model_attempts(task: TaskEvidence, calls: list[LogEntry]) -> Finding:
    return Finding(
        "model-attempts",
        f"{task.task} called the model {len(calls)} times without a reply, at seqs "
        f"{', '.join(str(entry.seq) for entry in calls[:6])}; the bound is {texts.MAX_MODEL_ATTEMPTS}",
        (calls[0], calls[-1]),
    )


def _tool_starts(task: TaskEvidence, entry: LogEntry, call_id: str, count: int) -> Finding:
    return Finding(
        "tool-starts",
        f"{task.task} started call {call_id} for the {count}th time at seq {entry.seq}; the bound is {MAX_ATTEMPTS}",
        (entry,),
    )


def _internal_errors(task: TaskEvidence, entry: LogEntry, bugs: int) -> Finding:
    return Finding(
        "internal-errors",
        f"{bugs} turns of {task.task} in a row failed by a bug of the runner, up to seq {entry.seq}; the second should "
        f"have ended the task",
        (entry,),
    )


def _no_reason(task: TaskEvidence, entry: LogEntry) -> Finding:
    return Finding("no-reason", f"seq {entry.seq} {kind(entry.event)} of {task.task} names no reason", (entry,))


def _takeovers(task: TaskEvidence, run: RunFacts) -> Iterator[Finding]:
    final = task.final
    if final is None or final.row.status is Status.TERMINAL or final.row.takeovers <= TAKEOVERS_MAX:
        return
    last_epoch = task.log[-1].epoch if task.log else 0
    epochs = range(max(last_epoch, final.row.epoch - final.row.takeovers), final.row.epoch + 1)
    struck = sum(run.held_when_struck(task.task, epoch) is not None for epoch in epochs)
    if final.row.takeovers - TAKEOVERS_MAX > struck:
        yield Finding(
            "takeovers",
            f"{task.task} was taken over {final.row.takeovers} times in a row without a new entry, and faults hit "
            f"{struck} of its holders; the bound is {TAKEOVERS_MAX}, and its log names no reason",
            (final,),
        )


LAW = Law(
    key="bounded",
    title="Every retry is bounded",
    statement="Every retry has a bound, and hitting it leaves an entry that names the reason.",
    source="One writer and crash recovery (every retry is bounded)",
    reads="the log; the final row and the faults for takeovers",
    codes={
        "model-attempts": "more than three model calls without a reply in one turn",
        "tool-starts": "more than three starts of one call",
        "internal-errors": "more than two turns in a row failed by a bug, and the task went on",
        "takeovers": "more than ten takeovers in a row, with no fault that explains the rest",
        "too-deep": "a sub-agent stands deeper below its root than the run allows",
        "no-reason": "a failure, an unknown outcome or a notice without a reason",
    },
    check=check,
)
