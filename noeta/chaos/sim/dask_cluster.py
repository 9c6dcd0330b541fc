"""Dask as an executor. Its scheduler runs a unit again that was lost with its worker, and its workers may be on many
machines; they must have the same noeta installed, which every unit checks.

Imported only by who asked for it, because it needs the extra ``dask``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Final

import dask
from distributed import Client, LocalCluster, WorkerPlugin
from distributed.worker import Worker

from noeta.chaos.sim.silence import silence
from noeta.core.errors import BadInput

CONNECT_SECONDS_MAX: Final = 20
"""How long a scheduler may take to answer."""

LOSSES_MAX: Final = 10
"""Workers of this machine that may die with one unit before it is given up: it may be what kills them."""


class Silence(WorkerPlugin):
    """Silences every worker that there is, and every one that comes later."""

    def setup(self, worker: Worker) -> None:
        silence()


@contextmanager
def local(jobs: int) -> Iterator[Executor]:
    """A cluster of this machine: so many worker processes, of one thread each."""
    with dask.config.set({"distributed.scheduler.allowed-failures": LOSSES_MAX}):
        cluster = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        )
    with cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        yield _executor(client)


@contextmanager
def at(address: str) -> Iterator[Executor]:
    """The workers of a scheduler that others started.

    Raises:
        BadInput: nobody answers.
    """
    try:
        client = Client(address, timeout=CONNECT_SECONDS_MAX, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise BadInput("address", f"expected a Dask scheduler that answers, found {address!r} ({error})") from error
    with client:
        yield _executor(client)


def _executor(client: Client) -> Executor:
    client.register_plugin(Silence(), name="noeta-silence")
    executor: Executor = client.get_executor(pure=False)  # type: ignore[no-untyped-call]
    return executor
