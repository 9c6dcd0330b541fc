"""Cron tables against an oracle that walks every minute, where clocks change by an hour, by half of one, at midnight,
in the south, by a day and for good."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noeta.core import cron
from noeta.core.errors import BadInput
from tests.unit.core.cron_oracle import DAY, changes, fires, minute_of

GUIDE = Path(__file__).parents[3] / "docs/guide/cron.md"
START, END = minute_of(2025), minute_of(2028)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "America/Havana",  # forward from midnight, back to midnight
    "Africa/Cairo",  # forward from midnight, back from midnight to the day before
    "Asia/Beirut",
    "America/Santiago",  # south, at midnight
    "America/Asuncion",  # on summer time for good
    "Pacific/Chatham",  # south, 45 minutes beside the hour
    "Asia/Kathmandu",
)
FIXED = ("30 1 * * *", "30 2 * * *", "0 0 * * *", "0 3 * * 0", "59 23 31 12 *")
CLOSELY = (  # they fire so often that only the hours around a change are compared
    "0,15,30,45 0-3 * * *",
    "0-59 0-23 * * *",
    "*/15 * * * *",
    "* * * * *",
    "* 0,1,2,3 * * *",
    "10 * * * *",
    "30 */2 * * *",
)
NEAR = 150
"""Minutes to each side of a change that are looked at one by one: the largest that repeats wall time has two hours."""
DAILY = ("30 1 * * *", "30 2 * * *", "0 0 * * *")
PAST = (
    ("Asia/Almaty", 2024, 2),  # back an hour for good
    ("Pacific/Apia", 2011, 12),  # a whole day skipped
    ("America/Sao_Paulo", 2018, 11),
    ("Africa/Casablanca", 2025, 2),  # off summer time for a month
    ("Antarctica/Troll", 2026, 3),  # two hours
    ("America/Caracas", 2016, 5),  # half an hour for good
    ("Asia/Pyongyang", 2015, 8),  # back half an hour for good, at midnight
)


def all_after(table: cron.Table, start: int, end: int) -> list[int]:
    """The occurrences in the minutes ``[start, end)``, asked for one after the other."""
    found: list[int] = []
    at = cron.next_after(table, start * 60 - 1)
    while at is not None and at < end * 60:
        assert at % 60 == 0
        assert not found or at > found[-1] * 60, "occurrences rise"
        found.append(int(at) // 60)
        at = cron.next_after(table, at)
    return found


def foretold(expression: str, zone: str, start: int, end: int) -> list[int]:
    """The oracle's answer for a part of the three years, walked from two days before it."""
    return [at for at in fires(expression, zone, start - 2 * DAY, end) if at >= start]


def around_changes(zone: str) -> list[tuple[int, int]]:
    """The hours on both sides of every change in three years; of a zone without one, its last day."""
    there = [(at - NEAR, at + NEAR) for at in changes(zone, START, END)]
    return there or [(END - 2 * NEAR, END)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", FIXED)
def test_three_years_of_a_fixed_table(expression: str, zone: str) -> None:
    assert all_after(cron.parse(expression, zone), START, END) == fires(expression, zone, START, END)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", CLOSELY)
def test_a_busy_table_around_every_change_of_three_years(expression: str, zone: str) -> None:
    """Quiet days are all alike: they are asked for by the property below."""
    table = cron.parse(expression, zone)

    for start, end in around_changes(zone):
        assert all_after(table, start, end) == foretold(expression, zone, start, end)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "UTC"])
@pytest.mark.parametrize("expression", [*FIXED, *CLOSELY])
def test_from_any_instant_around_a_change_both_ways(expression: str, zone: str) -> None:
    """Also in the middle of the repeated time, where no occurrence may have been asked for before."""
    table = cron.parse(expression, zone)
    for start, end in around_changes(zone)[-2:]:
        told = [at * 60 for at in foretold(expression, zone, start - 2 * DAY, end + 2 * DAY)]
        for now in range(start * 60, end * 60, 397):
            newest = max((at for at in told if at <= now), default=None)
            following = min((at for at in told if at > now), default=None)
            if newest is not None:
                assert cron.due(table, newest - 1, now) == cron.Due(newest, 0)
                assert cron.due(table, newest, now) is None
            if following is not None:
                assert cron.next_after(table, now) == following


def test_a_rare_interval_is_not_drawn_to_a_change_far_before_it() -> None:
    """Almaty set its clocks back on the next day, and for good in 2024."""
    table = cron.parse("*/15 * 29 2 */7", "Asia/Almaty")
    at = cron.next_after(table, datetime(2004, 10, 30, 12, tzinfo=UTC).timestamp())
    assert at is not None

    assert cron.local_text(table, at) == "2032-02-29T00:00:00+05:00"


def test_half_a_year_of_an_interval() -> None:
    start, end = minute_of(2026), minute_of(2026, 7)
    table = cron.parse("*/15 * * * *", "Australia/Lord_Howe")

    assert all_after(table, start, end) == foretold("*/15 * * * *", "Australia/Lord_Howe", start, end)


