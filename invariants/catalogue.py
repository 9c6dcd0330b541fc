"""The list of laws, and of all promises, each with the law that checks it.

``docs/promises.md`` is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from invariants.law import Law
from invariants.laws import (
    acked_stays,
    bounded,
    calls_pair,
    children_once,
    effect_at_most_once,
    epochs_rise,
    frozen_holds_nothing,
    gapless_log,
    jobs_told_once,
    never_stuck,
    one_writer,
    row_agrees,
    same_request,
    script_finished,
    taken_once,
    terminal_is_final,
    timers_once,
    waiting_is_free,
    wake_once,
)

LAWS: Final[tuple[Law, ...]] = (
    one_writer.LAW,
    epochs_rise.LAW,
    gapless_log.LAW,
    acked_stays.LAW,
    terminal_is_final.LAW,
    row_agrees.LAW,
    script_finished.LAW,
    taken_once.LAW,
    wake_once.LAW,
    effect_at_most_once.LAW,
    calls_pair.LAW,
    same_request.LAW,
    jobs_told_once.LAW,
    children_once.LAW,
    timers_once.LAW,
    bounded.LAW,
    never_stuck.LAW,
    waiting_is_free.LAW,
    frozen_holds_nothing.LAW,
)
"""In the order in which a report shows them: the fence first, liveness last."""

SERVER_LAWS: Final = frozenset({frozen_holds_nothing.LAW.key})
"""Keys of the laws about what only a database server has: a run in memory, or on a file, has nothing for them."""

LAWS_BY_KEY: Final[Mapping[str, Law]] = {law.key: law for law in LAWS}


@dataclass(frozen=True, slots=True)
class Promise:
    """One guarantee, and the law that checks it after a run."""

    key: str
    statement: str

    @property
    def law(self) -> Law:
        """The law that checks it."""
        return LAWS_BY_KEY[self.key]


def _checked(key: str, statement: str) -> Promise:
    assert key in LAWS_BY_KEY, f"no law checks {key!r}"
    return Promise(key, statement)


PROMISES: Final[tuple[Promise, ...]] = (
    _checked(
        "one-writer",
        "an append lands only with the task's current epoch and claim token, a lease not yet over by the store's clock "
        "read *after* the row lock, and the expected `seq`; otherwise nothing is written",
    ),
    _checked("epochs-rise", "a task's epoch never goes back, and one epoch names one owner (worker and claim token)"),
    _checked(
        "gapless-log",
        "`seq` starts at 1 and has no gap; entries of a lower epoch never follow entries of a higher one",
    ),
    _checked(
        "acked-stays",
        "entries answered ok are in every later read with the same bytes; of an attempt (epoch, token, seq, hash) "
        "answered `Conflict` or `StoreUnavailable` nothing is; after `CommitUnknown` it is all or none, and none may "
        "still become all until a higher epoch exists",
    ),
    _checked("terminal-is-final", "nothing follows the terminal entry; nothing leaves the terminal status"),
    _checked(
        "row-agrees",
        "the task row at `row.last_seq` stands in the stated relation to the fold of the log up to there",
    ),
    _checked(
        "script-finished",
        "every task ends by the deadline with the outcome its script foretells; a bounded failure counts only where "
        "each of its attempts stands under its own epoch and the history names the fault that hit its holder; over 5 % "
        "excused is `unknown`",
    ),
    _checked(
        "taken-once",
        "an inbox item is taken by exactly one append, or stamped unread by the terminal one; a repeat with the same "
        "dedupe key is dropped, also after the first was taken",
    ),
    _checked(
        "wake-once",
        "a matched wake is delivered, byte for byte the same, until its `TaskWoken` is in the log, and never after; "
        "early wakes are kept, repeated wakes cause no extra turn",
    ),
    _checked(
        "effect-at-most-once",
        "a tool that did not opt in is never started twice. Of a call finished by a run, that start was journalled "
        "exactly once and each earlier start 0 or 1 times, also later (a resumed zombie); finished by `recover`: 1 in "
        "all; unknown: 0 or 1",
    ),
    _checked(
        "calls-pair",
        "every `ModelCalled` is followed by its reply, its abandonment or a terminal entry; every `ToolStarted` "
        "likewise",
    ),
    _checked(
        "same-request",
        "a model call made again in an open turn sends the same bytes, or its entry says why not (code or pins "
        "changed)",
    ),
    _checked(
        "jobs-told-once",
        "a background job ends in the log as ended or lost, never missing, and the model is told once",
    ),
    _checked(
        "children-once",
        "children are born with the append that records their call's `ToolFinished` or park, with derived ids; a "
        "parent gets each result once, however fast the child was",
    ),
    _checked(
        "timers-once",
        "a timer never fires before its delay has passed since the entry that asked, by the store's clock, never "
        "twice, and its event is the stored condition",
    ),
    _checked("bounded", "every retry has a bound, and hitting it leaves an entry that names the reason"),
    _checked("never-stuck", "no task is stuck"),
    _checked(
        "waiting-is-free",
        "a suspended task without a kept claim holds no thread, connection, process or lease; idle tasks never slow a "
        "claim (the store's tests count what a claim touches beside idle tasks, and the benchmarks measure it)",
    ),
    _checked(
        "frozen-holds-nothing",
        "a worker frozen at any instant holds no row lock longer than `statement_timeout`",
    ),
)
"""Every promise of the system design, in its order."""
