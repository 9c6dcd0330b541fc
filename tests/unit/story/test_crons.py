"""A task's cron table as a person reads it: only what is still set, and when each fires next."""

from __future__ import annotations

from noeta.core import cron
from noeta.core.events import CronFired, CronRemoved, CronSet, TaskCompleted, TaskSuspended
from noeta.story.crons import cron_lines
from tests.unit.story.logs import CREATED, REST, Dated, log_of

MIDNIGHT = 1_700_006_400.0  # 2023-11-15 00:00:00Z
NOON = int((MIDNIGHT + 12 * 3600) * 1_000_000)

TIDY: Dated = (1, 0.5, CronSet("3-0", "0 6 * * *", "Europe/Berlin", "tidy up", MIDNIGHT))
HOURLY: Dated = (1, 0.5, CronSet("3-1", "30 * * * *", "UTC", "look", MIDNIGHT))
RESTS: Dated = (1, 0.6, TaskSuspended(REST, "set"))


def lines(*dated: Dated, now: int = NOON) -> list[str]:
    return list(cron_lines(log_of((0, 0.0, CREATED), *dated), now))


def test_each_entry_has_its_expression_its_zone_and_when_it_fires_next() -> None:
    assert lines(
        TIDY, HOURLY, RESTS, (1, 1.0, CronFired("3-0", MIDNIGHT + 5 * 3600)), now=int(MIDNIGHT * 1_000_000)
    ) == [
        'cron 3-0: "0 6 * * *" in Europe/Berlin, next at 2023-11-16 05:00:00Z, to say "tidy up"',
        'cron 3-1: "30 * * * *" in UTC, next at 2023-11-15 00:30:00Z, to say "look"',
    ]


def test_an_occurrence_that_nobody_was_there_for_is_due() -> None:
    assert lines(HOURLY, RESTS) == ['cron 3-1: "30 * * * *" in UTC, due since 2023-11-15 00:30:00Z, to say "look"']


def test_what_was_removed_is_gone_and_so_is_the_table_of_a_task_that_ended() -> None:
    assert lines(TIDY, HOURLY, (2, 9.0, CronRemoved("3-0"))) == lines(HOURLY)
    assert lines(TIDY, (2, 9.0, TaskCompleted("done"))) == []
    assert lines(RESTS) == [] == list(cron_lines([], NOON))


def test_a_zone_that_is_not_known_here_hides_no_entry() -> None:
    """A worker with newer data made it."""
    (line,) = lines((1, 0.5, CronSet("3-0", "0 6 * * *", "Moon/Tycho", "tidy up", MIDNIGHT)))

    assert line.startswith('cron 3-0: "0 6 * * *" in Moon/Tycho, next when nobody can tell here (zone: expected an')
    assert line.endswith('), to say "tidy up"')


def test_a_table_that_is_over_says_so() -> None:
    (line,) = lines((1, 0.5, CronSet("3-0", "0 0 1 1 *", "UTC", "x", cron.LATEST - 1)))

    assert "which never comes again" in line
