"""Who shares the work of a search: processes of this machine, or a Dask cluster of many.

Both are executors of ``concurrent.futures``. In both, workers are silent, and end when the one who started them is
gone, killed or not.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from multiprocessing.connection import wait
from typing import Final

from noeta.chaos.sim.silence import silence
from noeta.core.errors import BadInput

ENGINES: Final = ("processes", "dask")


def open_executor(
    kind: str, jobs: int, address: str | None = None, mutant: str = ""
) -> AbstractContextManager[Executor]:
    """An executor, closed at the end of the ``with``. ``jobs``: worker processes of this machine. ``address``: of a
    Dask scheduler whose workers are used instead. ``mutant``: ``MODULE:FUNCTION`` of a bug that each worker plants.

    Raises:
        BadInput: there is no such kind, Dask is not installed, nobody answers at the address, or a bug is to be planted
            in workers that are not ours.
    """
    if jobs < 1:
        raise BadInput("jobs", f"expected at least 1, found {jobs}")
    if kind not in ENGINES:
        raise BadInput("executor", f"expected {' or '.join(ENGINES)}, found {kind!r}")
    if kind == "processes":
        if address is not None:
            raise BadInput("address", f"expected none with processes, found {address!r}")
        return _processes(jobs, mutant)
    if mutant:
        raise BadInput("mutant", "expected --executor processes, found dask: its workers may be somebody else's")
    if find_spec("distributed") is None:
        raise BadInput("executor", "dask needs an extra: pip install 'noeta[dask]'")
    from noeta.chaos.sim import dask_cluster

    return dask_cluster.local(jobs) if address is None else dask_cluster.at(address)


@contextmanager
def _processes(jobs: int, mutant: str) -> Iterator[Executor]:
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), begin_worker, (mutant,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def begin_worker(mutant: str = "") -> None:
    """What a worker process of ours does first."""
    from noeta.chaos.instrument import plant

    silence()
    plant(mutant)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker process has a parent"
    threading.Thread(target=_end_with, args=(parent.sentinel,), name="end-with-parent", daemon=True).start()


def _end_with(sentinel: int) -> None:
    """A worker of a pool waits for work that a killed parent will never send, for ever."""
    wait([sentinel])
    os._exit(1)
