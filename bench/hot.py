"""The share of renewals that stay HOT: they touch no index, and the next visitor of the page cleans up after them.

A renewal moves `lease_check_at` (which is indexed) only once it has passed, so of the renewals of one lease all
but one stay HOT: 2 of 3 when a lease is renewed every third of it, 19 of 20 at 600 s and 30 s. The clock is
replaced by a row, as tests do, so that hours of renewals take a second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import psycopg.sql

from bench.buffers import held_snapshot
from bench.bulk import QUEUE, add_pending, store_now
from bench.report import Figure, Target, figure
from bench.site import Place, Places, Session
from noeta.core.store import Claim

NAME: Final = "hot"
CLAIMS: Final = 100
SLACK: Final = 0.95
"""Beside the renewals that must move the index there are a few whose page was full."""

STATISTICS_SECONDS_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a kind of worker renews."""

    name: str
    lease_seconds: float
    interval_seconds: float

    @property
    def share_possible(self) -> float:
        return 1 - self.interval_seconds / self.lease_seconds


SCHEDULES: Final = (Schedule("30 s every 10 s", 30.0, 10.0), Schedule("600 s every 30 s", 600.0, 30.0))


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Each schedule with and without an old snapshot; the latter only told."""
    rounds = 12 if quick else 60
    found = []
    for schedule in SCHEDULES:
        bound = round(schedule.share_possible * SLACK, 3)
        for held in (False, True):
            with places() as place:
                share = renew_only(place, schedule, rounds, held=held)
            name = f"{schedule.name}, {CLAIMS} leases{' + snapshot' if held else ''}"
            found.append(figure(NAME, name, "share", [share], None if held else Target("at least", bound)))
    return found


def renew_only(place: Place, schedule: Schedule, rounds: int, *, held: bool) -> float:
    """The share over a window in which nothing but renewals happened."""
    with place.session() as session:
        start = store_now(session)
        add_pending(session, "held", CLAIMS, apart_micros=1_000, before=start)
        session.execute("CREATE TABLE bench_clock AS SELECT %s::bigint AS now", [start])
        session.execute(
            psycopg.sql.SQL(
                "CREATE OR REPLACE FUNCTION {0}.clock() RETURNS bigint LANGUAGE sql VOLATILE "
                "RETURN (SELECT c.now FROM {0}.bench_clock c)"
            ).format(psycopg.sql.Identifier(place.schema))
        )
        claims: list[Claim] = []
        with place.store() as store:
            while len(claims) < CLAIMS:  # one answer holds fewer
                claims += store.claim("bench", [QUEUE], schedule.lease_seconds, limit=CLAIMS).claims
        # Until now each row was updated once, by its claim.
        before = _updates(session, CLAIMS)
        with held_snapshot(place, wanted=held), place.store() as store:
            for _ in range(rounds):
                session.execute("UPDATE bench_clock SET now = now + %s", [round(schedule.interval_seconds * 1e6)])
                answers = store.renew(claims, schedule.lease_seconds)
                assert all(answer.outcome == "held" for answer in answers)
        after = _updates(session, before[0] + rounds * CLAIMS)
    return (after[1] - before[1]) / (after[0] - before[0])


def _updates(session: Session, expected: int) -> tuple[int, int]:
    """Updates and HOT updates of the task table, once the server has told all of them: it tells them late."""
    deadline = time.monotonic() + STATISTICS_SECONDS_MAX
    while True:
        row = session.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'task'::regclass"
        ).fetchone()
        assert row is not None
        if int(row[0]) >= expected:
            assert int(row[0]) == expected, f"expected {expected} updates, found {row[0]}"
            return int(row[0]), int(row[1])
        assert time.monotonic() < deadline, f"expected {expected} updates, the server told {row[0]}"
        time.sleep(0.02)
