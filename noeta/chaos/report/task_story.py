"""The story of a task with what only a run knows: who held each epoch, how that ended, what struck the holders."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from invariants import Anomaly, Answer, Attempt, FaultSeen, LogEntry, RunFacts, TaskEvidence, Verb
from invariants.wording import seqs
from noeta.chaos.nemesis.record import CRASHED, SELF_KILLED
from noeta.chaos.schedule import DATABASE_KINDS, Kind
from noeta.core.events import Ending, TaskSuspended
from noeta.story.excerpt import excerpt
from noeta.story.head import Head, Kid, born, head_lines
from noeta.story.lines import Shown, story_lines
from noeta.story.parts import Line, Mark, Part, Seen
from noeta.story.tell import tell
from noeta.story.text import name, span

PARTS_MAX: Final = 24
"""Parts of a story that an anomaly shows."""

ENDS_MAX: Final = 3
"""Sentences about the end of one claim."""

_SUCH: Final[dict[str, str]] = {
    Kind.KILL: "was killed (SIGKILL)",
    Kind.KILL_ALL: "was killed (SIGKILL), with every other worker",
    Kind.RESTART_SAME_NAME: "was killed (SIGKILL), and one of the same name started at once",
    Kind.PAUSE: "was frozen (SIGSTOP)",
    Kind.TERMINATE: "was told to stop (SIGTERM)",
    Kind.SKEW: "had its clock set off",
    Kind.DB_RESTART: "was restarted",
    Kind.DB_KILL: "was killed (SIGKILL)",
    Kind.STORE_UNAVAILABLE: "could not reach the store",
    Kind.UNKNOWN_LOST: "lost its connection: its call never arrived",
    Kind.UNKNOWN_LANDED: "lost its connection: its call arrived, the answer did not",
    Kind.UNKNOWN_LATER: "lost its connection: its call arrived later, unanswered",
    Kind.SLOW: "made a call that was slow to arrive",
    Kind.CUT_BEFORE_COMMIT: "had its connection cut before its commit reached the server",
    Kind.CUT_AFTER_COMMIT: "had its connection cut before it heard of its commit",
    Kind.SAY: "had to hear a client's message",
    SELF_KILLED: "was killed (SIGKILL) by what a task's script does",
    CRASHED: "ended by itself",
}
"""What a fault did to the process it struck, by its kind."""

_OVER: Final[dict[str, str]] = {
    Kind.PAUSE: "goes on (SIGCONT)",
    Kind.DB_RESTART: "is back",
    Kind.DB_KILL: "is back",
}
"""What its end did, where a reader wants to know of it."""

_WORKERS_OWN: Final = frozenset({Verb.CLAIM, Verb.RENEW, Verb.RELEASE, Verb.APPEND, Verb.FAIL})
"""What only the holder of a claim asks."""


def story_of(task: TaskEvidence, run: RunFacts) -> tuple[Head, Seen]:
    """The head of a task's story, and all that the run knows of it besides its log."""
    row = None if task.final is None else task.final.row
    head = Head(
        task.task,
        row,
        task.log,
        tuple(Kid(child, _stands(child, run)) for child in born(task.log)),
        () if task.final is None else tuple(task.final.unread),
    )
    holders = _holders(task)
    ends = {epoch: tuple(_ends(epoch, task))[:ENDS_MAX] for epoch in holders}
    epoch = 0 if row is None else row.epoch
    return head, Seen(holders, ends, tuple(_marks(task, run)), epoch, names_holders=True)


def around(anomaly: Anomaly, task: TaskEvidence, run: RunFacts) -> list[str]:
    """The part of the task's story in which an anomaly happened, bounded, as lines of text."""
    head, seen = story_of(task, run)
    mine = [fact for fact in anomaly.witnesses if isinstance(fact, LogEntry) and fact.task == task.task]
    instants = [] if mine else [at for fact in anomaly.witnesses if (at := getattr(fact, "at", None)) is not None]
    named = {fact.seq for fact in mine}
    parts = [_pointed_at(part, named) for part in excerpt(tell(task.log, seen), named, instants, most=PARTS_MAX)]
    above = list(head_lines(head, 0 if task.final is None else task.final.at))
    return [shown.text for shown in (*map(Shown, (above[0], *above[-1:])), *story_lines(parts))]


