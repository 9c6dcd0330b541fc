"""What is no cron table, no zone and no instant is refused by name: the field, its range and what was found."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from noeta.core import cron
from noeta.core.errors import BadInput
from noeta.core.limits import CRON_EXPRESSION_CHARS_MAX


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "@daily",
        "* * * *",
        "* * * * * *",  # seconds
        "60 * * * *",
        "* 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 * * MOON",
        "-1 * * * *",
        "*/0 * * * *",
        "30-10 * * * *",
        "0 0 30 2 *",  # never
        "0 0 31 4,6,9,11 *",
        "0 0 */31 * MON#2",  # the first of a month is never its second Monday
        "٣ * * * *",
        "0\u20030 * * *",
        "* * * * *" + " " * CRON_EXPRESSION_CHARS_MAX,
        None,
        5,
    ],
)
def test_a_bad_expression_is_refused(expression: Any) -> None:
    with pytest.raises(BadInput) as refused:
        cron.parse(expression, "UTC")

    assert refused.value.field == "expression"
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("expression", "name", "values", "part"),
    [
        ("61 * * * *", "minute", "0..59", "61"),
        ("-5 * * * *", "minute", "0..59", "-5"),
        ("*/0 * * * *", "minute", "0..59", "*/0"),
        ("5-1 * * * *", "minute", "0..59", "5-1"),
        ("0,30,60 * * * *", "minute", "0..59", "60"),
        ("1,,2 * * * *", "minute", "0..59", ""),
        ("0 24 * * *", "hour", "0..23", "24"),
        ("0 0 0 * *", "day of month", "1..31, L or LW", "0"),
        ("0 0 1 JUNE *", "month", "1..12 or JAN..DEC", "JUNE"),
        ("0 0 30 2 FUNDAY", "day of week", "0..7 or SUN..SAT, also like MON#2 or 5L", "FUNDAY"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_its_range_and_the_part_that_was_found(
    expression: str, name: str, values: str, part: str
) -> None:
    with pytest.raises(BadInput) as refused:
        cron.parse(expression, "UTC")

    assert str(refused.value) == (
        f"expression: the {name} must be {values}, or lists (1,5), rising ranges (1-5) and steps from 1 on (*/5) of "
        f"these, and not {part!r}, found {expression!r}"
    )


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("0 0 30 2 *", "no month of '2' has a day of month '30', found '0 0 30 2 *'"),
        ("0 0 31 4,6,9 *", "no month of '4,6,9' has a day of month '31', found '0 0 31 4,6,9 *'"),
        ("0 0 */31 * MON#2", "must name a day that some year has, found '0 0 */31 * MON#2'"),
    ],
)
def test_a_day_that_never_comes_is_told_as_that(expression: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        cron.parse(expression, "UTC")

    assert str(refused.value) == f"expression: {told}"


@pytest.mark.parametrize(
    ("nickname", "fields"), [(" @daily ", "0 0 * * *"), ("@HOURLY", "0 * * * *"), ("@weekly", "0 0 * * 0")]
)
def test_a_nickname_is_told_the_five_fields_that_say_the_same(nickname: str, fields: str) -> None:
    with pytest.raises(BadInput) as refused:
        cron.parse(nickname, "UTC")

    assert str(refused.value) == (
        "expression: expected five fields (minute, hour, day of month, month, day of week) like "
        f"{fields!r}, found {nickname!r}"
    )


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Berlin",
        "europe/berlin",
        "Europe",
        "Europe/Berlin/",
        "local",
        "localtime",
        "posixrules",
        "Factory",
        "right/Europe/Berlin",
        "posix/Europe/Berlin",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "+01:00",
        "UTC+1",
        "../../etc/localtime",
        "Europe/../Europe/Berlin",
        "/etc/localtime",
        "Europe/Berlin\x00",
        "x" * 10_000,
        None,
        1,
    ],
)
def test_a_bad_zone_is_refused_with_an_example(zone: Any) -> None:
    with pytest.raises(BadInput) as refused:
        cron.parse("0 0 * * *", zone)

    assert refused.value.field == "zone"
    assert "like Europe/Berlin or UTC" in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "instant",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -1,
        -0.001,
        cron.LATEST + 1,
        10**400,
        True,
        "0",
        None,
        Decimal(1),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    ],
)
def test_what_is_no_instant_is_refused_by_name(instant: Any) -> None:
    table = cron.parse("0 0 * * *", "Asia/Kathmandu")

    for name, ask in (
        ("after", lambda: cron.next_after(table, instant)),
        ("last", lambda: cron.due(table, instant, 5.0)),
        ("now", lambda: cron.due(table, 5.0, instant)),
        ("at", lambda: cron.local_text(table, instant)),
    ):
        with pytest.raises(BadInput) as refused:
            ask()
        assert refused.value.field == name
