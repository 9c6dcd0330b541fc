"""What is due while no worker lives, and where the zones of worker, session and table differ: with real workers."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from noeta.backends.stores.pg_migrate import migrate
from noeta.core.events import CronFired, TaskCompleted, TaskWoken, ToolStarted
from noeta.core.task import Status
from noeta.core.wake import TimerFired
from noeta.testing.postgres.clocked import ClockTable
from tests.cluster.timed_site import TimedSite
from tests.contract.test_postgres_sessions import role_with_settings

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NINE = datetime(2027, 3, 1, 9, tzinfo=UTC).timestamp()
DAY = 86_400
SECOND = 1_000_000
KATHMANDU = timezone(timedelta(hours=5, minutes=45))


def test_what_is_due_while_every_worker_is_dead_happens_once_when_others_come(
    pg_schema: tuple[str, str], tmp_path: Path
) -> None:
    """Killed half a second before, two others started two seconds after. Keeps: timers-once.

    https://github.com/sidekiq/sidekiq/issues/6804 , https://github.com/dkron-io/dkron/issues/1210 ,
    https://github.com/mesos/chronos/issues/371
    """
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with (
        contextlib.closing(ClockTable(dsn, schema)) as clock,
        contextlib.closing(TimedSite(dsn, schema, tmp_path)) as site,
    ):
        clock.set(round((NINE - 30) * SECOND))
        site.create("timer", "ScheduleWakeup", {"delay_seconds": 30})
        site.create("cron", "CronCreate", {"expression": "0 9 * * *", "prompt": "the report"}, rests=True)
        site.start("w1")
        site.wait_for("both rest", lambda: site.rests_until("timer", NINE) and site.rests_until("cron", NINE))

        clock.set(round((NINE - 0.5) * SECOND))
        site.kill("w1")
        clock.set(round((NINE + 2) * SECOND))
        site.start("w2")
        site.start("w3")
        site.wait_for("the timer's task ends", lambda: site.has_ended("timer"))
        site.wait_for("the cron's task rests again", lambda: site.rests_until("cron", NINE + DAY))
        site.end()

        assert [event for event in site.events("cron") if isinstance(event, CronFired)] == [CronFired("3-0", NINE, 0)]
        woken = [event.event for event in site.events("timer") if isinstance(event, TaskWoken)]
        assert woken == [TimerFired(NINE)]
        assert [site.store.task(id).epoch for id in ("timer", "cron")] == [2, 2]


def test_a_worker_a_session_and_a_table_in_three_zones_agree_on_every_instant(
    pg_schema: tuple[str, str], tmp_path: Path
) -> None:
    """Half hours apart, behind a pooler: nothing sets the session's zone right. Keeps: timers-once.

    https://github.com/raystack/entropy/issues/91 , https://github.com/bowbahdoe/caveman/issues/37 ,
    https://github.com/rq/rq-scheduler/issues/246
    """
    dsn, schema = pg_schema
    migrate(dsn, schema)
    with (
        role_with_settings(dsn) as pooled,
        psycopg.connect(pooled, autocommit=True) as session,
        contextlib.closing(TimedSite(dsn, schema, tmp_path)) as site,
    ):
        zone = sql.SQL("ALTER ROLE {} SET TimeZone = 'Asia/Kathmandu'")
        session.execute(zone.format(sql.Identifier(session.info.user)))
        before = _now(session)
        at = datetime.fromtimestamp(before // SECOND + 1, KATHMANDU)
        site.create("delay", "ScheduleWakeup", {"delay_seconds": 1})
        site.create("at", "ScheduleWakeup", {"at": at.isoformat()})
        cron = {"expression": "30 9 * * *", "zone": "Europe/Berlin", "prompt": "the report"}
        site.create("cron", "CronCreate", cron, rests=True)
        site.start("w1", "--pooled", dsn=pooled, TZ="America/St_Johns")
        site.wait_for("the timers' tasks end", lambda: site.has_ended("delay") and site.has_ended("at"))
        site.wait_for("the cron's task rests", lambda: site.store.task("cron").status is Status.SUSPENDED)
        site.end()
        after = _now(session)

        for id in ("delay", "at"):
            entries = site.store.read(id).entries
            instants = [before, *(entry.at for entry in entries), after]
            assert instants == sorted(instants)
            (started,) = (entry.at for entry in entries if isinstance(entry.event, ToolStarted))
            (woken,) = (entry for entry in entries if isinstance(entry.event, TaskWoken))
            due = started + SECOND if id == "delay" else round(at.timestamp() * SECOND)
            assert isinstance(woken.event, TaskWoken) and isinstance(woken.event.event, TimerFired)
            assert round(woken.event.event.fire_at * SECOND) == due <= woken.at
            assert entries[-1].event == TaskCompleted("done")
        next_at = site.store.task("cron").ready_at
        assert next_at is not None and before < next_at < after + 2 * DAY * SECOND
        assert (next_at // SECOND) % DAY in (7.5 * 3_600, 8.5 * 3_600)  # 09:30 in summer, in winter


def _now(session: psycopg.Connection[tuple[object, ...]]) -> int:
    """The server's clock in microseconds, whatever zone the session is in."""
    row = session.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
    assert row is not None and isinstance(row[0], int)
    return row[0]
