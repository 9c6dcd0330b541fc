"""A seed is a workload: the same bytes everywhere, every kind in it, and nothing a store would refuse."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noeta.core.lower import lower_item, lower_task
from noeta.core.store import NewTask
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived
from scripted_model.generate import workload
from scripted_model.kinds import BUILDERS
from scripted_model.profile import DEFAULT_WEIGHTS, Kind, Profile
from scripted_model.script import (
    TOOL_OF,
    TOOLS,
    Cut,
    Empty,
    Fail,
    Kill,
    Say,
    Timer,
    Tools,
    calls_of,
    from_goal,
    tree_of,
)
from scripted_model.seeds import Stream
from scripted_model.workload import AGENT, MessageKind, Workload, from_json, is_due
from tests.unit.scripted_model.rows import row_of

KINDS = len(Kind)

PRINTS_HASH = """
import hashlib
from scripted_model import workload
print(hashlib.sha256(workload(7, 60).to_json()).hexdigest())
"""


def hash_of(load: Workload) -> str:
    return hashlib.sha256(load.to_json()).hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "1", "4294967295", "random"])
def test_another_process_with_another_hash_seed_draws_the_same_bytes(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS_HASH],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == hash_of(workload(7, 60))


def test_draws_are_pinned_for_every_python_version() -> None:
    """The numbers were written down under CPython 3.11; any other version must draw them too."""
    stream = Stream(7, "pinned")

    assert [stream.below(1000) for _ in range(5)] == [431, 900, 519, 344, 762]
    assert stream.shuffled(range(8)) == [6, 7, 3, 2, 4, 5, 0, 1]
    assert [stream.weighted({"a": 1, "b": 3}) for _ in range(6)] == ["b", "a", "b", "b", "b", "b"]
    assert stream.seconds(0.2, 2.5) == 2.129


def test_the_kinds_that_were_there_first_are_drawn_as_ever() -> None:
    """A new kind changes the mix, never what a kind is made of: found seeds keep their meaning."""
    drawn = []
    for seed in range(3):
        for place, kind in enumerate(list(Kind)[: list(Kind).index(Kind.INTERACTIVE_HURT) + 1]):
            only = workload(f"{seed}/{place}", 1, Profile(weights={kind: 1}))
            drawn.append([only.tasks[0].goal, *((m.key, m.text, m.delay_seconds, m.posts) for m in only.messages)])

    assert (
        hashlib.sha256(repr(drawn).encode()).hexdigest()
        == "44e9517cdff7a7e77daa35502678731fc3538c4b08da59fe2516f15006d36445"
    )


def test_seeds_and_names_draw_different_streams() -> None:
    firsts = {Stream(seed, name).below(2**40) for seed in range(20) for name in ("a", "b", "a/b")}

    assert len(firsts) == 60
    assert hash_of(workload(1, 20)) != hash_of(workload(2, 20))


def test_a_workload_survives_its_json() -> None:
    load = workload(3, 40)

    assert from_json(load.to_json()) == load


@pytest.mark.parametrize("tasks", [KINDS, KINDS + 1, 2 * KINDS])
@pytest.mark.parametrize("seed", range(10))
def test_every_kind_is_in_every_workload_of_as_many_tasks(seed: int, tasks: int) -> None:
    load = workload(seed, tasks)

    assert len(load.tasks) == tasks
    assert {task.script.kind for task in load.tasks} == {kind.value for kind in Kind}
    assert set(DEFAULT_WEIGHTS) == set(Kind) == set(BUILDERS)


@pytest.mark.parametrize("seed", range(10))
def test_every_tool_and_every_step_is_in_every_workload_of_as_many_tasks(seed: int) -> None:
    load = workload(seed, KINDS)
    steps = [step for task in load.tasks for turn in task.script.turns for step in turn.steps]
    scripts = [script for task in load.tasks for script in tree_of(task.script)]

    assert {call.tool for script in scripts for _, call in calls_of(script)} == {*TOOLS, *TOOL_OF.values()}
    assert {type(step) for step in steps} == {Tools, Say, Fail, Kill, Cut, Empty}
    assert any(isinstance(step, Tools) and len(step.calls) > 1 for step in steps)
    assert any(isinstance(step, Cut) and step.times for step in steps)
    assert any(isinstance(step, Empty) and step.times for step in steps)
    assert {message.kind for message in load.messages} == set(get_args(MessageKind))
    assert any(message.may_be_refused for message in load.messages)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(), tasks=st.integers(1, 40), lease=st.sampled_from([0.05, 1.0, 30.0]))
def test_everything_drawn_is_valid_and_in_measure(seed: int, tasks: int, lease: float) -> None:
    profile = Profile(lease_seconds=lease)
    load = workload(seed, tasks, profile)

    scripts = [script for task in load.tasks for script in tree_of(task.script)]
    tags = [call.arguments.tag for script in scripts for _, call in calls_of(script)]
    assert len(tags) == len(set(tags))
    assert len({task.id for task in load.tasks}) == tasks
    assert len({message.key for message in load.messages}) == len(load.messages)
    for task in load.tasks:
        lower_task(NewTask(task.id, AGENT, task.goal, interactive=task.interactive, delay_seconds=task.delay_seconds))
        assert from_goal(task.goal) == task.script
        assert task.script.task == task.id
    for _, call in (one for script in scripts for one in calls_of(script)):
        if call.asked is None and TOOLS[call.tool].waits:
            assert 0.2 * lease - 0.001 <= call.arguments.seconds <= 2.5 * lease + 0.001
        if isinstance(call.asked, Timer):
            assert 0.5 * lease - 0.001 <= call.asked.seconds <= 3 * lease + 0.001
    for message in load.messages:
        about = "approval" if message.kind == "decision" else "question"
        asking = row_of(Status.SUSPENDED, HumanResponseReceived(f"{about}:t:3-0"))
        posted = message.post_for(asking)
        assert posted is not None
        lower_item(message.task, *posted)


def test_huge_workloads_have_long_texts_and_others_do_not() -> None:
    chars = {
        huge: max(
            call.arguments.chars
            for task in workload(1, KINDS, Profile(huge=huge)).tasks
            for _, call in calls_of(task.script)
        )
        for huge in (False, True)
    }

    assert chars[False] <= 60_000
    assert chars[True] == 1_000_000


@pytest.mark.parametrize("tasks", [0, -1, 100_001])
def test_a_senseless_number_of_tasks_is_refused(tasks: int) -> None:
    with pytest.raises(ValueError, match="tasks: from 1"):
        workload(1, tasks)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_seconds": 0.0},
        {"lease_seconds": float("nan")},
        {"retry_attempts": 1},
        {"weights": {}},
        {"weights": {Kind.PLAIN: 0}},
        {"slow_leases": (2.0, 1.0)},
        {"think_leases": (-1.0, 1.0)},
        {"spread_leases": -1.0},
        {"wait_leases": (0.0, 1.0)},
        {"group_members": 0},
        {"group_members": 101},
        {"flood_events": 0},
        {"shell_leases": (0.0, 1.0)},
        {"cron_seconds": (2.0, 1.0)},
    ],
)
def test_a_senseless_profile_is_refused_by_name(wrong: dict[str, object]) -> None:
    (name,) = wrong

    with pytest.raises(ValueError, match=name):
        Profile(**wrong)  # type: ignore[arg-type]


def test_messages_become_due_in_order_and_when_the_task_is_where_they_belong() -> None:
    load = workload(7, KINDS)
    messages = load.messages_of(next(t.id for t in load.tasks if t.script.kind == "interactive"))
    note, turn = messages[0], next(message for message in messages if message.kind == "turn")
    before_turn = messages[: messages.index(turn)]
    posted = {message.key for message in before_turn}

    assert note.kind == "note"
    assert not is_due(note, row_of(Status.PENDING), (), set())
    assert is_due(note, row_of(Status.RUNNING), (), set())
    assert is_due(note, row_of(Status.SUSPENDED), (), set())
    assert not is_due(turn, row_of(Status.SUSPENDED), before_turn, set())
    assert not is_due(turn, row_of(Status.RUNNING), before_turn, posted)
    assert is_due(turn, row_of(Status.SUSPENDED), before_turn, posted)
    assert is_due(turn, row_of(Status.TERMINAL), before_turn, posted)


def test_a_kind_is_there_as_often_as_it_is_asked_for() -> None:
    often = Profile(at_least={Kind.GROUP: 4, Kind.JOB: 3})
    least = len(often.weights) + 3 + 2

    drawn = Counter(Kind(task.script.kind) for task in workload(7, least, often).tasks)
    small = workload(7, least - 1, often)

    assert (drawn[Kind.GROUP], drawn[Kind.JOB]) == (4, 3)
    assert set(drawn) == set(often.weights)
    assert len(small.tasks) == least - 1, "without room for all of them, none is promised"


@pytest.mark.parametrize("at_least", [{Kind.GROUP: 0}, {Kind.JOB: 1}])
def test_what_cannot_be_there_so_often_is_refused(at_least: dict[Kind, int]) -> None:
    with pytest.raises(ValueError, match="at_least"):
        Profile(weights={Kind.GROUP: 1}, at_least=at_least)
