"""A seed gives the same plan: the same bytes in another process, under another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from noeta.chaos.asked import Asked
from noeta.chaos.evidence_dir import SCHEDULE, WORKLOAD, create_run_dir
from noeta.chaos.plan import make_plan
from noeta.chaos.profiles import KILLERS
from noeta.chaos.schedule import Kind, from_json
from noeta.chaos.sim.seeded import run_seed
from noeta.core.errors import BadInput
from scripted_model import Kind as TaskKind
from scripted_model import foretell_all
from tests.cluster.scripted import STORM


def plan_bytes(seed: int, runs: Path, hash_seed: str) -> tuple[bytes, bytes]:
    arguments = ["cluster", "--plan-only", "--seed", str(seed), "--runs-dir", str(runs)]
    subprocess.run(
        [sys.executable, "-m", "noeta", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    latest = runs / "latest"
    return (latest / SCHEDULE).read_bytes(), (latest / WORKLOAD).read_bytes()


def test_a_seed_gives_the_same_bytes_under_another_hash_seed(tmp_path: Path) -> None:
    first = plan_bytes(7, tmp_path / "a", "1")
    second = plan_bytes(7, tmp_path / "b", "2")

    assert first == second
    assert first != plan_bytes(8, tmp_path / "c", "1")


def test_a_schedule_that_was_written_is_the_one_that_is_read(tmp_path: Path) -> None:
    asked = Asked(seed=3)
    made = create_run_dir(tmp_path, "3")
    plan = make_plan(asked, asked.config(made.root))
    plan.write(made)

    assert from_json(made.path(SCHEDULE).read_bytes()) == plan.schedule
    replayed = Asked(seed=4, schedule=plan.schedule)
    assert make_plan(replayed, replayed.config(made.root)).schedule == plan.schedule


def test_without_faults_nothing_is_planned_and_no_quota_stands(tmp_path: Path) -> None:
    asked = Asked(seed=3, faults=False)
    schedule = make_plan(asked, asked.config(tmp_path)).schedule

    assert schedule.faults == schedule.spares == ()
    assert schedule.quotas.kills == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_default_storm_holds_every_kind_of_task_and_of_fault(tmp_path: Path, seed: int) -> None:
    asked = Asked(seed=seed)
    plan = make_plan(asked, asked.config(tmp_path))
    kinds = {task.script.kind for task in plan.workload.tasks}
    bounds = {bound for told in foretell_all(plan.workload) for bound in told.bounds}

    assert kinds == {kind.value for kind in TaskKind}
    assert {"model_attempts", "tool_starts"} <= bounds
    assert plan.schedule.kinds() == frozenset(Kind) - {Kind.SAY}  # of the simulator alone
    assert not {task.script.kind for task in plan.reserve.tasks} & {kind.value for kind in KILLERS}
    assert not {task.id for task in plan.reserve.tasks} & {task.id for task in plan.workload.tasks}


def test_a_small_storm_is_asked_for_less() -> None:
    assert STORM.required_of(10.0, 10) == STORM.required_always
    assert {"recovered-by-lookup", "recovered-by-rerun", "recovered-as-unknown"} <= set(STORM.required_of(45.0, 60))


def test_a_schedule_of_the_simulator_is_a_plan_with_its_tasks(tmp_path: Path) -> None:
    simulated = next(
        result.schedule
        for result in map(run_seed, range(100))
        if {fault.kind for fault in result.schedule.faults} >= {Kind.KILL, Kind.TERMINATE}
    )
    asked = Asked(seed=1, runs_dir=tmp_path, schedule=simulated)

    plan = make_plan(asked, asked.config(tmp_path))

    assert simulated.play is not None
    assert [task.id for task in plan.workload.tasks] == [task.id for task in simulated.play.tasks]
    assert plan.left_out
    assert {fault.id for fault in plan.schedule.faults} | set(plan.left_out) == {f.id for f in simulated.faults}
    crowd = msgspec.structs.replace(simulated, play=msgspec.structs.replace(simulated.play, workers=9))
    with pytest.raises(BadInput, match="--workers"):
        make_plan(replace(asked, schedule=crowd), asked.config(tmp_path))
