"""A user's own agent struck at every yield point, one execution each: the search of `exhaustive.py` over another cast.

It begins with the agent left in peace, twice: an agent that is not valid then has no crash to blame, and one that does
something else the second time cannot be searched at all. One whose task fails in peace, with no check that says that it
should, survives every strike and shows nothing: that is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from invariants import Verdict
from noeta.chaos.sim.app_cast import UserApp, UserCast, load_crash_app
from noeta.chaos.sim.app_replay import quiet
from noeta.chaos.sim.app_report import CrashReport, ModeCount, failure_of, keep
from noeta.chaos.sim.cast import Cast
from noeta.chaos.sim.executors import open_executor
from noeta.chaos.sim.exhaustive import NotRepeated, mode_executions
from noeta.chaos.sim.modes import CALM, MODES, Mode
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.run import Execution
from noeta.core.errors import BadInput

DEPTH_MAX: Final = 3
JOBS_MAX: Final = 256

MODES_OF_APPS: Final = tuple(mode.name for mode in MODES.values() if not mode.only and mode.name != "say")
"""How an app is struck unless somebody says otherwise. ``say``, which posts each message at any moment, must be asked
for: an answer may well depend on when its question came."""


_MUST: Final = "what steers it must not come from a clock, from chance or from an earlier execution"


def search_app(app: UserApp, modes: Sequence[str] | None = None, *, depth: int = 1, jobs: int = 1) -> CrashReport:
    """Strike an app at every yield point in these ways (None: ``MODES_OF_APPS``).

    ``depth``: how many strikes an execution takes, each at every point after the one before. ``jobs``: processes that
    share the work; with more than one, each imports the app by its name.

    Raises:
        BadInput: there is no such mode; the app cannot be made, or does not do the same twice.
    """
    names = _checked_modes(app, modes)
    for field_name, value, most in (("depth", depth, DEPTH_MAX), ("jobs", jobs, JOBS_MAX)):
        if not 1 <= value <= most:
            raise BadInput(field_name, f"expected 1 to {most}, found {value}")
    with quiet():
        return _searched(app, names, depth, jobs)


def _searched(app: UserApp, names: Sequence[str], depth: int, jobs: int) -> CrashReport:
    in_peace = Execution(app)
    calm = in_peace.run()
    report = CrashReport(app.name, len(calm.points), executions=2, doubts=_doubts(in_peace.cast))
    if Execution(app).run().trace_hash != calm.trace_hash:
        raise BadInput(
            "app",
            f"{app.name} does not do the same twice when nothing strikes it, so its crashes cannot be repeated: "
            f"{_MUST}",
        )
    if calm.verdict is not Verdict.VALID:
        report.failures.append(failure_of(CALM, calm))
        return report
    if jobs == 1:
        parts: Iterable[CrashReport] = (_search_mode(app, name, depth, calm) for name in names)
        _gather(report, parts)
    else:
        with open_executor("processes", min(jobs, len(names))) as executor:
            _gather(report, executor.map(_search_named, itertools.repeat(app.name), names, itertools.repeat(depth)))
    return report


def _doubts(cast: Cast) -> tuple[str, ...]:
    """The tasks that failed although nothing struck, if no check says what should come of them."""
    assert isinstance(cast, UserCast)
    if cast.crash_app.check is not None or cast.outcome is None:
        return ()
    failed = [task for task in cast.outcome.tasks.values() if task.status == "failed"]
    return tuple(
        f"{task.id} fails ({task.reason}) when nothing strikes it, and no check says that it should" for task in failed
    )


def sim_app(name: str, modes: Sequence[str] | None, depth: int, jobs: int, out: Path) -> tuple[list[str], int]:
    """`noeta sim --app`: the lines to print, and the exit code. The first failing schedule is written below ``out``.

    Raises:
        BadInput.
    """
    report = search_app(load_crash_app(name), modes or None, depth=depth, jobs=jobs)
    lines = report.lines()
    if report.failures:
        first = report.failures[0]
        lines += ["", *first.lines(keep(first, out))]
    return lines, report.verdict.exit_code


def _checked_modes(app: UserApp, modes: Sequence[str] | None) -> list[str]:
    if modes is None:
        return list(MODES_OF_APPS)
    if not modes:
        raise BadInput("modes", "expected at least one, found none")
    known = [*MODES_OF_APPS, *(["say"] if app.says else [])]
    for name in modes:
        if name not in known:
            raise BadInput("modes", f"one of {', '.join(known)}, found {name!r}")
    return list(modes)


def _search_named(name: str, mode: str, depth: int) -> CrashReport:
    app = load_crash_app(name)
    return _search_mode(app, mode, depth, Execution(app).run())


def _search_mode(app: UserApp, name: str, depth: int, calm: Result) -> CrashReport:
    part = CrashReport(app.name, len(calm.points))
    count = ModeCount(name)
    mode: Mode = MODES[name]
    try:
        for bad in mode_executions(app, mode, depth, calm):
            part.executions += 1
            part.situations.update(bad.result.situations)
            count.strikes += 1
            count.survived += bad.result.verdict is Verdict.VALID
            if bad.result.verdict is not Verdict.VALID:
                part.failures.append(failure_of(name, bad.result))
    except NotRepeated as error:
        raise BadInput("app", f"{error}: {_MUST}") from error
    part.modes.append(count)
    return part


def _gather(report: CrashReport, parts: Iterable[CrashReport]) -> None:
    for part in parts:
        report.executions += part.executions
        report.modes += part.modes
        report.situations.update(part.situations)
        report.failures += part.failures
