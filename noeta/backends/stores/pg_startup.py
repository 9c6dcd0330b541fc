"""What a session must be before the first verb runs on it: durable, pinned, and on a schema we know.

Looked at once a store, on the connection of the first verb, so
that a store can be made while the server is down.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from noeta.backends.stores import pg_rows
from noeta.backends.stores.pg_connection import Connection, Settings
from noeta.backends.stores.pg_errors import Failure, UnsafeServer
from noeta.backends.stores.pg_migrate import check_versions, needed_version

SERVER_VERSION_MIN: Final = 140000
"""Postgres 14: SQL functions with a parsed body, tcp_user_timeout and what else docs/postgres.md names."""

_SYNCHRONOUS: Final = ("on", "remote_apply")


class StartupCheck:
    """Refuses servers and schemas on which the promises could not be kept."""

    def __init__(self, schema: str, settings: Settings, statements: Mapping[str, str], *, allow_unsafe: bool) -> None:
        self._schema = schema
        self._settings = settings
        self._statements = statements
        self._allow_unsafe = allow_unsafe
        self._lock = threading.Lock()
        self._passed = False

    def check(self, connection: Connection) -> None:
        """Two round trips the first time, none later.

        Raises:
            UnsafeServer, SchemaMismatch: nothing was written; the message says what to change.
            Failure: the server could not be asked.
        """
        if self._passed:
            return
        with self._lock:
            if not self._passed:
                try:
                    self._check_server(connection)
                    self._check_schema(connection)
                except Failure as failure:
                    raise failure.before_sending() from failure
                self._passed = True

    def _check_server(self, connection: Connection) -> None:
        row = connection.run("check_server", self._statements["check_server"], ())[0]
        found = dict(zip(_CHECKED, map(pg_rows.optional_text, row), strict=True))
        if int(found["server_version_num"] or 0) < SERVER_VERSION_MIN:
            raise UnsafeServer(f"server_version_num must be at least {SERVER_VERSION_MIN}, found {found}")
        if not self._allow_unsafe:
            for name in ("fsync", "full_page_writes"):
                if found[name] != "on":
                    raise UnsafeServer(f"{name} must be on, found {found[name]!r}: acknowledged writes would be lost")
        if found["synchronous_commit"] not in _SYNCHRONOUS:
            raise UnsafeServer(f"synchronous_commit must be on, found {found['synchronous_commit']!r}")
        if self._settings.pooled:
            self._check_pins(found)

    def _check_pins(self, found: Mapping[str, str | None]) -> None:
        """Behind a pooler the role must carry what our own sessions set themselves."""
        if found["default_transaction_isolation"] != "read committed":
            raise UnsafeServer(
                f"behind a pooler, set it for the role: ALTER ROLE … SET default_transaction_isolation = "
                f"'read committed'; found {found['default_transaction_isolation']!r}"
            )
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            if found[name] in (None, "0"):
                raise UnsafeServer(
                    f"behind a pooler, set a bound for the role: ALTER ROLE … SET {name} = …; found {found[name]!r}"
                )

    def _check_schema(self, connection: Connection) -> None:
        rows = connection.run("schema_versions", self._statements["schema_versions"], ())
        check_versions([pg_rows.integer(row[0]) for row in rows], needed_version(), self._schema)


_CHECKED: Final = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "default_transaction_isolation",
    "statement_timeout",
    "server_version_num",
    "transaction_read_only",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
)
