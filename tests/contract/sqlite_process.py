"""What another process does to a database file: ``python -m tests.contract.sqlite_process VERB PATH …``."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any, Final

from noeta.backends.stores.sqlite import SqliteStore
from noeta.core.errors import Conflict, NoetaError
from noeta.core.events import ModelReplied, TaskCompleted
from noeta.core.store import Claim, Commit, Continue, End, NewTask, PutBack
from noeta.core.task import Status

LEASE: Final = 1.5
APPENDS_A_CLAIM: Final = 3
ENTRIES_A_TASK: Final = 10


def main(verb: str, path: str, *rest: str) -> None:
    match verb:
        case "hold":
            hold(path)
        case "serve":
            serve(path)
        case "work":
            work(path, *rest)


def hold(path: str) -> None:
    """Hold the write lock until a line comes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    say("let go")


def serve(path: str) -> None:
    """An open store: each line creates a task of that name; ``close`` closes."""
    try:
        store = SqliteStore(path)
    except NoetaError as error:
        say(error.code)
        return
    say("open")
    for line in sys.stdin:
        if line.strip() == "close":
            store.close()
            say("closed")
            return
        try:
            say(str(store.create(NewTask(line.strip(), "agent", "goal")).created))
        except NoetaError as error:
            say(error.code)


def work(path: str, worker: str, dies: str) -> None:
    """Claim, append and give back until every task has ended; say what was acknowledged, as soon as it was.

    ``dies`` n: in the n-th append, with its entry written and no COMMIT said, say ``inside`` and wait to be killed.
    """
    store = SqliteStore(path)
    if int(dies):
        die_inside(store, int(dies))
    while any(row.status is not Status.TERMINAL for row in store.tasks(limit=10_000)):
        for claim in store.claim(worker, None, LEASE).claims:
            say(f"claimed {claim.task_id} {claim.epoch}")
            drive(store, claim)
    store.close()
    say("done")


def drive(store: SqliteStore, claim: Claim) -> None:
    seq = claim.last_seq
    for n in range(APPENDS_A_CLAIM):
        text = f"{claim.worker}-{claim.epoch}-{n}"
        ends = seq >= ENTRIES_A_TASK
        last = n == APPENDS_A_CLAIM - 1
        step = End(TaskCompleted(text)) if ends else PutBack() if last else Continue()
        try:
            answer = store.append(claim, seq, Commit((ModelReplied(text),), step))
        except Conflict:
            return  # it was slow, and another has the task
        say(f"appended {claim.task_id} {answer.first_seq} {claim.epoch} {text}")
        if ends:
            return
        seq = answer.last_seq


def die_inside(store: SqliteStore, nth: int) -> None:
    """Plant a stop behind the ``nth`` entry written."""
    run = store._work.run
    left = [nth]

    def stopping(name: str, values: Any = ()) -> list[Any]:
        rows = run(name, values)
        if name == "add_entry":
            left[0] -= 1
            if left[0] == 0:
                say("inside")
                sys.stdin.readline()
        return rows

    store._work.run = stopping  # type: ignore[method-assign]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
