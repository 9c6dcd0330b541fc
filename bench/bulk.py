"""Many rows in seconds: set-based SQL straight into the tables, in shapes that the store itself would leave."""

from __future__ import annotations

from typing import Final

from bench.site import Session

QUEUE: Final = "bench"
YEAR_MICROS: Final = 365 * 24 * 3600 * 1_000_000

_ENTRIES: Final = """
INSERT INTO entry (task_id, seq, epoch, at, body)
SELECT t.id, 1, 0, t.created_at, '{"type":"TaskCreated","agent":"main","goal":"bench"}'
FROM task t WHERE starts_with(t.id, %s)
"""


def add_idle(session: Session, count: int) -> None:
    """Suspended tasks that wait for an event nobody sends."""
    session.execute(
        """
        INSERT INTO task (id, queue, status, epoch, wake_on, wake_key, wake_missing, created_at, content_hash)
        SELECT 'idle-' || g, %s, 'suspended', 1, '{"type":"ExternalEvent","event_kind":"go"}', 'event:go', 1,
            clock(), 'bench'
        FROM generate_series(1, %s) AS g
        """,
        [QUEUE, count],
    )
    session.execute(_ENTRIES, ["idle-"])


def add_timers(session: Session, count: int) -> None:
    """Suspended tasks whose timer is due in a year."""
    session.execute(
        """
        INSERT INTO task (id, queue, status, epoch, wake_on, wake_key, wake_missing, ready_at, created_at, content_hash)
        SELECT 'timer-' || g, %s, 'suspended', 1, '{"type":"TimerFired","fire_at":4000000000.0}', 'timer', 1,
            clock() + %s + g * 1000, clock(), 'bench'
        FROM generate_series(1, %s) AS g
        """,
        [QUEUE, YEAR_MICROS, count],
    )
    session.execute(_ENTRIES, ["timer-"])


def add_pending(session: Session, name: str, count: int, *, apart_micros: int, before: int, queue: str = QUEUE) -> None:
    """Claimable tasks; their ``ready_at`` lie apart, all before this instant."""
    session.execute(
        """
        INSERT INTO task (id, queue, status, ready_at, created_at, content_hash)
        SELECT %s || '-' || lpad(g::text, 8, '0'), %s, 'pending', %s::bigint - (%s + 1 - g) * %s::bigint, clock(),
            'bench'
        FROM generate_series(1, %s) AS g
        """,
        [name, queue, before, count, apart_micros, count],
    )
    session.execute(_ENTRIES, [f"{name}-"])


def store_now(session: Session) -> int:
    """The store's instant."""
    row = session.execute("SELECT clock()").fetchone()
    assert row is not None
    return int(row[0])


def end_claimed(session: Session, token: str) -> None:
    """End what one claim call took, as its workers' last commits would."""
    session.execute(
        """
        UPDATE task SET status = 'terminal', worker = NULL, token = NULL, lease_until = NULL, lease_check_at = NULL
        WHERE token = %s
        """,
        [token],
    )


def settle(session: Session) -> None:
    """What autovacuum would have done by the time rows are that many."""
    session.execute("VACUUM (ANALYZE) task")
    session.execute("VACUUM (ANALYZE) entry")
