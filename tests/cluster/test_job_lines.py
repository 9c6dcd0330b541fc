"""What a background shell of a storm writes, and how a run directory tells it to the law."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from invariants import LAWS_BY_KEY, JobLine
from noeta.backends.stores.pg_migrate import migrate
from noeta.chaos.evidence_dir import RunDir, create_run_dir
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.instrument import callers_tools
from noeta.chaos.orders import WorkerConfig
from noeta.chaos.pg_view import PgView
from noeta.chaos.store_clock import clock_error
from noeta.chaos.store_view import StoreView
from noeta.chaos.verdicts import judge
from noeta.core.events import (
    Event,
    JobLost,
    JobStarted,
    ModelCalled,
    ModelReplied,
    TaskCreated,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.tool import ToolResult
from scripted_model.jobs import command_of
from scripted_model.steps import Shell
from tests.cluster.runs import AT, QUIET_RUN, SECOND, TASK, hand_made

JOB = "3-0"
LAW = LAWS_BY_KEY["jobs-told-once"]
LOST: tuple[tuple[int, Event], ...] = (
    (0, TaskCreated("scripted", "go")),
    (1, ModelCalled("h1", 1)),
    (1, ModelReplied("", (ToolCall(JOB, "Bash", {}),), "tool_use")),
    (1, ToolStarted(JOB, 1)),
    (1, ToolFinished(JOB, "started")),
    (1, JobStarted(JOB, "sleep 9")),
    (2, JobLost(JOB)),
    (2, ModelCalled("h2", 1)),
)
STARTED_AT, LOST_AT = AT + 6 * SECOND, AT + 7 * SECOND


def write(run: RunDir, process: str, *lines: tuple[float, int]) -> None:
    """Lines of one job: when, and by which process id."""
    rows = [
        {"task": TASK, "job": JOB, "tag": "s", "by": "shell", "number": n, "worker": process, "pid": pid, "time": at}
        for n, (at, pid) in enumerate(lines, start=1)
    ]
    run.journal.joinpath(f"{process}.jobs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def seconds(at: int) -> float:
    return at / MICROS_PER_SECOND


def test_the_shells_of_a_worker_write_where_the_reader_looks(tmp_path: Path) -> None:
    """The tool as the storm's workers have it; its command, run by a real shell."""
    run = create_run_dir(tmp_path, "1")
    config = WorkerConfig("w2", 3, str(tmp_path), str(run.attempts), str(run.journal), 0, 2, 0.0)
    bash = next(tool for tool in callers_tools(config) if tool.name == "Bash")
    command = command_of("tag", Shell(3, 0.01))
    before = time.time()
    context: Any = SimpleNamespace(task_id=TASK, call_id=JOB, jobs=object())
    result = bash.run({"command": command, "background": True}, context)
    assert isinstance(result, ToolResult) and result.job is not None
    subprocess.run(["/bin/sh", "-c", command], env={**os.environ, **result.job.environment}, check=True)

    found = DirEvidence(run).of(TASK).job_lines

    assert [(line.task, line.job) for line in found] == [(TASK, JOB)] * 2
    assert micros(before) <= found[0].at < found[1].at <= micros(time.time())


def test_of_each_job_the_oldest_and_the_newest_line_are_told(tmp_path: Path) -> None:
    run = create_run_dir(tmp_path, "1")
    run.update_run(clock_error_seconds=0.002)
    write(run, "w1#1", (5.0, 7), (9.0, 8), (4.0, 9))
    write(run, "w2#1", (6.0, 7))
    (run.journal / "w3#1.jobs.jsonl").write_text('{"task":"t1","job"\n')

    evidence = DirEvidence(run)

    assert evidence.of(TASK).job_lines == (
        JobLine(TASK, JOB, 4_000_000, 2_000, 9),
        JobLine(TASK, JOB, 9_000_000, 2_000, 8),
    )
    assert evidence.torn == 1
    assert [task.task for task in DirEvidence(run).tasks()] == []  # nobody says that it was copied whole


@pytest.mark.parametrize(
    ("newest", "error", "codes"),
    [
        (LOST_AT - 1_000, 0.0, {}),
        (LOST_AT + 1_000, 0.0, {"written-after-lost": 1}),
        (LOST_AT + 1_000, 0.002, {}),
        (LOST_AT + 3_000, 0.002, {"written-after-lost": 1}),
    ],
)
def test_a_line_after_the_loss_breaks_the_law_as_far_as_clocks_can_tell(
    tmp_path: Path, newest: int, error: float, codes: dict[str, int]
) -> None:
    made = hand_made(tmp_path, LOST, run={**QUIET_RUN, "clock_error_seconds": error}, effects=())
    write(made, "w1#1", (seconds(STARTED_AT + 5_000), 7), (seconds(newest), 7))

    assert judge(made, [LAW]).report[LAW.key].codes == codes


class FarClock:
    """A view of a store whose clock is so far ahead; each question takes as long as is said."""

    def __init__(self, ahead: float, *takes: float) -> None:
        self.now = 100.0
        self._ahead, self._takes = ahead, list(takes)

    def clock(self) -> int:
        took = self._takes.pop(0)
        self.now += took
        return micros(self.now - took / 2 + self._ahead)


@pytest.mark.parametrize(("ahead", "error"), [(0.0, 0.001), (3.0, 3.001), (-3.0, 3.001)])
def test_the_quickest_answer_bounds_how_far_the_clocks_are_apart(ahead: float, error: float) -> None:
    view: Any = FarClock(ahead, 0.4, 0.002, 0.3, 0.2, 0.1)

    assert clock_error(view, lambda: view.now) == pytest.approx(error)


def test_the_clock_of_a_store_on_this_machine_is_this_machines(pg_schema: tuple[str, str]) -> None:
    migrate(*pg_schema)
    view: StoreView
    with PgView(*pg_schema) as view:
        assert clock_error(view) < 1.0
