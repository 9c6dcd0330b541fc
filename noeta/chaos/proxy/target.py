"""Where the server really is, and what a worker's address says when the proxy stands in between.

An address may name several hosts, a service file or nothing at all, so the server is asked for once as libpq would,
and what libpq came to is taken. Passwords and SCRAM pass through unchanged. TLS does not: whoever cuts between two
frames must be able to read them. So a server or an address that demands it has no wire, and that is said by name.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from noeta.chaos.proxy.cuts import name_of

LOOPBACK: Final = "127.0.0.1"
CONNECT_SECONDS: Final = 10
"""How long the server may take to answer, where its address does not say."""

PLAIN: Final[Mapping[str, str]] = {"sslmode": "disable", "gssencmode": "disable", "channel_binding": "disable"}
_DEMANDS: Final[Mapping[str, frozenset[str]]] = {
    "sslmode": frozenset({"require", "verify-ca", "verify-full"}),
    "sslnegotiation": frozenset({"direct"}),
    "gssencmode": frozenset({"require"}),
    "channel_binding": frozenset({"require"}),
}
_OURS: Final = frozenset(
    {"host", "hostaddr", "port", "service", "servicefile", "passfile", "password", "requirepeer", "requiressl"}
    | {"application_name", "fallback_application_name", "target_session_attrs", "load_balance_hosts", "channel_binding"}
)
_ENCRYPTION: Final = ("ssl", "gss", "krb")


class NoWire(RuntimeError):
    """Nobody can stand between the workers and this server; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """Of a server. ``host``: a numeric address, or the directory of its socket (``@``: in the abstract namespace)."""

    host: str
    port: int

    def connecting(self) -> socket.socket:
        """A socket that is on its way there: writable once it is there or has failed.

        Raises:
            OSError: it has failed already.
        """
        if self.host.startswith(("/", "@")):
            path = f"{self.host}/.s.PGSQL.{self.port}"
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            where: tuple[str, int] | str = f"\0{path[1:]}" if path.startswith("@") else path
        else:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            made = socket.socket(family, socket.SOCK_STREAM)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            where = (self.host, self.port)
        made.setblocking(False)
        failed = made.connect_ex(where)
        if failed not in (0, errno.EINPROGRESS):
            made.close()
            raise OSError(failed, os.strerror(failed))
        return made


@dataclass(frozen=True, slots=True)
class Target:
    """A server that workers may reach through a proxy. ``options``: what their connections need beside the place; it
    may hold a password."""

    address: Address
    options: Mapping[str, str] = field(repr=False)

    def dsn_through(self, port: int, process: str) -> str:
        """The address of this process's store, through a proxy that listens here."""
        there = {"host": LOOPBACK, "hostaddr": LOOPBACK, "port": str(port), "application_name": name_of(process)}
        return make_conninfo("", **{**self.options, **PLAIN, **there})


def resolve(dsn: str) -> Target:
    """What libpq makes of this address.

    Raises:
        NoWire: it, or its server, demands that the connection is encrypted.
        psycopg.OperationalError: the server does not answer.
    """
    with _connected(dsn) as session:
        said = {option.keyword.decode(): _text(option.val) for option in session.info}
        usual = {option.keyword.decode(): _text(option.compiled) for option in session.info}
        for name, values in _DEMANDS.items():
            if said.get(name) in values:
                raise NoWire(f"its address demands encryption ({name}={said[name]}), and a wire that is cut is read")
        address = Address(_text(session.hostaddr) or _text(session.host), int(session.port))
        options = {name: value for name, value in said.items() if value and value != usual[name]}
        password = _text(session.password)
    try:
        with _connected(make_conninfo(dsn, **PLAIN)):
            pass
    except psycopg.OperationalError:
        raise NoWire("its server takes no connection without encryption, and a wire that is cut is read") from None
    asked = conninfo_to_dict(dsn)
    kept = {
        name: value
        for name, value in options.items()
        if name not in _OURS and not name.startswith(_ENCRYPTION) and (name != "connect_timeout" or name in asked)
    }
    return Target(address, {**kept, **({"password": password} if password else {})})


@contextmanager
def _connected(dsn: str) -> Iterator[pq.abc.PGconn]:
    timeout = {} if conninfo_to_dict(dsn).get("connect_timeout") else {"connect_timeout": CONNECT_SECONDS}
    # libpq's own call, without what psycopg adds to the address.
    session = pq.PGconn.connect(make_conninfo(dsn, **timeout).encode())
    try:
        if session.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(session.error_message.decode(errors="replace").strip())
        yield session
    finally:
        session.finish()


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()
