"""What is foretold is what happens when provider and tools are really driven."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_model.foretell import Foretold, depth_of, foretell, foretell_all, foretell_child
from scripted_model.generate import workload
from scripted_model.profile import Kind, Profile
from scripted_model.script import Fail, Say, Script, Turn
from scripted_model.workload import ScheduledMessage, ScriptedTask
from tests.unit.scripted_model.driving import CallRecord, Ended, FakeRuntime, politely

KINDS = len(Kind)


def outcome_of(run: FakeRuntime) -> tuple[str, str | None, str | None]:
    last = run.ends[-1]
    ended = "failed" if last.ends == "failed" else "completed"
    return ("waiting" if run.task.interactive else ended, last.reason, last.answer)


def foretold_outcome(foretold: Foretold) -> tuple[str, str | None, str | None]:
    return (foretold.outcome, foretold.reason, foretold.answer)


def check_calls(run: FakeRuntime, foretold: Foretold) -> None:
    """Every detail of every call, but what is not foretold."""
    for call, told in zip(run.calls, foretold.calls, strict=True):
        is_error = call.is_error if told.is_error is None else told.is_error
        assert call == CallRecord(told.tag, told.tool, told.source, is_error, told.starts)


@pytest.mark.parametrize("seed", range(8))
def test_an_undisturbed_run_is_as_foretold_in_every_detail(seed: int) -> None:
    load = workload(seed, KINDS)

    for task, foretold in zip(load.tasks, foretell_all(load), strict=True):
        run = FakeRuntime(task, list(load.messages_of(task.id)), politely)
        run.run()

        assert outcome_of(run) == foretold_outcome(foretold), task.id
        check_calls(run, foretold)
        own = [death for death in run.book.deaths if death.task == task.id]
        assert run.deaths == len(own) + 3 * ("model_attempts" in foretold.bounds)
        assert run.deaths == foretold.deaths
        assert run.refused == []
        # A note that finds its turn over gets the turn's end again, and changes nothing else.
        assert list(dict.fromkeys(run.ends)) == list(
            dict.fromkeys(Ended(turn.ends, turn.reason, turn.answer) for turn in foretold.turns)
        )


@pytest.mark.parametrize("seed", range(8))
def test_sub_agents_are_as_foretold_from_their_goals_alone(seed: int) -> None:
    load = workload(seed, KINDS)

    for task, root in zip(load.tasks, foretell_all(load), strict=True):
        run = FakeRuntime(task, list(load.messages_of(task.id)), politely)
        run.run()

        todo, born = [run], []
        while todo:
            above = todo.pop(0)
            todo += above.children
            born += [(child.task.script.task, above.task.script.task, child.depth) for child in above.children]
            for child in above.children:
                told = foretell_child(child.task.id, child.task.goal, root=root)
                assert (told.task, told.name, depth_of(told.task)) == (
                    child.task.id,
                    child.task.script.task,
                    child.depth,
                )
                assert outcome_of(child) == foretold_outcome(told)
                check_calls(child, told)
                assert len(told.children) == len(child.children)
        assert sorted(born) == sorted((child.name, child.above, child.depth) for child in root.descendants)
        assert len(root.children) == len(run.children)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_calls_and_outcome_do_not_depend_on_where_messages_land_or_what_tools_answer(data: st.DataObject) -> None:
    """Turn messages may even come before the turn before has ended; calls may end unknown."""
    seed = data.draw(st.integers(0, 40))
    load = workload(seed, KINDS)
    tasks = [task for task in load.tasks if load.messages_of(task.id)]
    task = data.draw(st.sampled_from(tasks))
    messages = list(load.messages_of(task.id))

    def land(where: str, left: list[ScheduledMessage]) -> int:
        return data.draw(st.integers(1 if where == "wait" else 0, len(left)), label=where)

    lost = data.draw(st.sets(st.integers(0, 12)))
    run = FakeRuntime(task, messages, land, loses=lambda tag: int(tag.rpartition("#")[2]) in lost)
    run.run()

    foretold = foretell(task, messages)
    assert outcome_of(run) == foretold_outcome(foretold)
    assert [(call.tag, call.tool) for call in run.calls] == [(call.tag, call.tool) for call in foretold.calls]
    assert set(run.refused) <= set(foretold.refusable_keys)


def test_one_shot_outcomes_cover_completed_with_and_without_answer_and_both_failures() -> None:
    outcomes = {(f.outcome, f.reason, f.answer is None) for f in foretell_all(workload(1, KINDS))}

    assert outcomes == {
        ("completed", None, False),
        ("completed", None, True),
        ("failed", "llm_error", True),
        ("failed", "llm_truncated", True),
        ("waiting", None, False),
    }


def test_every_bound_is_reached_by_some_task_all_by_itself() -> None:
    bounds = {bound for seed in range(3) for f in foretell_all(workload(seed, KINDS)) for bound in f.bounds}

    assert bounds == {
        "model_attempts",
        "tool_starts",
        "provider_attempts",
        "truncated_replies",
        "empty_replies",
    }


def test_failures_that_exhaust_the_retry_policy_are_refused_not_mistold() -> None:
    task = ScriptedTask("t", Script("t", "k", (Turn((Fail(3), Say())),)))

    with pytest.raises(ValueError, match="pass only with more than 3 attempts"):
        foretell(task, retry_attempts=3)
    assert foretell(task, retry_attempts=4).outcome == "completed"


def test_a_turn_without_a_message_to_start_it_is_refused() -> None:
    task = ScriptedTask("t", Script("t", "k", (Turn((Say(),)), Turn((Say(),))), interactive=True))

    with pytest.raises(ValueError, match="one message, in order, starts each turn"):
        foretell(task)


def test_a_smaller_retry_policy_is_foretold_and_driven_alike() -> None:
    load = workload(5, KINDS, Profile(retry_attempts=2))

    for task, foretold in zip(load.tasks, foretell_all(load), strict=True):
        run = FakeRuntime(task, list(load.messages_of(task.id)), politely, retry_attempts=2)
        run.run()
        assert outcome_of(run) == foretold_outcome(foretold), asdict(foretold)
