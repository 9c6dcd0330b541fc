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
from noeta.commands.shutdown import LEFT_TO_LEASES, Shutdown
from noeta.core.errors import BadInput
from noeta.core.lower import check_count
from noeta.core.store import Store
from noeta.runtime.app import load_app
from noeta.runtime.service import CONCURRENCY_MAX, DEFAULT_LEASE_SECONDS, STOP_GRACE_SECONDS, WorkerService

CONNECTIONS_BESIDE_STEPS: Final = 4
"""For claims, sweeps and reads while every step holds one. Renewals have one more of their own."""

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
    waited for. Exit 0: every task was given back; 1: one was not, and is left to its lease.
    """
    with Shutdown() as shutdown:
        check_count("concurrency", concurrency, CONCURRENCY_MAX)
        set_up_log()
        if statement_timeout is not None and statement_timeout >= lease:
            raise BadInput("statement_timeout", f"must be below the lease ({lease:g} s), found {statement_timeout:g} s")
        timeout = DEFAULT_STATEMENT_TIMEOUT if statement_timeout is None else statement_timeout
        connections = concurrency + CONNECTIONS_BESIDE_STEPS
        service = WorkerService(
            _open_patiently(
                partial(
                    open_store,
                    store,
                    schema=schema,
                    max_connections=connections,
                    pooled=pooled,
                    statement_timeout=timeout,
                )
            ),
            load_app(app),
            name=name or f"{socket.gethostname()}-{os.getpid()}",
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
