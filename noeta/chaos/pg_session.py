"""A session of the harness with a Postgres server, beside the workers' sessions: read-only, in short statements.

Never through the proxy: whatever is done to the workers' connections, its answers come from the server itself.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import sql

from noeta.chaos.store_view import ViewUnavailable

STATEMENT_SECONDS_MAX: Final = 5
CONNECT_SECONDS_MAX: Final = 3


class PgSession:
    """For one thread. Connects when it is first asked, and again after an error. ``name``: for whom, as the server
    shows it."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name
        self._session: psycopg.Connection[Any] | None = None

    def ask(self, statement: sql.Composed, values: list[Any]) -> list[Any]:
        """The rows.

        Raises:
            ViewUnavailable: the server cannot be asked now.
        """
        try:
            if self._session is None or self._session.closed:
                self._session = self._connect()
            return self._session.execute(statement, values).fetchall()
        except psycopg.Error as error:
            self.close()
            raise ViewUnavailable(f"{type(error).__name__}: {error}".strip()) from error

    def close(self) -> None:
        """End the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _connect(self) -> psycopg.Connection[Any]:
        options = (
            f"-c default_transaction_read_only=on -c statement_timeout={STATEMENT_SECONDS_MAX}s "
            r"-c default_transaction_isolation=read\ committed -c client_encoding=UTF8"
        )
        given = psycopg.conninfo.conninfo_to_dict(self._dsn)
        merged = f"{given.get('options') or ''} {options}".strip()
        return psycopg.connect(
            self._dsn,
            options=merged,
            autocommit=True,
            application_name=self._name,
            connect_timeout=CONNECT_SECONDS_MAX,
            keepalives_idle=5,
            tcp_user_timeout=(STATEMENT_SECONDS_MAX + 1) * 1000,
        )
