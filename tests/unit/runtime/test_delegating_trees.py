"""Subtasks: ordinary tasks with a log of their own, whose results are their parents' wakes, in a tree that has a root
and a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noeta.core.events import TaskCompleted, TaskCreated, TaskSuspended, ToolFinished
from noeta.core.model import ProviderError
from noeta.core.task import Status
from noeta.core.tool import ToolContext
from noeta.core.wake import HumanResponseReceived, SubtaskCompleted, SubtaskGroupCompleted
from noeta.plugins import waiting_tools
from tests.actors import Effect, Model, asks, engine, says
from tests.unit.runtime.machines import (
    Site,
    asks_person,
    delegates,
    fans_out,
    helper_agent,
    main_agent,
)


def _refuse(request: object) -> None:
    raise ProviderError("overloaded", retryable=False)


@pytest.mark.holds("subtask/ordinary-task", "task/only-unit")
def test_a_subtask_is_a_task_like_any_other_but_for_the_name_of_its_parent() -> None:
    """The same agent, created by a person and delegated to, writes the same log. Keeps: children-once."""
    tool = Effect("look", [])
    site = Site(
        main=main_agent(delegates("worker", "goal of it")), worker=engine(Model((asks("look"), says("42"))), tool)
    )
    site.create()
    site.create("it", "worker")
    site.machine().rest()

    child, created = "t.3-0.1", site.events("t.3-0.1")[0]
    assert isinstance(created, TaskCreated)
    assert (created.parent_task_id, created.root_task_id, created.subtask_depth) == ("t", "t", 1)
    plain = site.events("it")
    assert plain[0] == TaskCreated("worker", "goal of it")
    assert [type(event) for event in site.events(child)[1:]] == [type(event) for event in plain[1:]]
    assert site.events(child)[-1] == plain[-1] == TaskCompleted("42")
    assert sorted(call for call, _ in tool.journal) == ["it:3-0", f"{child}:3-0"]
    mine, other = site.row(child), site.row("it")
    assert (mine.parent, other.parent) == ("t", None)
    assert all(getattr(mine, name) == getattr(other, name) for name in ("status", "epoch", "last_seq", "queue"))
    steps = ["ModelCalled", "ModelReplied"]
    asked = ["TaskCreated", *steps, "ToolStarted", "ToolParked", "TaskSuspended"]
    told = ["TaskWoken", "ToolFinished", *steps, "TaskCompleted"]
    assert [type(event).__name__ for event in site.events()] == [*asked, *told], (
        "the parent's log has its own steps only"
    )


@pytest.mark.holds("task/only-unit", "task/chat-job-subagent")
def test_a_chat_a_nightly_job_and_sub_agents_are_all_tasks_and_there_is_nothing_else() -> None:
    site = Site(main=main_agent(fans_out("helper", "helper")), helper=helper_agent())
    site.create("chat", "helper", interactive=True)
    site.create("nightly", delay_seconds=3_600.0)
    site.machine().rest()
    assert site.row("nightly").status is Status.PENDING
    site.seconds += 3_600.0
    site.machine().rest()
    assert (site.row("chat").status, site.row("nightly").status) == (Status.SUSPENDED, Status.TERMINAL)

    ids = ["chat", "nightly", "nightly.3-0.1", "nightly.3-0.2"]
    assert sorted(row.id for row in site.rows()) == ids
    for id in ids:
        created = site.events(id)[0]
        assert isinstance(created, TaskCreated)
        assert created.agent in site.agents, "each is one run of an agent"
    assert sum(isinstance(event, TaskCreated) for id in ids for event in site.events(id)) == len(ids)


@pytest.mark.holds("subtask/parent-suspends", "subtask/result-is-the-wake")
def test_a_parent_waits_for_its_child_and_is_woken_by_its_result() -> None:
    """Keeps: children-once, wake-once."""
    site = Site(main=main_agent(delegates("helper")), helper=helper_agent("42"))
    site.create()
    assert site.machine().loop.tick()
    assert site.row().wake_on == SubtaskCompleted("t.3-0.1")
    assert site.events()[-1] == TaskSuspended(SubtaskCompleted("t.3-0.1"))

    site.machine().rest()

    assert site.woken() == [SubtaskCompleted("t.3-0.1", "completed", "42")]
    assert site.results() == ["Task t.3-0.1 completed:\n42"]
    assert site.events()[-1] == TaskCompleted("done")


@pytest.mark.holds("subtask/parent-suspends", "subtask/result-is-the-wake")
def test_a_fan_out_waits_for_all_and_is_woken_once_with_every_result_in_birth_order() -> None:
    """However they end, and whoever ends first. Keeps: children-once, wake-once."""
    site = Site(
        main=main_agent(fans_out("slow", "broken", "quick")),
        slow=main_agent(asks_person()),
        broken=engine(Model((says(),), before=_refuse)),
        quick=helper_agent("quick"),
    )
    site.create()
    site.machine().rest()
    group = SubtaskGroupCompleted("t.3-0", 3)
    assert (site.row().status, site.row().wake_on) == (Status.SUSPENDED, group)
    assert site.woken() == []

    site.outsider().wake("t.3-0.1", HumanResponseReceived("question:t.3-0.1:3-0", "go"))
    site.machine().rest()

    (event,) = site.woken()
    assert isinstance(event, SubtaskGroupCompleted)
    assert [(one.subtask_id, one.status) for one in event.results] == [
        ("t.3-0.1", "completed"),
        ("t.3-0.2", "failed"),
        ("t.3-0.3", "completed"),
    ]
    (result,) = site.results()
    assert [line for line in result.split("\n") if line.startswith("Task ")] == [
        "Task t.3-0.1 completed:",
        "Task t.3-0.2 failed:",
        "Task t.3-0.3 completed:",
    ]


@pytest.mark.parametrize("depth_max", [0, 1, 3])
@pytest.mark.holds("subtask/depth-capped")
def test_an_agent_that_always_delegates_to_itself_comes_to_an_end(depth_max: int) -> None:
    """Keeps: bounded."""
    site = Site(main=replace(main_agent(delegates("main")), max_subtask_depth=depth_max))
    site.create()
    site.machine().rest()

    depths = [
        event.subtask_depth for row in site.rows() for event in site.events(row.id) if isinstance(event, TaskCreated)
    ]
    assert sorted(depths) == list(range(depth_max + 1))
    assert {row.status for row in site.rows()} == {Status.TERMINAL}
    deepest = max((row.id for row in site.rows()), key=len)
    (refused,) = [event for event in site.events(deepest) if isinstance(event, ToolFinished)]
    assert refused.is_error and f"depth {depth_max} of at most {depth_max}" in refused.output


@pytest.mark.holds("subtask/depth-capped")
def test_the_depth_is_capped_unless_an_engine_says_otherwise() -> None:
    site = Site(main=main_agent(delegates("main")))
    site.create()
    site.machine().rest()

    assert len(site.rows()) == 4


@pytest.mark.holds("subtask/root-owns")
def test_a_sub_agent_in_the_background_belongs_to_the_root_and_outlives_who_started_it() -> None:
    """Its starter ends; its result comes to the root, once. Keeps: children-once."""
    seen: list[tuple[str, str | None, str, int]] = []

    def see(ctx: ToolContext) -> None:
        seen.append((ctx.task_id, ctx.parent_task_id, ctx.root_task_id, ctx.subtask_depth))

    slow = engine(
        Model((asks("see"), asks_person(), says("late result"))),
        Effect("see", [], after=see),
        *waiting_tools().values(),
    )
    site = Site(
        main=main_agent(delegates("middle"), says("turn over"), says("heard")),
        middle=main_agent(delegates("slow", background=True)),
        slow=slow,
    )
    site.create(interactive=True)
    site.machine().rest()
    middle, background = "t.3-0.1", "t.3-0.1.3-0.1"
    assert site.row(middle).status is Status.TERMINAL
    assert site.row(background).status is Status.SUSPENDED, "it outlives the step, and the task, that started it"
    assert seen == [(background, "t", "t", 2)]
    assert site.row(background).parent == "t"
    turns = len(site.woken())

    question = site.row(background).wake_on
    assert isinstance(question, HumanResponseReceived)
    assert site.outsider().wake(background, HumanResponseReceived(question.handle, "go"))
    site.machine().rest()

    assert site.row(background).status is Status.TERMINAL
    (told,) = site.woken()[turns:]
    assert isinstance(told, HumanResponseReceived)
    assert told.sender == background and "late result" in told.text
    assert site.row().status is Status.SUSPENDED


@pytest.mark.holds("subtask/root-owns")
def test_what_the_root_owns_ends_with_the_root() -> None:
    """Keeps: children-once, never-stuck."""
    site = Site(main=main_agent(delegates("asker", background=True)), asker=main_agent(asks_person()))
    site.create()
    site.machine().rest()

    assert {row.id: row.status for row in site.rows()} == {"t": Status.TERMINAL, "t.3-0.1": Status.TERMINAL}