@pytest.mark.parametrize("zone", ZONES)
def test_an_interval_neither_pauses_nor_bursts(zone: str) -> None:
    """What the oracle foretells, to which tables are held: the rule itself keeps every quarter of an hour.

    https://github.com/Steve-Mcl/node-red-contrib-cron-plus/issues/108
    """
    assert fires("*/15 * * * *", zone, START, END) == list(range(START, END, 15))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", DAILY)
def test_a_fixed_table_fires_once_a_local_day(expression: str, zone: str) -> None:
    """Not missed in the skipped hour, and not twice in the repeated one.

    https://github.com/kelektiv/node-cron/issues/563 , https://github.com/rundeck/rundeck/issues/6879
    """
    clocks = ZoneInfo(zone)
    table = cron.parse(expression, zone)
    at = cron.next_after(table, datetime(2025, 1, 1, tzinfo=clocks).timestamp() - 1)
    days = [date(2025, 1, 1) + timedelta(days=n) for n in range(3 * 365)]

    for day in days:
        assert at is not None
        assert datetime.fromtimestamp(at, clocks).date() == day
        at = cron.next_after(table, at)


@pytest.mark.parametrize(("zone", "year", "month"), PAST)
def test_changes_of_every_other_kind(zone: str, year: int, month: int) -> None:
    start, end = minute_of(year, month), minute_of(year, month) + 70 * DAY
    assert changes(zone, start, end), "the month has a change"
    for at in changes(zone, start, end):
        first, last = at - NEAR, at + NEAR
        for expression in (*FIXED, *CLOSELY):
            assert all_after(cron.parse(expression, zone), first, last) == foretold(expression, zone, first, last)


def test_a_gap_that_ends_beside_the_minute() -> None:
    """Monrovia set its clocks forward by 44 minutes and 30 seconds, at the midnight that began 1972-01-07."""
    table = cron.parse("20,40 0 * * *", "Africa/Monrovia")
    first = cron.next_after(table, datetime(1972, 1, 6, 12, tzinfo=UTC).timestamp())
    assert first is not None

    assert cron.local_text(table, first) == "1972-01-07T00:44:30+00:00"
    assert cron.next_after(table, first) == first + DAY * 60 - 24 * 60 - 30


def test_the_day_that_samoa_skipped() -> None:
    table = cron.parse("0 12 * * *", "Pacific/Apia")
    at = datetime(2011, 12, 29, tzinfo=UTC).timestamp()
    told = []
    for _ in range(4):
        found = cron.next_after(table, at)
        assert found is not None
        at = found
        told.append(cron.local_text(table, at))

    assert told == [
        "2011-12-29T12:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T12:00:00+14:00",
        "2012-01-01T12:00:00+14:00",
    ]


# Properties: any table, any instant.

instants = st.one_of(
    st.integers(START, END - 1),
    st.sampled_from([at for zone in ZONES for at in changes(zone, START, END)]).flatmap(
        lambda at: st.integers(at - DAY, at + 180)
    ),
).map(lambda minute: min(max(minute, START + 2 * DAY), END - 8 * DAY))
spots = st.integers(0, 59).map(str) | st.just("*") | st.sampled_from(["*/7", "*/30", "0-29", "5-59/9", "0,15,30,45"])
hours = st.integers(0, 23).map(str) | st.just("*") | st.sampled_from(["*/2", "*/5", "0-3", "1-4/2", "0,2,23", "20-23"])
day_parts = st.sampled_from(["* * *", "* * 0", "* * 1-5", "*/2 * *", "1,15 * 3", "29 * *", "* 3,4,10,11 *", "* * */3"])
expressions = st.builds(lambda *parts: " ".join(parts), spots, hours, day_parts)


@settings(deadline=None)
@given(expression=expressions, zone=st.sampled_from(ZONES), start=instants)
def test_any_table_keeps_the_rule(expression: str, zone: str, start: int) -> None:
    table = cron.parse(expression, zone)

    assert all_after(table, start, start + DAY) == foretold(expression, zone, start, start + DAY)


@settings(deadline=None)
@given(
    expression=expressions,
    zone=st.sampled_from(ZONES),
    last=instants,
    span=st.integers(0, 30 * 3_600),
    into=st.floats(0, 59.99),
)
@example(expression="* * * * *", zone="Europe/Berlin", last=START + 2 * DAY, span=30 * 3_600, into=0.0)
@example(expression="0-59 0-23 * * *", zone="Australia/Lord_Howe", last=START + 2 * DAY, span=30 * 3_600, into=0.5)
def test_what_is_due_is_the_newest_of_all_that_next_after_tells(
    expression: str, zone: str, last: int, span: int, into: float
) -> None:
    table = cron.parse(expression, zone)
    since, now = last * 60 + into, last * 60 + into + span
    told = []
    at = cron.next_after(table, since)
    while at is not None and at <= now:
        told.append(at)
        at = cron.next_after(table, at)

    expected = cron.Due(told[-1], min(len(told) - 1, cron.MISSED_MAX)) if told else None
    assert cron.due(table, since, now) == expected


