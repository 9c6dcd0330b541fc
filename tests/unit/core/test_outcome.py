"""What a tool returned becomes an entry, children with derived ids, posts; or a refusal that bears nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noeta.core import limits, texts
from noeta.core.events import ToolFinished, ToolParked, ToolStarted
from noeta.core.fold import TaskState
from noeta.core.jobs import JobSpec
from noeta.core.runner import Engine
from noeta.core.runner.outcome import Recorded, answered, record
from noeta.core.store import Child, Post
from noeta.core.tool import ChildAsked, Parked, ToolResult
from noeta.core.wake import (
    BACKGROUND,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
)
from tests.actors import Model, engine
from tests.unit.core.logs import CALLED, CREATED, folded, replied

ASKED = ChildAsked("helper", "look")


def state(**changes: Any) -> TaskState:
    found = folded(CREATED, CALLED, replied(3, "tool"), ToolStarted("3-0", 1))
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def recorded(outcome: object, agent: Engine | None = None, **changes: Any) -> Recorded:
    at = state(**changes)
    return record(agent or engine(Model(())), at, at.calls["3-0"], outcome, "ran", has_jobs=True)


def refusal(outcome: object, agent: Engine | None = None, **changes: Any) -> str:
    """What the model is told; nothing is born and nothing is posted."""
    found = recorded(outcome, agent, **changes)
    assert isinstance(found.event, ToolFinished), found
    assert (found.event.is_error, found.event.children, found.children, found.posts) == (True, (), (), ())
    return found.event.output


def test_one_child_is_waited_for_alone() -> None:
    """Keeps: children-once."""
    found = recorded(Parked(children=(ASKED,)))

    assert found.event == ToolParked("3-0", SubtaskCompleted("t.3-0.1"), ("t.3-0.1",))
    assert found.children == (Child("t.3-0.1", "helper", "look", root="t", depth=1),)


def test_several_children_are_a_group() -> None:
    """Keeps: children-once."""
    found = recorded(Parked(children=(ASKED, ASKED)), root="r", subtask_depth=1)

    assert found.event == ToolParked("3-0", SubtaskGroupCompleted("t.3-0", 2), ("t.3-0.1", "t.3-0.2"))
    assert [(one.id, one.group, one.parent, one.root, one.depth) for one in found.children] == [
        ("t.3-0.1", "t.3-0", None, "r", 2),
        ("t.3-0.2", "t.3-0", None, "r", 2),
    ]


def test_children_in_the_background_belong_to_the_root() -> None:
    found = recorded(ToolResult("started", children=(ASKED,)), root="r", subtask_depth=1)

    assert found.event == ToolFinished("3-0", "started", children=("t.3-0.1",))
    assert [(one.group, one.parent, one.depth) for one in found.children] == [(BACKGROUND, "r", 2)]


def test_a_task_at_its_depth_budget_bears_no_child() -> None:
    """Keeps: bounded."""
    agent = replace(engine(Model(())), max_subtask_depth=2)

    assert isinstance(recorded(Parked(children=(ASKED,)), agent, subtask_depth=1).event, ToolParked)
    told = refusal(Parked(children=(ASKED,)), agent, subtask_depth=2)
    assert texts.TOO_DEEP.format(depth=2, depth_max=2) in told
    assert refusal(ToolResult("", children=(ASKED,)), agent, subtask_depth=2) == told
    assert recorded(Parked(children=(ASKED,)), replace(agent, max_subtask_depth=None), subtask_depth=50).children


@pytest.mark.parametrize(
    ("outcome", "named"),
    [
        (Parked(), "parked"),
        (Parked(TimerFired(1.0), (ASKED,)), "parked"),
        (Parked(SubtaskCompleted("other")), "parked.wake_on"),  # type: ignore[arg-type]
        (Parked(ControlReceived()), "parked.wake_on"),  # type: ignore[arg-type]
        (Parked(TimerFired(float("nan"))), "parked.wake_on.fire_at"),
        (Parked(TimerFired(1e12)), "parked.wake_on"),
        (Parked(ExternalEvent("k", timeout_at=float("inf"))), "parked.wake_on.timeout_at"),
        (Parked(HumanResponseReceived("h" * 501)), "parked.wake_on"),
        (Parked(HumanResponseReceived()), "parked.wake_on.handle"),
        (Parked(children=(ChildAsked("a" * 201, "g"),)), "child.agent"),
        (Parked(children=(ASKED,) * (limits.GROUP_MEMBERS_MAX + 1)), "children"),
        (Parked(children=(ChildAsked("a", "g" * limits.GOALS_BYTES_MAX),)), "children"),
        (ToolResult("", posts=(Post("t", TimerFired(1.0), "k"),)), "post"),
        (ToolResult("", posts=(Post("t", ControlReceived("stop"), "k"),)), "post.action"),
    ],
)
def test_what_cannot_be_recorded_is_an_error_result_that_names_the_field(outcome: object, named: str) -> None:
    assert refusal(outcome).startswith(f"Refused: {named}: ")


def test_a_child_whose_id_would_be_too_long_is_refused() -> None:
    assert refusal(Parked(children=(ASKED,)), task_id="t" * limits.TASK_ID_CHARS_MAX).startswith("Refused: child.id: ")


def test_a_lone_surrogate_in_a_goal_is_made_visible() -> None:
    (child,) = recorded(Parked(children=(ChildAsked("a", "\ud800"),))).children

    assert child.goal == "\\ud800"


def test_what_is_no_outcome_is_a_bug_of_the_tool() -> None:
    with pytest.raises(TypeError, match="expected ToolResult or Parked"):
        recorded("done")


@pytest.mark.parametrize(
    ("event", "output", "is_error"),
    [
        (SubtaskCompleted("c", "completed", "42"), "Task c completed:\n42", False),
        (SubtaskCompleted("c", "failed", "llm_error: no"), "Task c failed:\nllm_error: no", True),
        (
            SubtaskGroupCompleted("g", 2, (SubtaskCompleted("a", "failed", "x"), SubtaskCompleted("b", output="y"))),
            "Task a failed:\nx\n\nTask b completed:\ny",
            False,
        ),
        (HumanResponseReceived("h", "yes"), "yes", False),
        (HumanResponseReceived("h", timeout_at=1.0), texts.WAIT_TIMED_OUT, True),
        (ExternalEvent("k", None), "null", False),
        (ExternalEvent("k", {"b": 1, "a": [None]}), '{"a":[null],"b":1}', False),
        (ExternalEvent("k", None, timeout_at=1.0), texts.WAIT_TIMED_OUT, True),
        (TimerFired(1.0), texts.TIMER_FIRED, False),
    ],
)
def test_an_answer_is_told_in_words_and_a_null_payload_is_no_timeout(event: Item, output: str, is_error: bool) -> None:
    call = state().calls["3-0"]
    call.answer = event

    assert answered(call) == ToolFinished("3-0", output, is_error, "woken")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (JobSpec(""), "job.command"),
        (JobSpec("a\0b"), "job.command"),
        (JobSpec(5), "job.command"),  # type: ignore[arg-type]
        (JobSpec("a", directory=5), "job.directory"),  # type: ignore[arg-type]
        (JobSpec("a", directory="b\0"), "job.directory"),
        (JobSpec("a", environment={"PORT": 8080}), "job.environment"),  # type: ignore[dict-item]
        (JobSpec("a", environment={"A=B": "c"}), "job.environment"),
        (JobSpec("a", environment={"": "c"}), "job.environment"),
        (JobSpec("a", environment={"A": "\0"}), "job.environment"),
    ],
)
def test_what_no_process_can_be_started_with_is_refused_before_it_is_recorded(spec: JobSpec, field: str) -> None:
    assert field in refusal(ToolResult("started", job=spec))
