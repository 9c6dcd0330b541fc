"""A task that was taken over in the middle of a call rests until a person says how it goes on, if its host wants it
so."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    MessageTaken,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
)
from noeta.core.fold import fold
from noeta.core.model import ModelRequest, ToolAnswered, UserSaid
from noeta.core.runner import Held, Runner
from noeta.core.task import Status
from noeta.core.tool import OnUnknown, ToolResult
from noeta.core.wake import NEXT_GOAL, ControlReceived, HumanResponseReceived
from noeta.plugins import waiting_tools
from noeta.runtime.leased import run_leased_task
from noeta.runtime.service import ReleasingLoop
from noeta.runtime.worker import WorkerLoop
from tests.actors import Model, PointWorld, asks, die, says
from tests.unit.runtime.gating import (
    APPROVAL,
    HERE,
    Notes,
    agent,
    asking,
    interrupted,
    is_parked,
    kinds,
    lives,
    of,
    say,
    told,
)
from tests.unit.runtime.machines import LEASE, Site, calls, delegates, main_agent


@pytest.mark.holds("outcome/parked", "outcome/crash-recovery-moments", "outcome/parks")
def test_an_unknown_outcome_rests_until_a_person_says_how_to_go_on() -> None:
    """Sealed, told to people, and free of any worker. Keeps: effect-at-most-once, waiting-is-free."""
    site, ran = interrupted()
    machine = site.machine("w2")

    assert machine.loop.tick()

    assert is_parked(site)
    assert site.events()[-3:] == [
        StepAttemptAbandoned(4, texts.ATTEMPT_PARKED),
        NoticeGiven(texts.PARKED_NOTICE.format(calls="pay (3-0)")),
        TaskSuspended(HERE, reason=texts.ATTEMPT_PARKED),
    ]
    assert [start for _, start, _ in ran] == [1]
    assert (site.row().worker, site.row().lease_until) == (None, None)
    (parked,) = [event for event in machine.signals.events if event.kind != "stale_requeued"]
    assert (parked.kind, parked.task_id) == ("attempt_parked", "t")
    assert parked.detail == {"reason": texts.ATTEMPT_PARKED, "abandoned_from_seq": 4}
    assert not machine.loop.tick(), "nobody drives it until somebody speaks"


@pytest.mark.holds("outcome/parked")
def test_the_outcome_of_a_park_is_stopped() -> None:
    site, _ = interrupted()
    machine = site.machine("w2")
    lease = machine.dispatcher.lease(worker_id="w2", lease_seconds=LEASE)
    assert lease is not None

    assert run_leased_task(machine, lease) == "stopped"


@pytest.mark.holds("outcome/parked")
def test_typing_resumes_and_the_model_is_told_once_that_nobody_knows() -> None:
    """Keeps: effect-at-most-once, wake-once."""
    requests: list[ModelRequest] = []
    model = Model((asks("pay"), says("done")), requests.append)
    site, ran = interrupted(model=model)
    site.machine("w2").rest()
    say(site)

    site.machine("w3").rest()

    assert len(ran) == 1
    assert kinds(site)[-4:] == ["TaskWoken", "ModelCalled", "ModelReplied", "TaskSuspended"]
    assert site.events()[-1] == TaskSuspended(HERE, "done")
    assert requests[-1].said[-2:] == (
        ToolAnswered("3-0", texts.OUTCOME_UNKNOWN, is_error=True),
        UserSaid("it was paid, go on"),
    )
    assert told(site) == [ToolAnswered("3-0", texts.OUTCOME_UNKNOWN, is_error=True)]


def test_a_one_shot_task_is_resumed_by_typing_too() -> None:
    site, _ = interrupted(interactive=False)
    site.machine("w2").rest()
    assert is_parked(site)
    say(site)

    site.machine("w3").rest()

    assert site.events()[-1] == TaskCompleted("done")


def test_a_host_names_the_handle_on_which_it_rests() -> None:
    """Then a plain message is kept for the turn, and begins none."""
    site, _ = interrupted()
    site.machine("w2", next_goal_handle="desk").rest()
    assert is_parked(site, "desk")
    say(site)
    site.machine("w3", next_goal_handle="desk").rest()
    assert is_parked(site, "desk")

    site.outsider().say("t", "go on", message_id="1", handle="desk")
    site.machine("w4", next_goal_handle="desk").rest()

    assert site.woken() == [HumanResponseReceived("desk", "go on")]
    assert of(MessageTaken, site) == [MessageTaken(1, HumanResponseReceived(NEXT_GOAL, "it was paid, go on"))]


def test_what_was_said_before_the_notice_is_no_word_about_it() -> None:
    """Whoever typed did not know of the interruption. The model hears it in the turn that the next word begins."""
    requests: list[ModelRequest] = []
    site, _ = interrupted(model=Model((asks("pay"), says("done")), requests.append))
    say(site, "hurry up", "0")

    site.machine("w2").rest()

    assert is_parked(site)
    assert of(MessageTaken, site) == [MessageTaken(1, HumanResponseReceived(NEXT_GOAL, "hurry up"))]
    say(site)
    site.machine("w3").rest()
    assert [said.text for said in requests[-1].said if isinstance(said, UserSaid)] == [
        "goal of t",
        "hurry up",
        "it was paid, go on",
    ]


@pytest.mark.parametrize("action", ["cancel", "close"])
def test_an_order_that_came_goes_before_the_park(action: str) -> None:
    """Keeps: terminal-is-final."""
    site, _ = interrupted()
    (claim,) = site.store.claim("w2", None, LEASE).claims
    world = PointWorld()
    held = Held(world, site.store, claim, world.monotonic() + 1e6)

    class LooksLong(Notes):
        """While it looks, somebody ends the task, and the keeper hears of it."""

        def recover(self, input: Any, ctx: Any) -> ToolResult | None:
            if held.inbox_seq == 0:
                site.store.post("t", ControlReceived(action))
                held.inbox_seq = 1
            return None

    engine = agent(asks=asks("pay"), tools=(LooksLong("pay", []),))

    outcome = Runner(lambda state: engine, world, site.store, held, on_unknown=OnUnknown.PARK).drive()

    assert outcome == ("cancelled" if action == "cancel" else "stopped")
    assert of(NoticeGiven, site) == []
    assert kinds(site)[-1] == ("TaskCancelled" if action == "cancel" else "TaskSuspended")


@pytest.mark.parametrize(("action", "last"), [("cancel", "TaskCancelled"), ("close", "TaskSuspended")])
def test_a_parked_task_can_be_ended(action: str, last: str) -> None:
    site, ran = interrupted()
    site.machine("w2").rest()

    getattr(site.outsider(), action)("t", "enough")
    site.machine("w3").rest()

    assert (kinds(site)[-1], len(ran)) == (last, 1)
    assert not is_parked(site)


def test_a_waiting_call_and_its_child_are_given_up_with_the_turn() -> None:
    """The turn ends, so nobody waits for the child: it is told in the same commit. Keeps: children-once."""
    reply = calls(("Agent", {"agent": "helper", "prompt": "wait"}), ("pay", {}))
    site = Site(helper=main_agent(calls(("WaitForEvent", {"event_kind": "never"}))))
    tools = tuple(waiting_tools().values())
    site.agents["main"] = agent(asks=reply, tools=(*tools, Notes("pay", [], after=die)))
    site.create()
    assert not lives(site.machine("dies"))
    site.seconds += LEASE

    site.machine("w2").rest()

    assert is_parked(site)
    assert kinds(site, "t.3-0.1")[-1] == "TaskCancelled"
    assert {said.call_id: said.output for said in told(site)} == {
        "3-0": texts.TURN_ENDED_FIRST,
        "3-1": texts.OUTCOME_UNKNOWN,
    }


def test_an_open_question_to_a_person_is_given_up_with_the_turn() -> None:
    """An approval that comes after the park starts nothing. Keeps: effect-at-most-once."""
    ran: list[Any] = []
    site, _ = interrupted("write", gates=(asking("pay"),), reply=asks("pay", "write"), tools=(Notes("pay", ran),))
    assert len(of(ApprovalAsked, site)) == 1
    site.machine("w2").rest()
    assert is_parked(site)
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    say(site)

    site.machine("w3").rest()

    assert ran == []
    assert {said.call_id: said.output for said in told(site)} == {
        "3-0": texts.TURN_ENDED_FIRST,
        "3-1": texts.OUTCOME_UNKNOWN,
    }


# -- who parks ---------------------------------------------------------------------------------------------


def test_a_sub_agent_is_told_since_nobody_speaks_to_it() -> None:
    """Its parent waits for its result, and would wait for ever. Keeps: never-stuck."""
    ran: list[Any] = []
    site = Site(
        main=main_agent(delegates("helper")), helper=agent(asks=asks("pay"), tools=(Notes("pay", ran, after=die),))
    )
    site.create()
    assert not lives(site.machine("dies"))
    site.seconds += LEASE
    machine = site.machine("w2")

    machine.rest()

    assert [event.source for event in of(ToolFinished, site, "t.3-0.1")] == ["unknown"]
    assert site.results() == ["Task t.3-0.1 completed:\ndone"]
    assert "attempt_abandoned" in machine.signals.kinds() and "attempt_parked" not in machine.signals.kinds()
    assert len(ran) == 1


@pytest.mark.parametrize("driver", list(OnUnknown))
@pytest.mark.parametrize("agents", [None, *OnUnknown])
def test_the_agent_has_the_last_word_and_the_driver_the_default(driver: OnUnknown, agents: OnUnknown | None) -> None:
    site, ran = interrupted(on_unknown=agents)
    machine = site.machine("w2")
    machine.loop.on_unknown = driver

    machine.rest()

    assert is_parked(site) == ((agents or driver) is OnUnknown.PARK)
    assert len(ran) == 1


def test_the_loop_of_a_host_parks_and_the_worker_command_tells() -> None:
    assert WorkerLoop.on_unknown is OnUnknown.PARK
    assert inspect.signature(run_leased_task).parameters["on_unknown"].default is OnUnknown.PARK
    assert ReleasingLoop.on_unknown is OnUnknown.TELL
    assert agent(asks=says(), tools=()).on_unknown is None


def test_a_fold_of_a_parked_log_is_what_its_runner_held() -> None:
    site, _ = interrupted()
    (claim,) = site.store.claim("w2", None, LEASE).claims
    world = PointWorld()
    held = Held(world, site.store, claim, world.monotonic() + 1e6)
    engine = site.agents["main"]
    runner = Runner(lambda state: engine, world, site.store, held, on_unknown=OnUnknown.PARK)

    assert runner.drive() == "stopped"

    entries = site.store.read("t").entries
    assert runner._state == fold("t", entries[: runner._state.last_seq])
    assert fold("t", entries).status is Status.SUSPENDED
    assert of(TaskWoken, site) == []
