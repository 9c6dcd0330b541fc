"""Looks at the locks of the workers' sessions while the storm goes on, for the law ``frozen-holds-nothing``.

A worker's session shows its process as ``application_name``; who may hold a row lock in a table of ours has locked the
table itself in a mode that says so, until its transaction ends. A look is one short statement that reads the server's
own tables, in a session of its own, and locks nothing of the workers'. It goes into ``locks.jsonl``, also one that
found nothing; but not one at which no worker had a session: that would have looked at nobody.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

import msgspec
from psycopg import sql

from invariants.evidence import LockSeen
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.pg_session import PgSession
from noeta.chaos.proxy.cuts import Who
from noeta.chaos.store_view import ViewUnavailable

INTERVAL_SECONDS: Final = 0.2
"""Between two looks. A lock that is held for too long is there for many of them."""

STATEMENT_CHARS_MAX: Final = 200

_LOOK: Final = """
WITH workers AS MATERIALIZED (
    SELECT a.pid, a.application_name, a.xact_start, a.query FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'noeta %%#%%'
), holders AS MATERIALIZED (
    SELECT DISTINCT l.pid FROM pg_locks l
    JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE l.locktype = 'relation' AND l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock')
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND n.nspname = %s
)
SELECT look.at, look.sessions, w.application_name, w.pid,
    (look.at - extract(epoch FROM w.xact_start) * 1000000)::bigint, left(w.query, %s)
FROM (SELECT {schema}.clock() AS at, (SELECT count(*) FROM workers) AS sessions) look
LEFT JOIN (workers w JOIN holders h ON h.pid = w.pid) ON w.xact_start IS NOT NULL
"""


class LockLook(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of ``locks.jsonl``. ``at``: by the server's clock, in microseconds; ``sessions``: how many the workers
    had then."""

    at: int
    sessions: int
    held: tuple[LockSeen, ...] = ()


_looks: Final = msgspec.json.Decoder(LockLook)


class PgLocks:
    """The locks of a storm's workers on the tables of one schema. For one thread."""

    def __init__(self, dsn: str, schema: str, name: str = "noeta harness locks") -> None:
        self._schema = schema
        self._statement = sql.SQL(_LOOK).format(schema=sql.Identifier(schema))
        self._session = PgSession(dsn, name)

    def look(self) -> LockLook:
        """Who holds what now.

        Raises:
            ViewUnavailable: the server cannot be asked now.
        """
        rows = self._session.ask(self._statement, [self._schema, STATEMENT_CHARS_MAX])
        return LockLook(rows[0][0], rows[0][1], tuple(_seen(row) for row in rows if row[2] is not None))

    def close(self) -> None:
        """End the session."""
        self._session.close()


class LockSampler:
    """A thread that looks a few times a second, and writes down what it saw."""

    def __init__(self, locks: PgLocks, lines: LineWriter, *, interval: float = INTERVAL_SECONDS) -> None:
        self.failures = 0
        self._locks = locks
        self._lines = lines
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lock-sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """End after the look in progress; whether it did in time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def look(self) -> None:
        """One look. For the thread of the sampler, or when it is stopped.

        Raises:
            ViewUnavailable: the server cannot be asked now.
        """
        found = self._locks.look()
        if found.sessions:
            self._lines.add(found)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except ViewUnavailable:
                self.failures += 1  # the server is struck just now, perhaps
            self._stop.wait(self._interval)
        self._locks.close()


def read_looks(path: Path) -> tuple[list[LockLook], int]:
    """All looks of a run, in order, and how many lines could not be read."""
    looks, torn = [], 0
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            if line:
                looks.append(_looks.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            torn += 1
    return looks, torn


def _seen(row: Any) -> LockSeen:
    return LockSeen(row[0], str(Who.of(row[2])), row[3], row[4] / 1_000_000, row[5])
