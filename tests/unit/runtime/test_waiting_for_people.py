"""Waits that a person or an outside event ends: conversations, questions, and answers days later on another machine."""

from __future__ import annotations

import pytest

from noeta.core import store as contract
from noeta.core.events import EVENT_TYPES, TaskCompleted, TaskSuspended, TaskWoken
from noeta.core.store import Store
from noeta.core.task import Status
from noeta.core.wake import NEXT_GOAL, ExternalEvent, HumanResponseReceived
from tests.actors import Effect, Model, asks, engine, says
from tests.unit.runtime.machines import Site, asks_event, asks_person, calls, main_agent

DAY = 86_400.0


@pytest.mark.holds("status/conversation", "status/no-session", "task/chat-job-subagent")
def test_a_conversation_of_weeks_is_one_task_that_rests_between_its_turns() -> None:
    """Each turn is a wake, a few steps, and a suspension. Keeps: wake-once."""
    tool = Effect("look", [])
    replies = [reply for n in range(1, 5) for reply in (asks("look"), says(f"answer {n}"))]
    site = Site(main=engine(Model(tuple(replies)), tool))
    site.create("chat", interactive=True)
    site.machine("w1").rest()

    for n in range(2, 5):
        row = site.row("chat")
        assert (row.status, row.wake_on) == (Status.SUSPENDED, HumanResponseReceived(NEXT_GOAL))
        site.seconds += 7 * DAY
        turn = row.last_seq
        message = HumanResponseReceived(text=f"message {n}")
        assert site.outsider().wake("chat", message)
        site.machine(f"w{n}").rest()
        kinds = [type(event).__name__ for event in site.events("chat")[turn:]]
        steps = ["ModelCalled", "ModelReplied", "ToolStarted", "ToolFinished", "ModelCalled", "ModelReplied"]
        assert kinds == ["TaskWoken", *steps, "TaskSuspended"]
        assert site.events("chat")[turn] == TaskWoken((n - 1,), message)
        assert site.events("chat")[-1] == TaskSuspended(HumanResponseReceived(NEXT_GOAL), f"answer {n}")

    assert [row.id for row in site.rows()] == ["chat"], "a conversation is nothing but its task"
    assert len({call for call, _ in tool.journal}) == len(tool.journal) == 4


@pytest.mark.holds("status/one-shot-completes")
def test_only_a_task_of_one_shot_completes() -> None:
    site = Site(main=engine(Model((says("hello"), says("again")))))
    site.create("chat", interactive=True)
    site.create("job")
    site.machine().rest()
    site.outsider().wake("chat", HumanResponseReceived(text="more"))
    site.machine().rest()

    completed = {row.id for row in site.rows() for event in site.events(row.id) if isinstance(event, TaskCompleted)}
    assert completed == {"job"}
    assert (site.row("job").status, site.row("chat").status) == (Status.TERMINAL, Status.SUSPENDED)


@pytest.mark.holds("status/no-session")
def test_neither_the_log_nor_the_store_knows_a_session_or_a_workflow() -> None:
    verbs = [name for name in vars(Store) if not name.startswith("_")]
    names = [*EVENT_TYPES, *verbs, *vars(contract)]

    assert "TaskCreated" in names and "create" in names
    assert [name for name in names if any(word in name.lower() for word in ("session", "workflow"))] == []


@pytest.mark.holds("wait/human-delivered", "wait/human-matches")
def test_a_question_is_answered_through_its_handle_and_no_other() -> None:
    site = Site(main=main_agent(asks_person()))
    site.create()
    site.machine().rest()
    channel = site.outsider()

    assert not channel.wake("t", HumanResponseReceived(NEXT_GOAL, "by the way"))
    assert not channel.wake("t", HumanResponseReceived("question:t:9-0", "to another question"))
    site.machine().rest()
    assert (site.row().status, site.results()) == (Status.SUSPENDED, [])

    assert channel.say("t", "yes, do", message_id="1", handle="question:t:3-0").made_ready
    site.machine().rest()

    assert site.results() == ["yes, do"]
    assert site.woken() == [HumanResponseReceived("question:t:3-0", "yes, do")]
    assert site.row().status is Status.TERMINAL


@pytest.mark.holds("wait/event-delivered", "wait/event-matches")
def test_an_outside_event_is_awaited_by_its_kind_whatever_it_carries() -> None:
    site = Site(main=main_agent(asks_event("deployed")))
    site.create()
    site.machine().rest()
    source = site.outsider()

    assert not source.wake("t", ExternalEvent("rolled back", {"b": 1, "a": 2}))
    site.machine().rest()
    assert (site.row().status, site.results()) == (Status.SUSPENDED, [])

    assert source.wake("t", ExternalEvent("deployed", {"b": [1, "ü"], "a": None}))
    site.machine().rest()

    assert site.results() == ['{"a":null,"b":[1,"ü"]}']
    assert site.woken() == [ExternalEvent("deployed", {"b": [1, "ü"], "a": None})]


@pytest.mark.holds("means/another-machine", "means/nothing-held-open", "any/worker-any-machine")
def test_an_answer_days_later_is_taken_up_on_a_machine_that_has_never_seen_the_task() -> None:
    """The first machine is gone for good; all that the second knows is the store. Keeps: wake-once."""
    tool = Effect("look", [])
    ask = calls(("look", {}), ("AskUser", {"question": "Shall we?"}))
    site = Site(main=main_agent(ask, more=[tool]))
    site.create()
    assert site.machine("of yesterday").loop.tick()
    site.agents = {"main": main_agent(ask, more=[tool])}
    site.seconds += 10 * DAY
    assert site.outsider().wake("t", HumanResponseReceived("question:t:3-1", "yes"))

    site.machine("of today").rest()

    assert site.results() == ["look ran as start 1", "yes"]
    assert tool.journal == [("t:3-0", 1)], "what was done before the wait is not done again"
    assert site.events()[-1] == TaskCompleted("done")
    assert site.row().epoch == 2
