"""Connections to Postgres whose every call ends by a deadline.

psycopg has no deadline per query, so the wait is ours: a statement is sent, and its answer awaited until a
deadline above the server's own `statement_timeout`; on expiry the socket is closed and the connection never
used again. One statement is one round trip: Bind, Execute, Sync of a prepared statement, or an unnamed one
behind a transaction pooler. Not handled: name resolution may block longer than `connect_timeout`.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import conninfo, pq

from noeta.backends.stores.pg_errors import Failure, Sent
from noeta.core.errors import BadInput

Value = str | int | bool | bytes | None
Row = tuple[bytes | None, ...]

TIMEOUT_SECONDS_MIN: Final = 0.01
"""A shorter statement timeout ends every statement; the server takes 0 ms for none at all."""

TIMEOUT_SECONDS_MAX: Final = 3600.0
"""A statement that holds row locks for longer than an hour is a typing error."""

LOCK_SECONDS_MIN: Final = 0.001
"""The server counts whole milliseconds and takes 0 for no bound at all."""

_FATAL: Final = (b"FATAL", b"PANIC")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a session is set up. Times in seconds; each is a promise explained in docs/postgres.md. The server gives up
    before we do, and on whoever has frozen. Keeps: frozen-holds-nothing.

    ``pooled``: behind a transaction pooler, so no session settings and no prepared statements of our own.
    """

    application_name: str = "noeta"
    statement_timeout_seconds: float = 5.0
    lock_timeout_seconds: float = 4.0
    answer_slack_seconds: float = 2.0
    connect_timeout_seconds: int = 5
    pooled: bool = False
    pins: bool = True

    def __post_init__(self) -> None:
        if not TIMEOUT_SECONDS_MIN <= self.statement_timeout_seconds <= TIMEOUT_SECONDS_MAX:
            raise BadInput(
                "statement_timeout",
                f"from {TIMEOUT_SECONDS_MIN} to {TIMEOUT_SECONDS_MAX} s, found {self.statement_timeout_seconds}",
            )
        if not LOCK_SECONDS_MIN <= self.lock_timeout_seconds <= self.statement_timeout_seconds:
            raise BadInput(
                "lock_timeout",
                f"from {LOCK_SECONDS_MIN} s to statement_timeout, "
                f"found {self.lock_timeout_seconds} and {self.statement_timeout_seconds}",
            )
        if not 0 < self.answer_slack_seconds <= TIMEOUT_SECONDS_MAX:
            raise BadInput(
                "answer_slack", f"above 0 and at most {TIMEOUT_SECONDS_MAX} s, found {self.answer_slack_seconds}"
            )

    @property
    def deadline_seconds(self) -> float:
        """How long an answer is awaited: the server gives up first, unless it cannot be reached."""
        return self.statement_timeout_seconds + self.answer_slack_seconds

    def options(self) -> str:
        """The session's settings as start-up options: in force from the first statement, without a round trip."""
        pins = {
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "default_transaction_deferrable": "off",
        }
        settings = {
            "statement_timeout": f"{round(self.statement_timeout_seconds * 1000)}",
            "lock_timeout": f"{round(self.lock_timeout_seconds * 1000)}",
            "idle_in_transaction_session_timeout": f"{round(self.deadline_seconds * 1000)}",
            "synchronous_commit": "on",
            "TimeZone": "UTC",
            "client_encoding": "UTF8",
            "jit": "off",
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "3",
            "tcp_user_timeout": f"{round(self.deadline_seconds * 1000)}",
        }
        if self.pins:
            settings |= pins
        return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())

    def conninfo(self, dsn: str) -> str:
        """The DSN with the session's settings; what the DSN says itself about them stays in front."""
        given = parse_dsn(dsn)
        timeout_millis = round(self.deadline_seconds * 1000)
        defaults: dict[str, str | int] = {
            "application_name": self.application_name,
            "connect_timeout": self.connect_timeout_seconds,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": timeout_millis,
        }
        merged = {**defaults, **given}
        if not self.pooled:
            merged["options"] = f"{given.get('options') or ''} {self.options()}".strip()
        return conninfo.make_conninfo("", **merged)


def parse_dsn(dsn: str) -> dict[str, str]:
    """The parts of a connection string.

    Raises:
        BadInput: it cannot be read. Never repeats any of it, and keeps libpq's own words away (they quote what
            they could not read): a password with an ``@`` or ``/`` in it is taken for a part of host or port.
    """
    try:
        parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(dsn).items() if value is not None}
    except (psycopg.Error, ValueError):
        raise BadInput("store", "not a connection string that libpq can read (it is not shown here)") from None
    ports = [port.strip() for port in parts.get("port", "").split(",")]
    if not all(port.isdecimal() for port in ports if port != ""):
        raise BadInput("store", "the port of the connection string is no number (percent-encode the password's marks)")
    hosts = parts.get("host", "").split(",")
    if any("@" in host and not host.startswith(("/", "@")) for host in hosts):
        raise BadInput("store", "the host of the connection string holds '@' (percent-encode the password's marks)")
    return parts


