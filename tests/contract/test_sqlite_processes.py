"""Several real processes on one file, and one of them killed with SIGKILL inside a transaction."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from noeta.core.events import ModelReplied, TaskCompleted
from noeta.core.store import NewTask
from noeta.core.task import Status
from tests.contract.sqlite_files import OtherProcess, opened

WORKERS = 4
TASKS = 12
DIES_IN_APPEND = 5
DEADLINE_SECONDS = 120.0


def listen(process: OtherProcess, heard: list[str]) -> None:
    """Take down what a worker says; kill it where it says that it is inside a transaction."""
    while line := process.hear():
        heard.append(line)
        if line == "inside":
            process.kill()


@pytest.mark.holds("scale/two-processes-on-sqlite", "means/postgres-for-hosts", "writer/sqlite-immediate")
@pytest.mark.parametrize("victims", [0, 1], ids=["all live", "one is killed"])
def test_processes_on_one_file_lose_nothing_and_share_no_task(tmp_path: Path, victims: int) -> None:
    """Keeps: one-writer, epochs-rise, gapless-log, acked-stays."""
    path = tmp_path / "tasks.db"
    with opened(path) as store:
        for n in range(TASKS):
            store.create(NewTask(f"t{n:02}", "agent", "goal"))
    heard: list[list[str]] = [[] for _ in range(WORKERS)]
    workers = [
        OtherProcess("work", str(path), f"w{n}", str(DIES_IN_APPEND if n < victims else 0)) for n in range(WORKERS)
    ]

    listeners = [threading.Thread(target=listen, args=pair, daemon=True) for pair in zip(workers, heard, strict=True)]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join(DEADLINE_SECONDS)
    still = [listener for listener in listeners if listener.is_alive()]
    for worker in workers:
        worker.__exit__()

    assert not still, "a worker did not come to its end"
    assert [lines[-1] for lines in heard] == ["inside"] * victims + ["done"] * (WORKERS - victims)
    words = [line.split() for lines in heard for line in lines]
    claims = Counter((task, epoch) for verb, task, epoch, *_ in (w for w in words if len(w) == 3))
    acknowledged = [(w[1], int(w[2]), int(w[3]), w[4]) for w in words if w[0] == "appended"]
    assert claims and set(claims.values()) == {1}, "two workers claimed a task under one epoch"
    assert len(acknowledged) > TASKS
    with opened(path) as store:
        logs = {row.id: store.read(row.id).entries for row in store.tasks()}
        assert {row.status for row in store.tasks()} == {Status.TERMINAL}
    for task, entries in logs.items():
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), task
        epochs = [entry.epoch for entry in entries]
        assert epochs == sorted(epochs), task
        assert sum(isinstance(entry.event, TaskCompleted) for entry in entries) == 1
    replies = [
        (task, entry.seq, entry.epoch, entry.event.text)
        for task, entries in logs.items()
        for entry in entries
        if isinstance(entry.event, ModelReplied)
    ]
    # A worker that is killed has said all that was acknowledged, so that the two agree exactly.
    assert sorted(acknowledged) == sorted(replies)
