"""What a task's cron table asks for, beside what its log says of it: for the law ``timers-once``.

The table is read with the calendar of ``noeta.core.cron``, which has tests of its own; which instant is asked for, when
and by whom is decided here. A firing is decided at an instant between what its writer surely knew of the store's clock
and the entry's own time: between the two, a newer occurrence may or may not have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from invariants.evidence import Answer, LogEntry, RunFacts, TaskEvidence, Verb
from invariants.law import Finding, Tally
from invariants.waits import Waits
from invariants.wording import instant, kind
from noeta.core import cron, texts
from noeta.core.errors import BadInput
from noeta.core.events import (
    CronFired,
    CronRemoved,
    CronSet,
    Ending,
    JobEnded,
    JobLost,
    MessageTaken,
    TaskSuspended,
    TaskWoken,
    ToolStarted,
)
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.wake import HumanResponseReceived, due_at, timed_out

SINCE_ROUNDING: Final = 2
"""Microseconds that the start of a call may lose as a number of seconds."""

CLOCK_SLACK: Final = MICROS_PER_SECOND
"""How much a writer's knowledge of the store's clock may lag behind a claim or an append that it made, in microseconds.
A store reads its clock more than once in a call, and the answer takes its time."""


@dataclass(slots=True)
class _Cron:
    """An entry of the table. ``set_by``: its ``CronSet``; ``fired``: its newest firing; ``last``: what counts is later
    than this; ``next``: the occurrence after that, None if there is none."""

    table: cron.Table
    set_by: LogEntry
    last: float
    next: float | None
    fired: LogEntry | None = None


@dataclass(slots=True)
class Crons:
    """The cron table of one task, entry by entry. ``owed``: the instant for which it was woken, and what is due by then
    must fire; ``unread``: entries that cannot be read here; ``has_table``: it has, or had, one."""

    task: TaskEvidence
    run: RunFacts
    tally: Tally
    table: dict[str, _Cron] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    has_table: bool = False
    starts: dict[str, LogEntry] = field(default_factory=dict)
    claimed: Mapping[int, int] = field(default_factory=dict)
    rest: LogEntry | None = None
    woken: LogEntry | None = None
    owed: float | None = None

    def __post_init__(self) -> None:
        if self.run.lease:
            self.claimed = {
                one.epoch: one.lease_until - self.run.lease
                for one in self.task.attempts
                if one.verb is Verb.CLAIM and one.answer is Answer.OK and one.epoch and one.lease_until
            }

    def see(self, entry: LogEntry, waits: Waits) -> Iterator[Finding]:
        """The next entry; ``waits`` has seen it."""
        match entry.event:
            case ToolStarted(call_id=call):
                self.starts[call] = entry
            case CronSet() as made:
                yield from self._set(entry, made)
            case CronRemoved(cron_id=cron_id):
                self.table.pop(cron_id, None)
                self.unread.discard(cron_id)
            case TaskWoken(event=event):
                self.woken = entry
                self.owed = due_at(event) if timed_out(event) and waits.between_turns else None  # type: ignore[arg-type]
            case CronFired() as fired:
                yield from self._fired(entry, fired)
            case TaskSuspended() as rests:
                if not rests.reason:
                    yield from self._lost(entry)
                self.owed, self.rest = None, entry
                yield from self._rests(entry, rests, waits)
            case MessageTaken() | JobEnded() | JobLost():
                pass
            case event if isinstance(event, Ending):
                pass  # what a table has left when its task ends is nobody's
            case _:
                yield from self._lost(entry)
                self.owed = None

    def _set(self, entry: LogEntry, made: CronSet) -> Iterator[Finding]:
        self.tally.saw()
        self.has_table = True
        start = self.starts.get(made.cron_id.partition(".")[0])
        if start is not None and abs(micros(made.since) - start.at) > SINCE_ROUNDING:
            yield Finding(
                "other-instant",
                f"cron {made.cron_id} of {self.task.task} counts since {instant(micros(made.since))}; but the call "
                f"that asked for it was started at {instant(start.at)}",
                (start, entry),
            )
        try:
            table = cron.parse(made.expression, made.zone)
        except BadInput as error:
            self.tally.doubt(f"cron {made.cron_id} of {self.task.task} cannot be read here: {error}")
            self.unread.add(made.cron_id)
            return
        self.table[made.cron_id] = _Cron(table, entry, made.since, cron.next_after(table, made.since))

    def _fired(self, entry: LogEntry, fired: CronFired) -> Iterator[Finding]:
        self.tally.saw()
        self.tally.counts["cron firings"] += 1
        self.tally.counts["cron occurrences skipped"] += fired.missed
        if fired.cron_id in self.unread:
            return
        one = self.table.get(fired.cron_id)
        what = f"seq {entry.seq} of {self.task.task} fires cron {fired.cron_id} for {instant(micros(fired.due_at))}"
        if one is None:
            yield Finding("no-occurrence", f"{what}; but there is no such entry in its table", (entry,))
            return
        if micros(fired.due_at) > entry.at:
            yield Finding("cron-early", f"{what} at {instant(entry.at)}; so it fired before its time", (entry,))
        if fired.due_at <= one.last:
            before = one.fired or one.set_by
            yield Finding(
                "cron-twice",
                f"{what}; but seq {before.seq} {kind(before.event)} is about that time, or a later one",
                (before, entry),
            )
            return
        yield from self._as_due(entry, fired, one, what)
        one.last, one.next, one.fired = fired.due_at, cron.next_after(one.table, fired.due_at), entry
        known = self._known_by(entry)
        if one.next is not None and micros(one.next) <= known:
            yield Finding(
                "cron-behind",
                f"{what}; but who wrote it knew that it was {instant(known)}, and {instant(micros(one.next))} had come "
                f"by then; so an older occurrence fired than the newest",
                (entry,) if self.woken is None else (self.woken, entry),
            )

    def _as_due(self, entry: LogEntry, fired: CronFired, one: _Cron, what: str) -> Iterator[Finding]:
        """The calendar, asked again: the occurrence, and how many older ones it stands for."""
        due = cron.due(one.table, one.last, fired.due_at)
        if due is None or due.at != fired.due_at:
            yield Finding(
                "no-occurrence",
                f"{what}; but {one.table.expression!r} in {one.table.zone} names no such instant",
                (one.set_by, entry),
            )
        elif due.missed != fired.missed:
            yield Finding(
                "miscounted",
                f"{what} and says that {fired.missed} older occurrences were skipped; but there were {due.missed} "
                f"since {instant(micros(one.last))}",
                (one.fired or one.set_by, entry),
            )

    def _known_by(self, entry: LogEntry) -> int:
        """An instant that had surely come by the store's clock, as far as the writer of this firing knew."""
        known = 0 if self.owed is None else micros(self.owed)
        if entry.epoch in self.claimed:
            known = max(known, self.claimed[entry.epoch] - CLOCK_SLACK)
        if self.rest is not None and self.rest.epoch == entry.epoch:
            known = max(known, self.rest.at - CLOCK_SLACK)
        return known

    def _lost(self, entry: LogEntry) -> Iterator[Finding]:
        """The task was woken for its table, and has gone on: all that was due by then has fired."""
        if self.owed is None or self.woken is None:
            return
        for cron_id, one in self.table.items():
            if one.next is not None and one.next <= self.owed:
                yield Finding(
                    "cron-lost",
                    f"{self.task.task} was woken at seq {self.woken.seq} for what is due by "
                    f"{instant(micros(self.owed))}; but seq {entry.seq} {kind(entry.event)} follows, and cron "
                    f"{cron_id} has not fired for {instant(micros(one.next))}",
                    (self.woken, entry),
                )

    def _rests(self, entry: LogEntry, rests: TaskSuspended, waits: Waits) -> Iterator[Finding]:
        """A rest between two turns ends by itself at the next occurrence. One in which a call waits, or a person must
        say how it goes on, does not."""
        wake_on = rests.wake_on
        if not waits.between_turns or not isinstance(wake_on, HumanResponseReceived) or self.unread:
            return
        is_parked = rests.reason == texts.ATTEMPT_PARKED
        nexts = [one.next for one in self.table.values() if one.next is not None]
        wanted = None if is_parked else min(nexts, default=None)
        if (self.has_table or is_parked) and wake_on.timeout_at != wanted:
            found, right = (
                "for ever" if at is None else f"until {instant(micros(at))}" for at in (wake_on.timeout_at, wanted)
            )
            yield Finding(
                "other-rest",
                f"{self.task.task} rests {found} at seq {entry.seq}; but by its cron table it must rest {right}",
                (entry,),
            )
