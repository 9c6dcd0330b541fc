"""The rule of ``noeta.core.cron``, applied to every minute of a span of time, without ``cronsim`` and without search.

Of a zone only one thing is asked: what its clocks show at an instant. Instants and wall times are whole minutes; the
latter count from midnight of 1970-01-01 as if there were no zones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 1_440
QUIET = 180
"""Minutes between two looks at a zone that has not changed between them."""


def minute_of(year: int, month: int = 1, day: int = 1) -> int:
    return (date(year, month, day) - EPOCH.date()).days * DAY


@dataclass(frozen=True)
class Stretch:
    """Minutes ``[start, end)`` in which the clocks are ``ahead`` of UTC by so many minutes."""

    start: int
    end: int
    ahead: int


@lru_cache(maxsize=100)
def stretches(zone: str, start: int, end: int) -> tuple[Stretch, ...]:
    clocks = ZoneInfo(zone)

    def ahead(minute: int) -> int:
        offset = (EPOCH + timedelta(minutes=minute)).astimezone(clocks).utcoffset()
        assert offset is not None and offset % timedelta(minutes=1) == timedelta(0)
        return offset // timedelta(minutes=1)

    found = []
    since, shown = start, ahead(start)
    for look in range(start, end, QUIET):
        if ahead(min(look + QUIET, end)) == shown:
            continue
        for minute in range(look, min(look + QUIET, end)):
            if (now := ahead(minute)) != shown:
                found.append(Stretch(since, minute, shown))
                since, shown = minute, now
    return (*found, Stretch(since, end, shown))


def changes(zone: str, start: int, end: int) -> list[int]:
    return [stretch.start for stretch in stretches(zone, start, end)[1:]]


def numbers(text: str, low: int, high: int) -> set[int]:
    """A field of numbers, ``*``, ranges, steps and lists."""
    found: set[int] = set()
    for part in text.split(","):
        body, _, step = part.partition("/")
        first, _, last = ("*", "", "") if body == "*" else body.partition("-")
        begin = low if first == "*" else int(first)
        stop = high if first == "*" or (step and not last) else int(last or first)
        found |= set(range(begin, stop + 1, int(step or 1)))
    return found


@lru_cache(maxsize=100)
def matches(expression: str, start: int, end: int) -> bytes:
    """For each wall minute of ``[start, end)``, whole days, whether the expression names it: 1 or 0."""
    minute, hour, day, month, weekday = expression.split()
    minutes, hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
    days, months = numbers(day, 1, 31), numbers(month, 1, 12)
    weekdays = {one % 7 for one in numbers(weekday, 0, 7)}
    both = day.startswith("*") or weekday.startswith("*")
    of_a_day = bytes(m % 60 in minutes and m // 60 in hours for m in range(DAY))
    found = bytearray()
    for number in range(start // DAY, end // DAY):
        today = EPOCH.date() + timedelta(days=number)
        by_date, by_weekday = today.day in days, today.isoweekday() % 7 in weekdays
        here = today.month in months and (by_date and by_weekday if both else by_date or by_weekday)
        found += of_a_day if here else bytes(DAY)
    return bytes(found)


def fires(expression: str, zone: str, start: int, end: int) -> list[int]:
    """Every occurrence in the minutes ``[start, end)``, in order. No change lies within a day of ``start``."""
    minute, hour, *_ = expression.split()
    fixed = not minute.startswith("*") and not hour.startswith("*")
    begin = start // DAY * DAY - 3 * DAY
    named = matches(expression, begin, end // DAY * DAY + 4 * DAY)

    def within(low: int, high: int) -> Iterator[int]:
        place = named.find(1, max(low - begin, 0), max(high - begin, 0))
        while place >= 0:
            yield place + begin
            place = named.find(1, place + 1, max(high - begin, 0))

    found: list[int] = []
    seen: int | None = None  # wall times before this one have been shown, or were skipped
    for stretch in stretches(zone, start, end):
        first, last = stretch.start + stretch.ahead, stretch.end + stretch.ahead
        if fixed and seen is not None:
            if any(True for _ in within(seen, first)):
                found.append(stretch.start)
            first = max(first, seen)
        found.extend(wall - stretch.ahead for wall in within(first, last))
        seen = last if seen is None else max(seen, last)
    return sorted(set(found))