@settings(deadline=None)
@given(expression=st.text(alphabet="0123456789*/,-#LWSUNMOFEBt ", max_size=40))
@example(expression="0 0 L/2 * *")
@example(expression="* * 5/LW * MON#2/2")
@example(expression="0 0 */31 * MON#2")
def test_any_expression_is_a_table_or_refused(expression: str) -> None:
    try:
        table = cron.parse(expression, "Europe/Berlin")
    except BadInput:
        return
    assert cron.parse(table.expression, table.zone) == table
    assert cron.next_after(table, 0.0) is not None


# Catching up after an outage.


def test_three_years_of_missed_minutes_are_one_occurrence_and_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0

    def counted(*args: Any, **options: Any) -> CronSim:
        nonlocal searches
        searches += 1
        return CronSim(*args, **options)

    table = cron.parse("* * * * *", "America/New_York")
    monkeypatch.setattr(cron, "CronSim", counted)

    assert cron.due(table, START * 60, END * 60 - 0.5) == cron.Due(END * 60.0 - 60, cron.MISSED_MAX)
    assert searches < 2 * cron.MISSED_MAX


def test_a_rare_table_tells_how_many_were_missed() -> None:
    table = cron.parse("59 23 31 12 *", "Europe/Berlin")
    newest = datetime(2026, 12, 31, 23, 59, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()

    assert cron.due(table, 0.0, newest) == cron.Due(newest, 56)
    assert cron.due(table, 0.0, newest - 1) == cron.Due(newest - 365 * 86_400, 55)
    assert cron.due(table, newest, newest + 300 * 86_400) is None
    assert cron.due(cron.parse("0 0 29 2 MON#5", "UTC"), 0.0, newest) is not None


def test_the_span_is_open_at_last_and_closed_at_now() -> None:
    table = cron.parse("0 * * * *", "UTC")

    assert cron.next_after(table, 3_599.999) == 3_600
    assert cron.next_after(table, 3_600) == 7_200
    assert cron.next_after(table, 3_600.001) == 7_200
    assert cron.due(table, 3_600, 3_600) is None
    assert cron.due(table, 3_600, 7_199.999) is None
    assert cron.due(table, 3_600, 7_200) == cron.Due(7_200.0, 0)
    assert cron.due(table, 3_599.999, 7_200.5) == cron.Due(7_200.0, 1)
    assert cron.due(table, 7_200, 3_600) is None, "a clock that was set back"


def test_every_known_zone_can_be_used() -> None:
    assert len(cron.zones()) > 400
    for zone in cron.zones():
        assert cron.next_after(cron.parse("30 2 * * *", zone), START * 60) is not None


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
@pytest.mark.parametrize("expression", ["* * * * *", "0 0 * * *", "*/15 * * * *", "0 0 29 2 *", "59 23 31 12 *"])
def test_the_first_and_the_last_years_of_the_calendar(expression: str, zone: str) -> None:
    table = cron.parse(expression, zone)
    first = cron.next_after(table, 0)
    assert first is not None and 0 < first < 3 * 366 * 86_400

    newest = cron.due(table, 0, cron.LATEST)
    assert newest is not None and newest.missed == cron.MISSED_MAX
    assert cron.next_after(table, cron.LATEST) is None
    at = cron.next_after(table, cron.LATEST - 86_400)
    assert at is None or cron.LATEST - 86_400 < at <= cron.LATEST
    assert cron.local_text(table, cron.LATEST).startswith("9999-12-")


def test_the_clock_of_the_machine_changes_nothing() -> None:
    """Keeps: timers-once. Workers stand in different places and must agree on what is due.

    https://github.com/raystack/entropy/issues/91 , https://github.com/bowbahdoe/caveman/issues/37
    """
    ask = (
        "from noeta.core import cron\n"
        f"for zone in {ZONES!r}:\n"
        "    for expression in ('30 2 * * *', '*/15 * * * *'):\n"
        "        table = cron.parse(expression, zone)\n"
        "        at = cron.next_after(table, 1774745000.5)\n"
        "        print(at, cron.local_text(table, at), cron.due(table, 1774745000.5, 1793000000.25))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", ask],
            env={**os.environ, "TZ": place},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for place in ("America/St_Johns", "Asia/Kathmandu")
    }

    assert len(told) == 1
    assert len(told.pop().splitlines()) == 2 * len(ZONES)


def test_the_examples_of_the_guide_are_true() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (\S+) \| (\d{4}-\d\d-\d\d) \| (.+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert len(rows) >= 6
    for expression, zone, day, told in rows:
        table = cron.parse(expression, zone)
        start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp()
        found, at = [], cron.next_after(table, start - 1)
        while at is not None and cron.local_text(table, at).startswith(day):
            found.append(cron.local_text(table, at)[11:16] + cron.local_text(table, at)[19:])
            at = cron.next_after(table, at)
        assert (", ".join(found) or "never") == told, (expression, zone, day)
