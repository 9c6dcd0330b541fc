"""A call that a gate leaves to a person waits for them before its start: what approves it, what denies it, and what
goes on meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.core import texts
from noeta.core.events import ApprovalAsked, MessageTaken, TaskCompleted, TaskSuspended, ToolFinished, ToolStarted
from noeta.core.gates import Ask, approval_handle
from noeta.core.model import RequestedCall, ToolAnswered
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from noeta.plugins import waiting_tools
from tests.actors import Model, asks, says
from tests.unit.runtime.gating import APPROVAL, Notes, Says, agent, approve, asking, denying, kinds, of, site_of, told
from tests.unit.runtime.machines import Site, calls, delegates, main_agent

DAY = 86_400.0


def test_a_call_that_needs_approval_rests_before_its_start() -> None:
    """Keeps: effect-at-most-once, waiting-is-free."""
    ran: list[Any] = []
    site = site_of(Says({"pay": Ask("Pay 9 euros?", {"euros": 9})}), tools=(Notes("pay", ran),))
    site.create()

    site.machine().rest()

    row = site.row()
    assert (row.status, row.wake_on, row.worker, row.lease_until) == (
        Status.SUSPENDED,
        HumanResponseReceived(APPROVAL),
        None,
        None,
    )
    assert site.events()[-2:] == [
        ApprovalAsked("3-0", HumanResponseReceived(APPROVAL), "Pay 9 euros?", {"euros": 9}),
        TaskSuspended(HumanResponseReceived(APPROVAL)),
    ]
    assert (ran, of(ToolStarted, site)) == ([], [])


def test_an_approved_call_is_started_once_days_later_on_another_machine() -> None:
    """By a worker whose gates would not even let it. Keeps: effect-at-most-once, wake-once."""
    ran: list[Any] = []
    site = site_of(Says({"pay": Ask("Pay?", {"euros": 9})}), tools=(Notes("pay", ran),))
    site.create()
    site.machine("of last week").rest()
    strict = denying("pay")
    site.agents = {"main": agent(strict, asks=asks("pay"), tools=(Notes("pay", ran),))}
    site.seconds += 6 * DAY
    approve(site)
    approve(site)

    site.machine("of today").rest()

    assert ran == [("3-0", 1, {"euros": 9})]
    assert strict.seen == []
    assert kinds(site)[4:] == [
        "TaskSuspended",
        "TaskWoken",
        "ToolStarted",
        "ToolFinished",
        "ModelCalled",
        "ModelReplied",
        "TaskCompleted",
    ]
    assert of(ToolStarted, site) == [ToolStarted("3-0", 1, {"euros": 9})]
    assert site.results() == ["pay ran as start 1"]


@pytest.mark.parametrize("words", ["no", "yes", "Approve", "approve ", " approve", "approve!", "approved", "", "\n"])
def test_everything_but_the_word_denies_and_is_told_as_the_reason(words: str) -> None:
    """A slip of the hand must not be a yes. Keeps: effect-at-most-once."""
    ran: list[Any] = []
    site = site_of(asking("pay"), tools=(Notes("pay", ran),))
    site.create()
    site.machine("w1").rest()
    approve(site, text=words)

    site.machine("w2").rest()

    assert (ran, of(ToolStarted, site)) == ([], [])
    said = f"Not done: a person did not approve this call: {words}"
    assert of(ToolFinished, site) == [ToolFinished("3-0", said, is_error=True, source="denied")]
    assert told(site) == [ToolAnswered("3-0", said, is_error=True)]


def test_a_task_cannot_approve_what_a_person_was_asked() -> None:
    """Whoever speaks for a task names it as the sender; only people have none."""
    ran: list[Any] = []
    site = site_of(asking("pay"), tools=(Notes("pay", ran),))
    site.create()
    site.machine("w1").rest()
    site.store.post("t", HumanResponseReceived(APPROVAL, texts.APPROVE, sender="t.1-0.1"), "from a sub-agent")

    site.machine("w2").rest()

    assert (ran, of(ToolStarted, site)) == ([], [])
    assert [event.source for event in of(ToolFinished, site)] == ["denied"]


@pytest.mark.parametrize(("words", "starts"), [("approve", 1), ("no", 0)])
def test_an_answer_that_comes_before_the_question_is_kept_for_it(words: str, starts: int) -> None:
    """Keeps: wake-once."""
    ran: list[Any] = []
    site = site_of(asking("pay"), tools=(Notes("pay", ran),))
    site.create()
    approve(site, text=words)

    site.machine().rest()

    assert len(ran) == len(of(ToolStarted, site)) == starts
    assert kinds(site)[3:6] == ["ApprovalAsked", "TaskSuspended", "TaskWoken"]
    assert site.row().status is Status.TERMINAL


def test_an_early_answer_to_another_call_approves_nothing() -> None:
    ran: list[Any] = []
    site = site_of(asking("pay"), tools=(Notes("pay", ran),))
    site.create()
    approve(site, approval_handle("t", "3-1"))
    approve(site, approval_handle("u", "3-0"))

    site.machine().rest()

    assert (ran, site.row().wake_on) == ([], HumanResponseReceived(APPROVAL))


def test_the_other_calls_of_a_reply_start_meanwhile() -> None:
    """The question is a row; it stands in nobody's way. The model is asked when all have their results."""
    ran: list[Any] = []
    reply = asks("pay", "read", "pay", "read")
    site = site_of(asking("pay"), reply=reply, tools=(Notes("pay", ran), Notes("read", ran)))
    site.create()

    site.machine("w1").rest()

    assert [call for call, _, _ in ran] == ["3-1", "3-3"]
    assert kinds(site).count("ModelCalled") == 1
    approve(site)
    site.machine("w2").rest()
    assert [call for call, _, _ in ran] == ["3-1", "3-3", "3-0"]
    assert site.row().wake_on == HumanResponseReceived(approval_handle("t", "3-2"))
    approve(site, approval_handle("t", "3-2"), "no")
    site.machine("w3").rest()
    assert [call for call, _, _ in ran] == ["3-1", "3-3", "3-0"]
    assert site.events()[-1] == TaskCompleted("done")


