"""A real Postgres wherever we are: find one, run it, break it, and leave nothing behind.

    source = find_source(os.environ)
    with Server(source) as server, fresh_schema(server.dsn) as lease:
        ...

A server of our own runs as our child on 127.0.0.1, in a temporary directory. A small guard process removes
both when the owner is killed; what a killed guard leaves, the next start sweeps. A server given by DSN is
never stopped: there we only make schemas, and drop those of killed runs.

Not for data that matters, and not handled: systems without /proc (give a DSN there).
"""

from noeta.testing.postgres.schemas import SchemaLease, fresh_schema, sweep_schemas
from noeta.testing.postgres.server import Server, StopMode, sweep_servers
from noeta.testing.postgres.source import NoPostgres, PostgresSource, ServerFailed, find_source

__all__ = [
    "NoPostgres",
    "PostgresSource",
    "SchemaLease",
    "Server",
    "ServerFailed",
    "StopMode",
    "find_source",
    "fresh_schema",
    "sweep_schemas",
    "sweep_servers",
]