def _pointed_at(part: Part, seqs: Collection[int]) -> Part:
    """An entry that the anomaly rests on, with a sign that it is one."""
    if isinstance(part, Line) and part.entry.seq in seqs:
        return replace(part, words=f"{part.words}   <== named above")
    return part


def _holders(task: TaskEvidence) -> dict[int, str]:
    """Who held each epoch: by the holders' own record, or as somebody saw the row."""
    holders: dict[int, str] = {}
    for attempt in task.attempts:
        if attempt.verb in _WORKERS_OWN and attempt.epoch is not None:
            holders.setdefault(attempt.epoch, f"{name(attempt.worker)} in process {name(attempt.process)}")
    for row in task.rows:
        if row.worker is not None:
            holders.setdefault(row.epoch, name(row.worker))
    return holders


def _ends(epoch: int, task: TaskEvidence) -> Iterator[str]:
    """How a claim ended, as its holder's own record and the log have it."""
    mine = [one for one in task.attempts if one.epoch == epoch and one.verb in _WORKERS_OWN]
    entries = [entry for entry in task.log if entry.epoch == epoch]
    rested = bool(entries) and isinstance(entries[-1].event, Ending | TaskSuspended)
    given_back = False
    for one in mine:
        match one.verb, one.answer:
            case Verb.RELEASE, Answer.OK:
                given_back = True
                yield f"{name(one.worker)} gave the task back"
            case Verb.FAIL, Answer.OK:
                given_back = True
                yield f"{name(one.worker)} met an error of its own, and gave the task back"
            case _:
                pass
    until = max((one.lease_until or 0 for one in mine if one.answer is Answer.OK), default=0)
    later = next((entry for entry in task.log if entry.epoch > epoch), None)
    if until and later is not None and later.at >= until and not rested and not given_back:
        yield f"the lease of {name(mine[0].worker)} ran out"
    for one in mine:
        if one.verb is Verb.APPEND and one.answer is not Answer.OK:
            yield _unheard(one, task.log)


def _unheard(append: Attempt, log: Sequence[LogEntry]) -> str:
    """What became of an append that its sender had no good answer to."""
    what = f"{name(append.worker)}'s append of {seqs(append.first_seq, append.count)}"
    match append.answer:
        case Answer.CONFLICT:
            return f"{what} was refused: it held the task no longer"
        case Answer.UNAVAILABLE | Answer.REFUSED:
            return f"{what} was refused, and wrote nothing"
        case _:
            there = any(entry.seq == append.first_seq and entry.body_hash == append.hashes[0] for entry in log)
            return f"{what} had no answer; it {'had' if there else 'had not'} landed"


def _marks(task: TaskEvidence, run: RunFacts) -> Iterator[Mark]:
    """What struck the holders of this task, and the database under it."""
    if not task.log:
        return
    first, last = task.log[0].at, task.log[-1].at
    for fault in run.faults:
        if fault.kind in DATABASE_KINDS:
            if not first <= fault.at <= last:
                continue
            yield Mark(fault.at, f"{_whom(fault)} {_such(fault)}")
        else:
            epochs = [held.epoch for held in fault.held if held.task == task.task]
            if not epochs:
                continue
            for epoch in epochs:
                yield Mark(fault.at, f"{_whom(fault)}, which held the task, {_such(fault)}", epoch)
        if fault.ended_at is not None and fault.kind in _OVER:
            yield Mark(fault.ended_at, f"{_whom(fault)} {_OVER[fault.kind]}, after {span(fault.ended_at - fault.at)}")


def _whom(fault: FaultSeen) -> str:
    return "the database server" if fault.kind in DATABASE_KINDS else name(fault.process)


def _such(fault: FaultSeen) -> str:
    return _SUCH.get(fault.kind, f"was struck by {name(fault.kind)}")


def _stands(child: str, run: RunFacts) -> str:
    kin = run.kin.get(child)
    return "" if kin is None else "it has ended" if kin.ended_at is not None else kin.status.value
