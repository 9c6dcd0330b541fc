"""Many rows in seconds: set-based SQL straight into the tables, in shapes that the store itself would leave."""

from __future__ import annotations

from typing import Final

from bench.site import Session
from noeta.core import codec
from noeta.core.ids import micros
from noeta.core.wake import (
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    TimerFired,
    WakeCondition,
    condition_key,
    due_at,
)

QUEUE: Final = "bench"
YEAR_MICROS: Final = 365 * 24 * 3600 * 1_000_000

FAR: Final = 4_000_000_000.0
"""An instant that no run lives to see, in seconds since the epoch."""

WAITS: Final[tuple[tuple[str, WakeCondition], ...]] = (
    ("{task}-asks", HumanResponseReceived("question:{task}-asks:2-0")),
    ("{task}-listens", ExternalEvent("go:{task}")),
    ("{task}-sleeps", TimerFired(FAR)),
    ("{task}", SubtaskCompleted("{task}.2-0.1")),
    ("{task}.2-0.1", HumanResponseReceived("question:{task}.2-0.1:2-0", timeout_at=FAR)),
)
"""For a person, for an outside event, for a far timer, for a child; and that child, for a person and not for ever. With
the id of each. ``{task}`` stands for the name of a family."""

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


def add_items(session: Session, count: int) -> None:
    """One unread item in the inbox of each idle task; of every tenth, an order."""
    session.execute(
        """
        INSERT INTO item (task_id, number, key, wake_key, body, at)
        SELECT 'idle-' || g, 1, 'item-' || g, CASE WHEN g %% 10 = 0 THEN 'control' ELSE 'event:go' END,
            CASE WHEN g %% 10 = 0 THEN '{"type":"ControlReceived"}' ELSE '{"type":"ExternalEvent"}' END::json, clock()
        FROM generate_series(1, %s) AS g
        """,
        [count],
    )


def add_waiting(session: Session, count: int) -> None:
    """So many suspended tasks that wait in every way there is, in equal parts.

    Raises:
        ValueError: the parts are not equal.
    """
    families, rest = divmod(count, len(WAITS))
    if rest:
        raise ValueError(f"a multiple of {len(WAITS)}, found {count}")
    for id, wake_on in WAITS:
        due = due_at(wake_on)
        session.execute(
            """
            INSERT INTO task (id, queue, status, epoch, parent, wake_on, wake_key, wake_missing, ready_at, created_at,
                content_hash)
            SELECT replace(%s, '{task}', f.id), %s, 'suspended', 1, CASE WHEN %s THEN f.id END,
                replace(%s, '{task}', f.id)::json, replace(%s, '{task}', f.id), 1, %s::bigint, clock(), 'bench'
            FROM (SELECT 'wait-' || g AS id FROM generate_series(1, %s) AS g) f
            """,
            [
                *(id, QUEUE, "." in id, codec.encode("wake_on", wake_on), condition_key(wake_on)),
                *(None if due is None else micros(due), families),
            ],
        )
    session.execute(_ENTRIES, ["wait-"])


def add_due(session: Session, count: int) -> None:
    """Suspended tasks whose timers were due a millisecond after each other, the last one now."""
    session.execute(
        """
        INSERT INTO task (id, queue, status, epoch, wake_on, wake_key, wake_missing, ready_at, created_at, content_hash)
        SELECT 'due-' || g, %s, 'suspended', 1, '{"type":"TimerFired","fire_at":1000000000.0}', 'timer', 1,
            clock() - (%s - g) * 1000, clock(), 'bench'
        FROM generate_series(1, %s) AS g
        """,
        [QUEUE, count, count],
    )
    session.execute(_ENTRIES, ["due-"])


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
