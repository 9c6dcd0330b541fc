"""A task's cron table: until when it rests, and what is due. What fired last stands in the log, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from noeta.core import cron
from noeta.core.errors import BadInput, UnreadableLog
from noeta.core.events import CronFired
from noeta.core.fold import CronState, TaskState
from noeta.core.wake import HumanResponseReceived


def check(state: TaskState) -> None:
    """Refuse a table that this worker cannot read, before it drives the task: another one may know the zone.

    Raises:
        UnreadableLog: left to a worker with newer zone data.
    """
    try:
        _tables(state.crons)
    except BadInput as error:
        problem = f"task {state.task_id!r}: its cron table cannot be read here: {error}"
        raise UnreadableLog(problem, newer=True) from error


def rest(state: TaskState, handle: str) -> HumanResponseReceived:
    """What a task waits for between two turns: words of a person, or the next occurrence of its table."""
    found = [cron.next_after(table, one.last) for one, table in _tables(state.crons).values()]
    return HumanResponseReceived(handle, timeout_at=min((at for at in found if at is not None), default=None))


def due(crons: Mapping[str, CronState], now: float) -> list[CronFired]:
    """What fires at this instant, in the order in which it came due: of each entry its newest occurrence."""
    found = []
    for cron_id, (one, table) in _tables(crons).items():
        occurrence = cron.due(table, one.last, now)
        if occurrence is not None:
            found.append(CronFired(cron_id, occurrence.at, occurrence.missed))
    return sorted(found, key=lambda fired: (fired.due_at, fired.cron_id))


def _tables(crons: Mapping[str, CronState]) -> dict[str, tuple[CronState, cron.Table]]:
    return {cron_id: (one, cron.parse(one.expression, one.zone)) for cron_id, one in crons.items()}
