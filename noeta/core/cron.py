"""Cron tables: when a table is due, in its own time zone. Pure: who asks says what time it is.

Five fields, as Debian's cron reads them and ``cronsim`` parses them: minute, hour, day of month, month, day of week,
with lists, ranges, steps, names, ``L``, ``LW`` and ``MON#2``. ``cronsim`` finds the wall times; when the clocks of the
zone show them is decided here, because its own search loses occurrences where clocks change by half an hour.

The rule for clocks that change. A table is *fixed* if neither its minute nor its hour field begins with ``*``;
otherwise it is an *interval*. It holds for every change of a zone's offset, whatever its size, hour and reason: a half
hour, midnight, a whole day, summer time in the south, a country that moves to another offset for good.

================  ==============================================  ==================================================
wall time         fixed (``30 2 * * *``)                          interval (``*/15 * * * *``, ``0 * * * *``)
================  ==============================================  ==================================================
shown once        fires then                                      fires then
skipped           fires in the first instant after the gap; all   does not fire: the clocks never show it
                  that fall into one gap, or on its end, are one
                  occurrence
shown twice       fires the first time only                       fires both times
================  ==============================================  ==================================================

So a fixed table never loses a day to summer time and never fires twice for one; and an interval neither pauses nor
bursts, unless its hours are listed (``*/15 2 * * *`` does not fire on a day without that hour).

The rule for an outage: a table fires once, for the newest occurrence that was missed, and says how many older ones
that one stands for (``due``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from noeta.core.errors import BadInput
from noeta.core.limits import CRON_EXPRESSION_CHARS_MAX, INSTANT_SECONDS_MAX

MISSED_MAX: Final = 1_000
"""How far skipped occurrences are counted: this many means "at least". Counting on would cost a worker that comes back
after years more than anybody wants to know."""

REPEATED_SECONDS_MAX: Final = 25 * 3600
"""How much wall time a change of clocks can repeat. Since 1970 it was seven hours at most, and a day was skipped."""

LATEST: Final = INSTANT_SECONDS_MAX - 3 * 86_400
"""The latest instant that is looked at, in seconds since the epoch: clocks of every zone, and a day more, still show a
year of four digits."""

FIELDS: Final = {
    "minute": "0..59",
    "hour": "0..23",
    "day of month": "1..31, L or LW",
    "month": "1..12 or JAN..DEC",
    "day of week": "0..7 or SUN..SAT, also like MON#2 or 5L",
}
"""The fields in their order, and what each may hold."""

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""What other crons write in one word: whoever does is told the five fields."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WALL: Final = _EPOCH.replace(tzinfo=None)
"""Wall times are counted in seconds from this one, as if there were no time zones."""


@dataclass(frozen=True, slots=True)
class Table:
    """A checked expression in a known zone. ``fixed``: which column of the rule holds."""

    expression: str
    zone: str
    fixed: bool
    _clocks: ZoneInfo = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Due:
    """An occurrence that is to fire, in seconds since the epoch, and how many older ones it stands for; ``MISSED_MAX``
    means at least that many."""

    at: float
    missed: int


def parse(expression: str, zone: str) -> Table:
    """The table of this expression in this zone, an IANA name.

    Raises:
        BadInput: names ``expression`` or ``zone``.
    """
    fields = _fields(expression)
    clocks = _clocks(zone)
    table = Table(" ".join(fields), zone, not fields[0].startswith("*") and not fields[1].startswith("*"), clocks)
    try:
        fires = _wall_after(table, 0) is not None
    except CronSimError as error:
        raise BadInput("expression", f"{_problem(fields)}, found {expression!r}") from error
    if not fires:
        raise BadInput("expression", f"must name a day that some year has, found {expression!r}")
    return table


def next_after(table: Table, after: float) -> float | None:
    """The first occurrence later than this instant. Both are in seconds since the epoch.

    None: never again, which is to say, not within 50 years, or not up to ``LATEST``.

    Raises:
        BadInput: ``after`` is no instant from 1970 to ``LATEST``.
    """
    found = _next(table, _second("after", after))
    return None if found is None or found > LATEST else float(found)


def due(table: Table, last: float, now: float) -> Due | None:
    """What has become due later than ``last`` and not later than ``now``; None if nothing has.

    However long that is, the answer is one occurrence, the newest, found from ``now`` backwards.

    Raises:
        BadInput: ``last`` or ``now`` is no instant from 1970 to ``LATEST``.
    """
    since, until = _second("last", last), _second("now", now)
    newest = _newest(table, until) if until > since else None
    if newest is None or newest <= since:
        return None
    missed, at = 0, _next(table, since)
    while missed < MISSED_MAX and at is not None and at < newest:
        missed, at = missed + 1, _next(table, at)
    return Due(float(newest), missed)


def local_text(table: Table, at: float) -> str:
    """An occurrence as the clocks of the table's zone show it, with their offset: ``2027-03-28T03:00:00+02:00``.

    Raises:
        BadInput: ``at`` is no instant from 1970 to ``LATEST``.
    """
    return (_EPOCH + timedelta(seconds=_second("at", at))).astimezone(table._clocks).isoformat()


@cache
def zones() -> frozenset[str]:
    """The names that are known: those of the package ``tzdata``, on every machine the same.

    Not what a machine's folder of zones happens to hold, which has its local zone in it, and zones with leap seconds.
    """
    names = resources.files("tzdata").joinpath("zones").read_text("utf-8").split()
    return frozenset(names) - {"Factory"}  # the zone of a machine that nobody has told where it is


def _fields(expression: str) -> list[str]:
    found: object = expression  # callers without a type checker are told, too
    if not isinstance(found, str):
        raise BadInput("expression", f"expected a text of five fields, found {type(found).__name__}")
    if len(expression) > CRON_EXPRESSION_CHARS_MAX:
        raise BadInput("expression", f"at most {CRON_EXPRESSION_CHARS_MAX} characters, found {len(expression)}")
    fields = expression.split()
    if (same := NICKNAMES.get(expression.strip().lower())) is not None:
        raise BadInput("expression", f"expected five fields ({', '.join(FIELDS)}) like {same!r}, found {found!r}")
    if not expression.isascii() or len(fields) != len(FIELDS):
        raise BadInput("expression", f"expected five fields ({', '.join(FIELDS)}) like '30 2 * * *', found {found!r}")
    return fields


def _problem(fields: Sequence[str]) -> str:
    """What is wrong with these five fields: the first part that no such field may hold; if there is none, the day."""
    for place, (name, values) in enumerate(FIELDS.items()):
        for part in fields[place].split(","):
            alone = ["*"] * len(FIELDS)
            alone[place] = part
            try:
                CronSim(" ".join(alone), _EPOCH_WALL)
            except CronSimError:
                several = "lists (1,5), rising ranges (1-5) and steps from 1 on (*/5) of these"
                return f"the {name} must be {values}, or {several}, and not {part!r}"
    return f"no month of {fields[3]!r} has a day of month {fields[2]!r}"


def _clocks(zone: str) -> ZoneInfo:
    found: object = zone
    if isinstance(found, str) and found in zones():
        try:
            return ZoneInfo(found)
        except (OSError, LookupError, ValueError) as error:
            raise BadInput("zone", f"this machine's data of {found!r} cannot be read: {error}") from error
    raise BadInput("zone", f"expected an IANA name like Europe/Berlin or UTC, found {found!r:.200}")


def _second(name: str, instant: float) -> int:
    """The whole second of an instant: occurrences lie on whole seconds, so that comparisons stay true."""
    found: object = instant
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise BadInput(name, f"expected seconds since the epoch, found {found!r:.200}")
    if not 0 <= found <= LATEST:  # nor is NaN
        raise BadInput(name, f"from 0 to {LATEST:.0f} seconds since the epoch, found {found!r:.200}")
    return math.floor(found)


def _next(table: Table, after: int) -> int | None:
    offset = _offset(table, after)
    found = _next_shown(table, after, after + offset)
    if table.fixed:  # never at what is shown again: spare the search
        return found
    # Clocks that are about to go back show wall times again that the search from here on forward has behind it.
    change = _change(table, after, after + REPEATED_SECONDS_MAX)
    if change is not None and (later := _offset(table, change)) < offset:
        again = _next_shown(table, change - 1, change + later - 1)
        return again if found is None or (again is not None and again < found) else found
    return found


def _next_shown(table: Table, after: int, wall: int) -> int | None:
    """The first occurrence later than ``after`` whose wall time is later than ``wall``."""
    found = _wall_after(table, wall)
    while found is not None:
        for at in _fires(table, found):
            if at > after:
                return at
        found = _wall_after(table, found)
    return None


def _newest(table: Table, now: int) -> int | None:
    """The newest occurrence that is not later than ``now``."""
    wall = now + _offset(table, now) + 1
    change = _change(table, now - REPEATED_SECONDS_MAX, now)
    if change is None or (shown := change + _offset(table, change - 1)) <= change + _offset(table, change):
        return _newest_shown(table, now, wall)
    # The clocks have gone back: before that they had shown wall times up to there.
    before, found = _newest_shown(table, change - 1, shown), _newest_shown(table, now, wall)
    return before if found is None or (before is not None and before > found) else found


def _newest_shown(table: Table, now: int, wall: int) -> int | None:
    """The newest occurrence not later than ``now`` whose wall time is earlier than ``wall``."""
    found = _wall_before(table, wall)
    while found is not None:
        for at in reversed(_fires(table, found)):
            if at <= now:
                return at
        found = _wall_before(table, found)
    return None


def _fires(table: Table, wall: int) -> tuple[int, ...]:
    """When a wall time that the expression names fires, in order: the rule."""
    local = (_EPOCH_WALL + timedelta(seconds=wall)).replace(tzinfo=table._clocks)
    earlier, later = wall - _seconds(local), wall - _seconds(local.replace(fold=1))
    if earlier < later:
        return (earlier,) if table.fixed else (earlier, later)
    if earlier > later:  # skipped: in a gap the offset before the change comes first
        change = _change(table, later, earlier)
        return (change,) if table.fixed and change is not None else ()
    return (earlier,)


def _wall_after(table: Table, wall: int) -> int | None:
    """The first wall time later than this one that the expression names."""
    return _match(table, wall, reverse=False)


def _wall_before(table: Table, wall: int) -> int | None:
    return _match(table, wall, reverse=True)


def _match(table: Table, wall: int, *, reverse: bool) -> int | None:
    # Without a zone: on a clock that never changes, the search of cronsim is exact.
    try:
        found = next(CronSim(table.expression, _EPOCH_WALL + timedelta(seconds=wall), reverse=reverse), None)
    except OverflowError:  # the calendar ends with the year 9999
        return None
    return None if found is None else _whole(found - _EPOCH_WALL)


def _offset(table: Table, at: int) -> int:
    """How far the zone's clocks are ahead of UTC at this instant, in seconds."""
    return _seconds((_EPOCH + timedelta(seconds=at)).astimezone(table._clocks))


def _seconds(local: datetime) -> int:
    offset = local.utcoffset()
    assert offset is not None
    return _whole(offset)


def _whole(span: timedelta) -> int:
    return span.days * 86_400 + span.seconds


def _change(table: Table, low: int, high: int) -> int | None:
    """The first instant of ``(low, high]`` that has another offset than ``low``; None if both ends have the same.

    No span that is looked at holds two changes: since 1970 no zone has had two within six days.
    """
    offset = _offset(table, low)
    if _offset(table, high) == offset:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(table, middle) == offset:
            low = middle
        else:
            high = middle
    return high
