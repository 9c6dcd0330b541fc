"""What the matrix tries: what the step was doing, which signal came, and what must come of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final, Literal

from noeta.runtime.jobs import table
from tests.shutdown_matrix import app

GRACE_SECONDS: Final = 3.0
LEASE_SECONDS: Final = 4.0
STATEMENT_SECONDS: Final = 1.0
SLACK_SECONDS: Final = 2.0
"""What a loaded machine may add to an end that is said to be at once (below the grace, so that the two differ), or when
the grace is over."""

JOB_SECONDS: Final = table.GRACE_SECONDS
"""What a job whose processes ignore SIGTERM adds: then they are killed."""

STORE_SECONDS: Final = LEASE_SECONDS / 2
"""What a worker adds to the grace for the last call to a store that does not answer."""

After = Literal["at once", "after its lease", "ended", "no task", "not in time"]
"""When another worker can claim the task, counted from the end of the process."""


@dataclass(frozen=True)
class Strike:
    """A column."""

    name: str
    number: signal.Signals
    twice: bool = False


STRIKES: Final = (
    Strike("SIGTERM", signal.SIGTERM),
    Strike("SIGINT", signal.SIGINT),
    Strike("SIGTERM twice", signal.SIGTERM, twice=True),
    Strike("SIGKILL", signal.SIGKILL),
)


@dataclass(frozen=True)
class Must:
    """What must come of a cell: the exit codes and when the task is claimable, one of each, and the longest the end may
    take."""

    exit_codes: frozenset[int]
    after: frozenset[After]
    seconds_max: float


@dataclass(frozen=True)
class Cell:
    """What came of it. ``late``: lines journalled once others could claim the task."""

    seconds: float
    exit_code: int
    after: After
    late: int
    log: str = ""

    def shown(self) -> str:
        return f"{self.seconds:.1f} s, exit {self.exit_code}, {self.after}, {self.late}"


def given_back(seconds_max: float = SLACK_SECONDS) -> Must:
    return Must(frozenset({0}), frozenset({"at once"}), seconds_max)


def left(seconds_max: float = GRACE_SECONDS + SLACK_SECONDS) -> Must:
    return Must(frozenset({1}), frozenset({"after its lease"}), seconds_max)


@dataclass(frozen=True)
class Row:
    """What the worker is doing when the signal comes.

    The goal of its task is ``name``. ``reaches``: the file that says that it is in place, of the app or of a crash
    point. ``store``: what happens to the store then, and ``then_reaches`` and ``log_line``: what is to be seen of that
    before the signal is sent. ``goes_on``: what the step waits for comes once the signal was heard. ``told``: what must
    come of one signal; ``told_twice``: of two.
    """

    name: str
    title: str
    told: Must
    told_twice: Must
    has_task: bool = True
    interactive: bool = False
    holds_claim: bool = True
    reaches: str = "in-place"
    store: Literal["works", "hangs", "away"] = "works"
    then_reaches: str = ""
    log_line: str = ""
    goes_on: bool = False
    factory: str = "make"
    poll_seconds: float = 0.1

    def must(self, strike: Strike) -> Must:
        if strike.number is signal.SIGKILL:
            after: After = "after its lease" if self.holds_claim else "at once"
            return Must(frozenset({-signal.SIGKILL}), frozenset({after if self.has_task else "no task"}), SLACK_SECONDS)
        return self.told_twice if strike.twice else self.told


NOTHING: Final = Must(frozenset({0}), frozenset({"no task"}), SLACK_SECONDS)
HURRIED: Final = Must(frozenset({0, 1}), frozenset({"at once", "after its lease", "no task"}), SLACK_SECONDS)
"""Of two signals to what ends at once: the second may come before that, or after."""

ROWS: Final = (
    Row("model answers", "a model call that answers", given_back(), left(SLACK_SECONDS), goes_on=True),
    Row(
        "model stalls",
        "a model call that never answers",
        given_back(GRACE_SECONDS + SLACK_SECONDS),
        left(SLACK_SECONDS),
    ),
    Row(
        "retry sleep",
        "the pause before a model call is tried again",
        given_back(),
        HURRIED,
        reaches="",
        log_line="again in 600 s",
    ),
    Row("tool heeds", "a tool that heeds `ctx.cancelled`", given_back(), HURRIED),
    Row("tool is deaf", "a tool that does not", left(), left(SLACK_SECONDS)),
    Row("tool journals", "a tool that does not, and writes every 50 ms", left(), left(SLACK_SECONDS)),
    Row(
        "job, tool heeds",
        "a tool that heeds it, beside a background job that does not end on SIGTERM",
        given_back(JOB_SECONDS + SLACK_SECONDS),
        left(SLACK_SECONDS),
        then_reaches=app.JOB_WRITES,
    ),
    Row(
        "job",
        "nothing: the task rests, and such a job keeps its claim",
        given_back(JOB_SECONDS + SLACK_SECONDS),
        left(SLACK_SECONDS),
        interactive=True,
        reaches=app.JOB_WRITES,
        then_reaches="append.after ModelReplied,TaskSuspended",
    ),
    Row(
        "idle poll",
        "nothing: the pause between two looks",
        NOTHING,
        HURRIED,
        has_task=False,
        reaches="claim.after",
        poll_seconds=600.0,
    ),
    Row(
        "tool returns",
        "a store call that hangs",
        # What hangs may still be done when the server goes on: the release, too.
        Must(frozenset({1}), frozenset({"at once", "after its lease"}), GRACE_SECONDS + STORE_SECONDS + SLACK_SECONDS),
        Must(frozenset({1}), frozenset({"at once", "after its lease"}), SLACK_SECONDS),
        store="hangs",
        then_reaches="append.before ToolFinished,ModelCalled",
    ),
    Row(
        "tool heeds",
        "a tool that heeds it; the store is away",
        left(GRACE_SECONDS + STORE_SECONDS + SLACK_SECONDS),
        left(SLACK_SECONDS),
        store="away",
    ),
    Row(
        "reconnect pause",
        "nothing: the pause while the store is away",
        NOTHING,
        HURRIED,
        has_task=False,
        reaches="claim.after",
        store="away",
        log_line="failed (failure",
    ),
    Row(
        "start-up",
        "start-up: the app is being imported",
        given_back(),
        given_back(),
        holds_claim=False,
        factory="never",
    ),
)
"""Every row. One that needs more than this says what it is by a field of its own."""

QUICK: Final = frozenset(
    {
        ("tool heeds", "SIGTERM"),
        ("tool journals", "SIGTERM"),
        ("tool journals", "SIGTERM twice"),
        ("job", "SIGTERM"),
        ("job", "SIGKILL"),
        ("start-up", "SIGINT"),
    }
)
"""Cells for `make check`: a row's name and a column's, while the store works."""


def broken(row: Row, strike: Strike, cell: Cell) -> list[str]:
    """The rules this cell breaks, in words."""
    must = row.must(strike)
    found = []
    if cell.exit_code not in must.exit_codes:
        found.append(f"exit {cell.exit_code}, not {' or '.join(map(str, sorted(must.exit_codes)))}")
    if cell.after not in must.after:
        found.append(f"claimable {cell.after}, not {' or '.join(sorted(must.after))}")
    if cell.seconds > must.seconds_max:
        found.append(f"{cell.seconds:.1f} s, more than {must.seconds_max:g} s")
    if cell.late:
        found.append(f"{cell.late} lines once others could claim the task")
    if "Traceback" in cell.log:
        found.append("a traceback")
    return found