@pytest.mark.parametrize("first", ["3-0", "3-1"])
def test_of_two_calls_one_is_approved_and_one_denied_in_any_order(first: str) -> None:
    ran: list[Any] = []
    site = site_of(asking("pay"), reply=asks("pay", "pay"), tools=(Notes("pay", ran),))
    site.create()
    site.machine("w1").rest()
    words = {"3-0": "approve", "3-1": "too much"}
    second = "3-1" if first == "3-0" else "3-0"
    for call in (first, second):
        approve(site, approval_handle("t", call), words[call])
        site.machine(call).rest()

    assert ran == [("3-0", 1, {"n": 0})]
    assert {event.call_id: event.source for event in of(ToolFinished, site)} == {"3-0": "ran", "3-1": "denied"}
    assert {said.call_id: said.output for said in told(site)} == {
        "3-0": "pay ran as start 1",
        "3-1": "Not done: a person did not approve this call: too much",
    }
    assert site.events()[-1] == TaskCompleted("done")


def test_a_question_of_an_approved_call_is_another_wait() -> None:
    """The call is approved, started, and parks: what it then hears is its result, whatever it says."""
    reply = calls(("AskUser", {"question": "Shall we?"}))
    site = site_of(asking("AskUser"), reply=reply, tools=tuple(waiting_tools().values()))
    site.create()
    site.machine("w1").rest()
    approve(site)
    site.machine("w2").rest()
    assert site.row().wake_on == HumanResponseReceived("question:t:3-0")
    approve(site, "question:t:3-0", "no")

    site.machine("w3").rest()

    assert site.results() == ["no"]
    assert [type(event).__name__ for event in site.events() if "3-0" in repr(event)].count("ToolStarted") == 1


def test_a_sub_agents_call_is_approved_by_a_person_too() -> None:
    """At the sub-agent itself: it is a task like any other."""
    ran: list[Any] = []
    site = Site(
        main=main_agent(delegates("helper")), helper=agent(asking("pay"), asks=asks("pay"), tools=(Notes("pay", ran),))
    )
    site.create()
    site.machine("w1").rest()
    assert ran == []
    approve(site, approval_handle("t.3-0.1", "3-0"), id="t.3-0.1")

    site.machine("w2").rest()

    assert [call for call, _, _ in ran] == ["3-0"]
    assert site.results() == ["Task t.3-0.1 completed:\ndone"]


# -- orders and messages while it waits --------------------------------------------------------------------


def test_a_cancel_while_it_waits_ends_the_task_and_a_later_answer_starts_nothing() -> None:
    """Keeps: terminal-is-final."""
    ran: list[Any] = []
    site = site_of(asking("pay"), tools=(Notes("pay", ran),))
    site.create()
    site.machine().rest()

    assert site.outsider().cancel("t", "no longer").outcome == "cancelled"
    assert site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL).outcome == "ended"
    site.machine().rest()

    assert (ran, kinds(site)[-1]) == ([], "TaskCancelled")


def test_a_close_while_it_waits_ends_the_turn_and_a_later_answer_starts_nothing() -> None:
    """Neither now nor in a later turn. Keeps: effect-at-most-once."""
    ran: list[Any] = []
    reply = asks("pay")
    site = site_of(asking("pay"), tools=(Notes("pay", ran),), more=(says("and more"),))
    site.create(interactive=True)
    site.machine().rest()
    site.outsider().close("t", "enough")
    site.machine().rest()
    assert site.row().wake_on == HumanResponseReceived(NEXT_GOAL)
    approve(site)
    site.outsider().say("t", "go on", message_id="1")

    site.machine().rest()

    assert (ran, of(ToolStarted, site)) == ([], [])
    assert told(site) == [ToolAnswered("3-0", texts.TURN_ENDED_FIRST, is_error=True)]
    assert site.events()[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), "done")
    assert reply.calls == (RequestedCall("pay", {"n": 0}),)


def test_a_message_while_it_waits_is_heard_after_the_answer_and_decides_nothing() -> None:
    ran: list[Any] = []
    model = Model((asks("pay"), says("done")))
    site = site_of(asking("pay"), tools=(Notes("pay", ran),), model=model)
    site.create(interactive=True)
    site.machine().rest()
    site.outsider().say("t", "approve", message_id="1")
    site.machine().rest()
    assert ran == []
    approve(site)

    site.machine().rest()

    assert len(ran) == 1
    assert of(MessageTaken, site) == [MessageTaken(1, HumanResponseReceived(NEXT_GOAL, "approve"))]
