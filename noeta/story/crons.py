"""A task's cron table, a line an entry: what stands in the log, and when each fires next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noeta.core import cron
from noeta.core.errors import BadInput
from noeta.core.events import CronFired, CronRemoved, CronSet, Ending
from noeta.core.ids import micros
from noeta.story.parts import Written
from noeta.story.text import instant, name, one_line, quoted


@dataclass(slots=True)
class _Entry:
    """``last``: which occurrence fired last, or since when they count, in seconds since the epoch."""

    made: CronSet
    last: float


def cron_lines(log: Sequence[Written], now: int) -> Iterator[str]:
    """The lines, in the order in which the entries were made; none of a task that has ended: nothing fires any more.

    ``now``: this machine's clock, in microseconds; of importance for the words alone: an occurrence that is over.
    """
    if log and isinstance(log[-1].event, Ending):
        return
    for one in _table(log):
        made = one.made
        yield (
            f"cron {name(made.cron_id)}: {quoted(made.expression)} in {name(made.zone)}, {_next(one, now)}, to say "
            f"{quoted(made.prompt)}"
        )


def _table(log: Sequence[Written]) -> list[_Entry]:
    """Less than the fold (`noeta.core.fold`), and never refuses."""
    table: dict[str, _Entry] = {}
    for entry in log:
        match entry.event:
            case CronSet() as made:
                table[made.cron_id] = _Entry(made, made.since)
            case CronRemoved(cron_id=id):
                table.pop(id, None)
            case CronFired(cron_id=id, due_at=due_at) if id in table:
                table[id].last = due_at
            case _:
                pass
    return list(table.values())


def _next(one: _Entry, now: int) -> str:
    try:
        at = cron.next_after(cron.parse(one.made.expression, one.made.zone), one.last)
    except BadInput as error:  # a worker with newer zones made it
        return f"next when nobody can tell here ({one_line(error)})"
    if at is None:
        return "which never comes again"
    return f"{'due since' if micros(at) <= now else 'next at'} {instant(micros(at))}"