class Connection:
    """One session. Not for two threads at once; after a failure that may leave it mid-answer it is closed."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.opened_at = time.monotonic()
        self._settings = settings
        self._prepared: dict[str, bytes] = {}
        self._process_id = os.getpid()
        try:
            self._owner = psycopg.Connection.connect(settings.conninfo(dsn), autocommit=True)
        except psycopg.Error as error:
            raise Failure(Sent.NOTHING, f"cannot connect: {error}", error.sqlstate) from error
        self._pgconn: pq.abc.PGconn = self._owner.pgconn

    @property
    def role(self) -> str:
        return self._pgconn.user.decode(errors="replace") if not self.is_closed else ""

    @property
    def backend_pid(self) -> int:
        return self._pgconn.backend_pid

    @property
    def pgconn(self) -> pq.abc.PGconn:
        """libpq's own handle, for traces and tests."""
        return self._pgconn

    @property
    def is_closed(self) -> bool:
        return self._owner.closed

    def is_stale(self) -> bool:
        """Whether it ended while it lay idle: costs no round trip, and turns most server restarts into a fresh
        connection instead of an unknown commit."""
        if self.is_closed or self._process_id != os.getpid():
            return True
        # Nobody asked anything, so whatever can be read is the end, or word of it.
        return bool(_ready(self._pgconn.socket, select.POLLIN, 0.0))

    def close(self) -> None:
        """Close the socket, without waiting for anybody."""
        if self._process_id == os.getpid():
            self._owner.close()

    def run(self, name: str, statement: str, values: Sequence[Value]) -> list[Row]:
        """Send one statement and await its answer: one round trip, once it is prepared.

        Raises:
            Failure: unsorted; the connection is closed unless the server answered for this statement.
        """
        deadline = time.monotonic() + self._settings.deadline_seconds
        binary = [pq.Format.BINARY if isinstance(value, bytes) else pq.Format.TEXT for value in values]
        bound = [_bind(value) for value in values]
        if self._settings.pooled:
            return self._answer(
                lambda: self._pgconn.send_query_params(statement.encode(), bound, param_formats=binary), deadline
            )
        prepared = self._prepared.get(name)
        if prepared is None:
            prepared = name.encode()
            try:
                self._answer(lambda: self._pgconn.send_prepare(prepared, statement.encode()), deadline)
            except Failure as failure:
                raise failure.before_sending() from failure
            self._prepared[name] = prepared
        return self._answer(lambda: self._pgconn.send_query_prepared(prepared, bound, param_formats=binary), deadline)

    def _answer(self, send: Callable[[], None], deadline: float) -> list[Row]:
        """Everything up to ReadyForQuery: an error may still follow the rows, at the commit."""
        try:
            send()
        except psycopg.Error as error:
            # libpq tries to write at once: what it could not queue was not sent, but what it queued may have been.
            self.close()
            raise Failure(Sent.CUT, str(error)) from error
        rows: list[Row] = []
        failed: pq.abc.PGresult | None = None
        try:
            _flush(self._pgconn, deadline)
            while (result := _next_result(self._pgconn, deadline)) is not None:
                if result.status == pq.ExecStatus.TUPLES_OK:
                    rows = [
                        tuple(result.get_value(row, column) for column in range(result.nfields))
                        for row in range(result.ntuples)
                    ]
                elif result.status != pq.ExecStatus.COMMAND_OK:
                    failed = failed or result
        except TimeoutError as error:
            self.close()
            raise Failure(Sent.CUT, f"no answer within {self._settings.deadline_seconds} s") from error
        except psycopg.Error as error:
            self.close()
            raise Failure(Sent.CUT, str(error)) from error
        except BaseException:
            self.close()  # interrupted mid-answer: nobody may read the rest as his own
            raise
        if failed is not None:
            raise self._failure(failed)
        return rows

    def _failure(self, result: pq.abc.PGresult) -> Failure:
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        severity = result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
        constraint = result.error_field(pq.DiagnosticField.CONSTRAINT_NAME)
        sent = Sent.ANSWERED
        if state is None or severity in _FATAL or self._pgconn.status != pq.ConnStatus.OK:
            self.close()
            sent = Sent.CUT
        return Failure(
            sent,
            result.get_error_message().strip(),
            None if state is None else state.decode(),
            None if constraint is None else constraint.decode(),
        )


def _bind(value: Value) -> bytes | None:
    match value:
        case None | bytes():
            return value
        case bool():
            return b"t" if value else b"f"
        case int():
            return str(value).encode()
        case str():
            return value.encode()


def _flush(pgconn: pq.abc.PGconn, deadline: float) -> None:
    while pgconn.flush():
        # A server that answers an early error stops reading: read, or both sides wait for ever.
        if _ready(pgconn.socket, select.POLLIN | select.POLLOUT, deadline - time.monotonic()) & select.POLLIN:
            pgconn.consume_input()


def _next_result(pgconn: pq.abc.PGconn, deadline: float) -> pq.abc.PGresult | None:
    while pgconn.is_busy():
        _ready(pgconn.socket, select.POLLIN, deadline - time.monotonic())
        pgconn.consume_input()
    return pgconn.get_result()


def _ready(socket: int, events: int, seconds: float) -> int:
    """Wait for the socket; what is ready. Zero seconds only look.

    Raises:
        TimeoutError: nothing was ready in time.
    """
    poll = select.poll()
    poll.register(socket, events)
    found = poll.poll(max(0.0, seconds) * 1000)
    if not found and seconds != 0.0:
        raise TimeoutError
    return found[0][1] if found else 0
