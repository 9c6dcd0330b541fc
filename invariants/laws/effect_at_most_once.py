"""A side effect happens at most once, unless its tool said that more is harmless.

Two witnesses: the log says what was started and how it ended; the journal, outside the store and never rolled
back, says what was done. A token is per start, so no token may ever come twice, whatever the tool. A worker
that froze inside a tool may journal its own earlier start late; that is one line, like any other.

A call that a person must approve starts only after the answer that approves it; one that was denied has no effect.

Not covered: effects that a tool does not journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from invariants.evidence import JournalLine, LogEntry, RunFacts, TaskEvidence, ToolKind
from invariants.law import Fact, Finding, Law, Tally
from invariants.waits import Approvals
from invariants.wording import instant
from noeta.core.events import ModelReplied, ToolFinished, ToolStarted
from noeta.core.tool import MAX_ATTEMPTS


@dataclass(slots=True)
class _Call:
    """One call, as the log has it. ``starts``: by number; ``unapproved``: where a person was asked, and where it was
    started all the same."""

    id: str
    tool: str
    starts: dict[int, LogEntry] = field(default_factory=dict)
    repeated: list[tuple[LogEntry, LogEntry]] = field(default_factory=list)
    finished: LogEntry | None = None
    source: str = ""
    is_error: bool = False
    unapproved: tuple[LogEntry, LogEntry] | None = None


def check(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    """Starts in the log beside effects in the journal."""
    calls = _calls(task)
    effects: dict[tuple[str, int], list[JournalLine]] = {}
    for line in task.journal:
        if line.kind == "effect":
            tally.saw()
            yield from _line(task.task, line, calls)
            effects.setdefault((line.call, line.start), []).append(line)
    yield from _twice(task.task, effects)
    for call in calls.values():
        if call.unapproved is not None:
            yield _unapproved(task, call, *call.unapproved)
        tool = run.tools.get(call.tool)
        if tool is None:
            if call.starts:
                tally.doubt(f"nobody said what tool {call.tool!r} promises (call {call.id} of {task.task})")
            continue
        yield from _starts(task, call, tool)
        if tool.journals and run.journal_lines:
            yield from _finished(task, call, tool, effects)


def _calls(task: TaskEvidence) -> Mapping[str, _Call]:
    calls: dict[str, _Call] = {}
    approvals = Approvals()
    for entry in task.log:
        approvals.see(entry)
        match entry.event:
            case ModelReplied(calls=requested):
                calls.update((one.id, _Call(one.id, one.tool)) for one in requested)
            case ToolStarted(call_id=call_id, start=start):
                call = calls.setdefault(call_id, _Call(call_id, ""))
                if start in call.starts:
                    call.repeated.append((call.starts[start], entry))
                call.starts[start] = entry
                asked = approvals.asked.get(call_id) or approvals.denied.get(call_id)
                call.unapproved = call.unapproved or (None if asked is None else (asked, entry))
            case ToolFinished(call_id=call_id) as finished:
                call = calls.setdefault(call_id, _Call(call_id, ""))
                call.finished, call.source, call.is_error = entry, finished.source, finished.is_error
            case _:
                pass
    return calls


def _line(task: str, line: JournalLine, calls: Mapping[str, _Call]) -> Iterator[Finding]:
    if line.token != f"{line.task}:{line.call}:{line.start}":
        yield Finding(
            "token-forged",
            f"{line.worker} journalled token {line.token} for call {line.call}, start {line.start} of {task}",
            (line,),
        )
    call = calls.get(line.call)
    if call is not None and call.source == "denied" and call.finished is not None:
        yield Finding(
            "effect-denied",
            f"{line.worker} ran {line.tool} as call {line.call} of {task} at {instant(line.at)}; but seq "
            f"{call.finished.seq} says that it was denied",
            (call.finished, line),
        )
    elif call is None or line.start not in call.starts:
        yield Finding(
            "effect-unlogged",
            f"{line.worker} ran {line.tool} as call {line.call}, start {line.start} of {task}, at {instant(line.at)}; "
            f"but the log has no such start; so the effect came before its record",
            (line,),
        )


def _unapproved(task: TaskEvidence, call: _Call, asked: LogEntry, started: LogEntry) -> Finding:
    return Finding(
        "started-unapproved",
        f"{task.holder(started.epoch)} started call {call.id} ({call.tool}) of {task.task} at seq {started.seq}; but a "
        f"person was asked at seq {asked.seq}, and has not approved it",
        (asked, started),
    )


def _twice(task: str, effects: Mapping[tuple[str, int], list[JournalLine]]) -> Iterator[Finding]:
    for (call, start), lines in effects.items():
        if len(lines) > 1:
            who = " and ".join(f"{line.worker} at {instant(line.at)}" for line in lines[:3])
            yield Finding(
                "effect-twice",
                f"the effect of call {call}, start {start} of {task} was made {len(lines)} times: by {who}",
                tuple(lines[:3]),
            )


def _starts(task: TaskEvidence, call: _Call, tool: ToolKind) -> Iterator[Finding]:
    for first, again in call.repeated:
        yield _again(task, call, first, again, "with the same number")
    ordered = sorted(call.starts.values(), key=lambda entry: entry.seq)
    allowed = MAX_ATTEMPTS if tool.retry_safe else 1
    if len(ordered) > allowed:
        if allowed == 1:
            yield _again(task, call, ordered[0], ordered[1], "although its tool did not opt in")
        else:
            yield Finding(
                "too-many-starts",
                f"call {call.id} of {task.task} ({call.tool}) was started {len(ordered)} times; the bound is {allowed}",
                (ordered[0], ordered[-1]),
            )
    numbers = [number for number, _ in sorted(call.starts.items(), key=lambda pair: pair[1].seq)]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Finding(
            "starts-misnumbered",
            f"the starts of call {call.id} of {task.task} are numbered {numbers[:10]}, not from 1 upwards",
            tuple(ordered[:3]),
        )


def _again(task: TaskEvidence, call: _Call, first: LogEntry, again: LogEntry, why: str) -> Finding:
    return Finding(
        "started-twice",
        f"{task.holder(first.epoch)} started call {call.id} ({call.tool}) of {task.task} at seq {first.seq} under "
        f"epoch {first.epoch}; but {task.holder(again.epoch)} started it again at seq {again.seq} under epoch "
        f"{again.epoch}, {why}",
        (first, again),
    )


def _finished(
    task: TaskEvidence, call: _Call, tool: ToolKind, effects: Mapping[tuple[str, int], list[JournalLine]]
) -> Iterator[Finding]:
    """A call finished by a run, or looked up, must have left its effect.

    A looked-up call has one in all. Only if its tool is ``retry_safe`` too, and was started again, a frozen
    earlier start may still add its own.
    """
    if call.finished is None or not call.starts:
        return
    last = max(call.starts)
    made = {start: effects.get((call.id, start), []) for start in call.starts}
    witnesses: tuple[Fact, ...] = (call.starts[last], call.finished)
    total = sum(map(len, made.values()))
    match call.source:
        case "ran" if not made[last] and (tool.journals_errors or not call.is_error):
            yield Finding(
                "effect-missing",
                f"{task.task} finished call {call.id} ({call.tool}) by running it, at seq {call.finished.seq}; but the "
                f"journal has no effect of start {last}",
                witnesses,
            )
        case "recovered" if not 1 <= total <= len(call.starts):
            yield Finding(
                "recovered-count",
                f"{task.task} finished call {call.id} ({call.tool}) by looking up its outcome, at seq "
                f"{call.finished.seq}; but the journal has {total} effects of it, not 1",
                (*witnesses, *(line for lines in made.values() for line in lines[:2])),
            )
        case _:
            pass


LAW = Law(
    key="effect-at-most-once",
    title="Effects at most once",
    statement=(
        "A tool that did not opt in is never started twice, and no start is ever journalled twice. Of a call finished "
        "by a run, that start was journalled exactly once and each earlier one 0 or 1 times; finished by recover: 1 in "
        "all; unknown: 0 or 1. A call that a person is asked about starts only after it was approved, and one that was "
        "denied has no effect."
    ),
    source="One writer and crash recovery (a tool call cut short)",
    reads="the journal, the log, and what each tool promises",
    codes={
        "effect-twice": "one start's effect was made more than once",
        "effect-unlogged": "an effect whose start is not in the log",
        "effect-missing": "a call finished by a run whose effect was never made",
        "recovered-count": "a call finished by a look-up with no effect, or several",
        "started-twice": "a tool that did not opt in was started again, or one start was logged twice",
        "too-many-starts": "a retry_safe call was started more than three times",
        "starts-misnumbered": "starts are not numbered 1, 2, 3",
        "started-unapproved": "a call that a person was asked about was started without being approved",
        "effect-denied": "an effect of a call that was denied",
        "token-forged": "a journalled token does not name its own call and start",
    },
    check=check,
)
