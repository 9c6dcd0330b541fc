"""`noeta worker`: run agent tasks until told to stop."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

import typer

from noeta.backends.open import DEFAULT_STATEMENT_TIMEOUT, open_store
from noeta.backends.stores.sqlite_errors import Locked
from noeta.commands.log_lines import ONCE, set_up_log
from noeta.commands.named import named
from noeta.commands.shutdown import LEFT_TO_LEASES, Shutdown
from noeta.commands.tasks.place import new_file, told_of_store
from noeta.core.errors import BadInput
from noeta.core.limits import LEASE_SECONDS_MAX
from noeta.core.lower import check_claim_input, check_count, check_span
from noeta.core.store import Store
from noeta.runtime.app import load_app
from noeta.runtime.service import (
    CONCURRENCY_MAX,
    DEFAULT_LEASE_SECONDS,
    GRACE_SECONDS_MAX,
    POLL_SECONDS_MAX,
    STOP_GRACE_SECONDS,
    WorkerService,
)
from noeta.story.text import name as shown

CONNECTIONS_BESIDE_STEPS: Final = 4
"""For claims, sweeps and reads while every step holds one. Renewals have one more of their own."""

OPTIONS: Final = {
    "concurrency": "--concurrency",
    "lease_seconds": "--lease",
    "poll": "--poll",
    "grace": "--grace",
    "queue": "--queue",
    "worker": "--name",
    "statement_timeout": "--statement-timeout",
    "wait_seconds": "--statement-timeout",
    "app": "--app",
}
"""By the fields that refuse their values."""

_log = logging.getLogger("noeta.worker")


def worker(
    store: Annotated[str, typer.Option(help="The tasks: postgresql://… or sqlite:PATH.", envvar="NOETA_STORE")],
    app: Annotated[str, typer.Option(help="MODULE:FACTORY that returns the engine (model and tools).")],
    schema: Annotated[str, typer.Option(help="The Postgres schema that `noeta migrate` filled.")] = "noeta",
    lease: Annotated[float, typer.Option(help="Seconds until a silent worker's task may be taken over.")] = (
        DEFAULT_LEASE_SECONDS
    ),
    queue: Annotated[list[str] | None, typer.Option(help="A queue to take; repeatable. None: every queue.")] = None,
    concurrency: Annotated[int, typer.Option(help="Tasks this process runs at the same time.")] = 1,
    name: Annotated[str | None, typer.Option(help="This worker's name. Default: host and process id.")] = None,
    poll: Annotated[float, typer.Option(help="Seconds between two looks when nothing is claimable.")] = 0.5,
    grace: Annotated[float, typer.Option(help="Seconds to wait for steps after a signal.")] = STOP_GRACE_SECONDS,
    pooled: Annotated[bool, typer.Option("--pooled", help="The store is behind a transaction pooler.")] = False,
    statement_timeout: Annotated[
        float | None, typer.Option(help=f"Seconds one statement may take. Default: {DEFAULT_STATEMENT_TIMEOUT:g}.")
    ] = None,
) -> None:
    """Claim tasks and drive them. SIGTERM, SIGINT (Ctrl-C) or SIGHUP: cancel the steps, give their tasks back, exit.

    A second signal, half a second later or more, exits at once. A database that is down, goes away or comes back is
    waited for; a SQLite file that is not there is made, and named. Exit codes: 0 every task was given back, 1 one was
    not, and is left to its lease, 3 the store cannot be used, 64 bad usage.
    """
    name = f"{socket.gethostname()}-{os.getpid()}" if name is None else name
    timeout = DEFAULT_STATEMENT_TIMEOUT if statement_timeout is None else statement_timeout
    with Shutdown() as shutdown, named(**OPTIONS):
        check_count("concurrency", concurrency, CONCURRENCY_MAX)
        check_claim_input(name, queue or None, lease, None, 1)
        check_span("poll", poll, POLL_SECONDS_MAX)
        check_span("grace", grace, GRACE_SECONDS_MAX)
        check_span("statement_timeout", timeout, LEASE_SECONDS_MAX)
        if statement_timeout is not None and statement_timeout >= lease:
            raise BadInput("statement_timeout", f"must be below the lease ({lease:g} s), found {statement_timeout:g} s")
        set_up_log()
        made = new_file(store, may_be=True)
        loaded = load_app(app)
        connections = concurrency + CONNECTIONS_BESIDE_STEPS
        with told_of_store():
            opened = _open_patiently(
                partial(
                    open_store,
                    store,
                    schema=schema,
                    max_connections=connections,
                    pooled=pooled,
                    statement_timeout=timeout,
                )
            )
        if made is not None:
            typer.echo(f"made {shown(made)}")
        service = WorkerService(
            opened,
            loaded,
            name=name,
            queues=queue or None,
            concurrency=concurrency,
            lease_seconds=lease,
            poll_interval=poll,
            stop_grace_s=grace,
        )
        shutdown.runs(service)
        wanted = ", ".join(queue) if queue else "every queue"
        started = "started: %s, %d at once, lease %g s, schema %s"
        _log.info(started, wanted, concurrency, lease, schema, extra=ONCE)
        if service.run():
            _log.info("stopped: every task was given back", extra=ONCE)
            shutdown.ends(0)
        else:
            _log.warning("stopped: a task was not given back, it is left to its lease of %g s", lease, extra=ONCE)
            shutdown.ends(LEFT_TO_LEASES)


def _open_patiently(ask: Callable[[], Store]) -> Store:
    """The store; a file that another process has locked is waited for, as a server that is down is. A signal ends the
    process here."""
    while True:
        try:
            return ask()
        except Locked as error:  # after the whole statement timeout: no pause is needed
            _log.warning("the store cannot be opened yet: %s", error)
