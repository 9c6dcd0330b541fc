"""A sweep as a process of its own, to be killed: `python -m tests.sim.sweep_process DIRECTORY FIRST LAST [plant]`.

Its first line of output names its worker processes; the last one is the hash over all traces. ``plant``: the workers
recover no call, so that some seeds are invalid.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from noeta.chaos.sim.executors import begin_worker, open_executor
from noeta.chaos.sim.sweep import record_path, sweep
from noeta.chaos.sim.sweep_plan import Plan
from noeta.core.runner import calls
from noeta.core.runner.calls import Undecided

JOBS = 2


def recover_nothing(engine: object, world: object, held: object, state: object, call: object) -> Undecided:
    """A planted ``recover_call``, with which every interrupted tool call is simply run again."""
    return Undecided.RUN_AGAIN


def plant() -> None:
    """Have it in this process."""
    calls.recover_call = recover_nothing


def begin_with_a_bug() -> None:
    """The initializer of workers that have it."""
    begin_worker()
    plant()


def chunks(directory: Path, plan: Plan) -> list[int]:
    """The first seeds of the chunks that its record holds."""
    path = record_path(directory, plan)
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [line["first"] for line in whole if line["type"] == "chunk"]


def main(directory: str, first: str, last: str, *plant: str) -> None:
    opened: AbstractContextManager[Executor]
    if plant:
        opened = ProcessPoolExecutor(JOBS, multiprocessing.get_context("spawn"), initializer=begin_with_a_bug)
    else:
        opened = open_executor("processes", JOBS)
    with opened as executor:
        pids = {executor.submit(os.getpid).result() for _ in range(JOBS)}
        print(*pids, flush=True)
        found = sweep(Plan(int(first), int(last)), executor, directory=Path(directory))
        print(found.trace_hash, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
