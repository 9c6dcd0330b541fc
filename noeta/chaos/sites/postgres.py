"""A storm over Postgres: a server of our own, or a schema of its own on one that was given by address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from psycopg.conninfo import make_conninfo

from noeta.backends.open import open_store
from noeta.backends.stores.pg_migrate import migrate
from noeta.chaos.evidence_dir import CUTS
from noeta.chaos.locks import PgLocks
from noeta.chaos.nemesis import NOT_OURS, DatabaseServer
from noeta.chaos.pg_view import PgView
from noeta.chaos.proxy import NoWire, Wire, resolve
from noeta.chaos.proxy.cuts import name_of
from noeta.chaos.server_log import deadlocks
from noeta.chaos.sites.site import Opening
from noeta.core.store import Store
from noeta.testing.postgres import PostgresSource, Server, fresh_schema

LOG: Final = "postgres.log"
"""What our server said, in the run directory."""

WIRE_LOG: Final = "wire.log"
"""What the proxy said, if it failed."""


class PostgresGround:
    """Implements ``Ground``."""

    no_server: Final = NOT_OURS

    def __init__(self, server: Server, schema: str, wire: Wire | None, no_wire: str) -> None:
        self.address = server.dsn
        self.schema = schema
        self.wire, self.no_wire = wire, no_wire
        self._server = server

    def worker_address(self, process: str) -> str:
        if self.wire is None:
            return make_conninfo(self.address, application_name=name_of(process))
        return self.wire.address_of(process)

    @property
    def server(self) -> DatabaseServer | None:
        return self._server if self._server.owned else None

    def open(self, connections_max: int) -> Store:
        return open_store(self.address, schema=self.schema, max_connections=connections_max)

    def view(self, name: str) -> PgView:
        return PgView(self.address, self.schema, f"noeta harness {name}")

    def lock_view(self) -> PgLocks:
        return PgLocks(self.address, self.schema)

    def keeps_out(self, pid: int) -> bool:
        return False  # what it has locked, the server unlocks: frozen-holds-nothing

    def facts(self) -> Mapping[str, Any]:
        return {"deadlocks": deadlocks(self._server.log_path)} if self._server.owned else {}


class PostgresSite:
    """Implements ``Site``."""

    def __init__(self, source: PostgresSource) -> None:
        self._source = source

    @property
    def words(self) -> str:
        return f"postgres={self._source.version}"

    def facts(self) -> Mapping[str, Any]:
        return {"kind": "postgres", "version": self._source.version, "words": self.words}

    def versions(self) -> Mapping[str, str]:
        return {"postgres": str(self._source)}

    @contextmanager
    def open(self, opening: Opening) -> Iterator[PostgresGround]:
        reapers = opening.reapers
        with ExitStack() as stack:
            server = stack.enter_context(Server(self._source, log_path=opening.run_dir.path(LOG)))
            if server.owned:
                stack.callback(reapers.withdraw, reapers.server(server.data_dir.parent))
            lease = fresh_schema(server.dsn)
            number = reapers.schema(server.dsn, lease.name)
            if opening.keep and not server.owned:
                reapers.withdraw(number)
                opening.tell(f"kept: schema {lease.name}")
            else:
                stack.callback(reapers.withdraw, number)
                stack.callback(lease.close)
            migrate(server.dsn, lease.name)
            wire, no_wire = _open_wire(server.dsn, opening)
            if wire is not None:
                stack.enter_context(wire)
            yield PostgresGround(server, lease.name, wire, no_wire)


def _open_wire(dsn: str, opening: Opening) -> tuple[Wire | None, str]:
    """The wire to this server; or None, and why there can be none."""
    try:
        target = resolve(dsn)
    except NoWire as error:
        return None, str(error)
    run_dir = opening.run_dir
    return Wire(target, run_dir.path(CUTS), run_dir.path(WIRE_LOG), opening.reapers), ""
