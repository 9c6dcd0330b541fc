"""What was taken over goes on by itself only if that starts nothing twice that may not be, and the gates allow it; and
not more often than the bounds say."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    ModelCalled,
    NoticeGiven,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    ToolFinished,
)
from noeta.core.gates import Allow, Ask, Decision, Deny
from noeta.core.tool import MAX_ATTEMPTS, Tool
from tests.actors import Deaths, Model, asks, die, says
from tests.unit.runtime.gating import (
    APPROVAL,
    HERE,
    Finds,
    Notes,
    Says,
    agent,
    asking,
    denying,
    interrupted,
    is_parked,
    lives,
    of,
)
from tests.unit.runtime.machines import LEASE, Site


@pytest.mark.holds("outcome/crash-recovery-moments", "outcome/sealed")
def test_a_call_that_is_safe_and_allowed_is_driven_again() -> None:
    site, ran = interrupted("read", retry_safe=True, gates=(Says({}),))
    machine = site.machine("w2")

    machine.rest()

    assert [start for _, start, _ in ran] == [1, 2]
    assert "attempt_abandoned" in machine.signals.kinds() and "attempt_parked" not in machine.signals.kinds()
    assert of(NoticeGiven, site) == []
    assert site.results() == ["read ran as start 2"]


def test_a_call_that_was_looked_up_goes_on() -> None:
    site, ran = interrupted(now=Finds("pay", []))

    site.machine("w2").rest()

    assert site.results() == ["pay had been done"]
    assert (len(ran), site.events()[-1]) == (1, TaskSuspended(HERE, "done"))


@pytest.mark.holds("outcome/sealed", "outcome/parks")
@pytest.mark.parametrize("now", [Ask(), Deny("by now"), Ask("May it?", {"n": 1})])
def test_a_safe_call_that_the_gates_no_longer_allow_is_not_started_again(now: Decision) -> None:
    """Keeps: effect-at-most-once."""
    site, ran = interrupted("read", retry_safe=True, then=(Says({"read": now}),))

    site.machine("w2").rest()

    assert is_parked(site)
    assert len(ran) == 1
    assert of(ApprovalAsked, site) == []


def test_a_gate_that_fails_allows_no_second_start() -> None:
    class Broken:
        def decide(self, call: Any) -> Decision:
            raise RuntimeError("planted")

    site, ran = interrupted("read", retry_safe=True, then=(Broken(),))

    site.machine("w2").rest()

    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_gate_that_rewrites_allows_and_what_the_log_holds_runs() -> None:
    site, ran = interrupted(
        "read", retry_safe=True, gates=(Says({"read": Allow({"n": 1})}),), then=(Says({"read": Allow({"n": 2})}),)
    )

    site.machine("w2").rest()

    assert ran == [("3-0", 1, {"n": 1}), ("3-0", 2, {"n": 1})]


def test_what_a_person_approved_is_not_started_twice_on_one_approval() -> None:
    """The gate wants a person, and the person said yes to one start. Keeps: effect-at-most-once."""
    site, ran = _approved_and_interrupted(retry_safe=True)

    site.machine("w3").rest()

    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_result_that_was_looked_up_needs_no_second_approval() -> None:
    site, ran = _approved_and_interrupted(now=Finds("pay", []))

    site.machine("w3").rest()

    assert (site.results(), len(ran)) == (["pay had been done"], 1)
    assert not is_parked(site)


def _approved_and_interrupted(*, retry_safe: bool = False, now: Tool | None = None) -> tuple[Site, list[Any]]:
    ran: list[Any] = []
    gate = asking("pay")
    site = Site(main=agent(gate, asks=asks("pay"), tools=(Notes("pay", ran, retry_safe, die),)))
    site.create()
    site.machine("w1").rest()
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    assert not lives(site.machine("w2"))
    site.seconds += LEASE
    site.agents["main"] = agent(gate, asks=asks("pay"), tools=(now or Notes("pay", ran, retry_safe),))
    return site, ran


def test_finished_calls_are_not_run_again() -> None:
    """Keeps: effect-at-most-once."""
    done: list[Any] = []
    site, ran = interrupted("read", retry_safe=True, reply=asks("pay", "read", "pay"), tools=(Notes("pay", done),))

    site.machine("w2").rest()

    assert [call for call, _, _ in done] == ["3-0", "3-2"]
    assert [start for _, start, _ in ran] == [1, 2]


def test_a_finished_call_that_a_person_approved_is_in_nobodys_way() -> None:
    done: list[Any] = []
    ran: list[Any] = []
    gate = asking("pay")
    reply = asks("pay", "read")
    deadly = Notes("read", ran, True, Deaths(1))
    site = Site(main=agent(gate, asks=reply, tools=(Notes("pay", done), deadly)))
    site.create()
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    assert not lives(site.machine("w1"))
    site.seconds += LEASE

    site.machine("w2").rest()
    site.outsider().say("t", texts.APPROVE, message_id="answer", handle=APPROVAL)
    site.machine("w3").rest()

    assert (len(done), [start for _, start, _ in ran]) == (1, [1, 2])
    assert of(NoticeGiven, site) == []


def test_a_started_call_that_the_gates_would_not_allow_by_now_parks_its_attempt() -> None:
    """Every started call of the reply must be allowed, finished ones too: the host changed its mind about the agent."""
    site, ran = interrupted(
        "read", retry_safe=True, reply=asks("pay", "read"), tools=(Notes("pay", []),), then=(denying("pay"),)
    )

    site.machine("w2").rest()

    assert (is_parked(site), len(ran)) == (True, 1)


def test_a_call_that_was_not_started_does_not_count() -> None:
    site, ran = interrupted(
        "read", retry_safe=True, reply=asks("read", "pay"), tools=(Notes("pay", []),), gates=(denying("pay"),)
    )

    site.machine("w2").rest()

    assert [start for _, start, _ in ran] == [1, 2]
    assert [event.source for event in of(ToolFinished, site)] == ["ran", "denied"]


def test_a_finished_call_whose_tool_is_gone_is_in_nobodys_way() -> None:
    site, ran = interrupted(
        "read", retry_safe=True, reply=asks("pay", "read"), tools=(Notes("pay", []),), gates=(Says({}),)
    )
    site.agents["main"] = agent(Says({}), asks=asks("pay", "read"), tools=(Notes("read", ran, True),))

    site.machine("w2").rest()

    assert [start for _, start, _ in ran] == [1, 2]


def test_an_interrupted_model_call_alone_is_made_again() -> None:
    """Keeps: same-request."""
    deaths = Deaths(2)
    tool = Notes("pay", [])
    model = Model((asks("pay"), says("done")), deaths)
    site = Site(main=agent(denying("nothing"), asks=asks("pay"), tools=(tool,), model=model))
    site.create()
    assert not lives(site.machine("dies"))
    site.seconds += LEASE
    site.agents["main"] = agent(denying("pay"), asks=asks("pay"), tools=(tool,), model=model)

    site.machine("w2").rest()

    assert site.events()[-1] == TaskCompleted("done")
    assert [event.reason for event in of(StepAttemptAbandoned, site)] == [texts.AUTO_REDRIVE]
    assert len({event.request_hash for event in of(ModelCalled, site)[-2:]}) == 1


# -- bounds ------------------------------------------------------------------------------------------------


def test_the_seals_of_a_call_do_not_count_it_from_one_again() -> None:
    """Three starts in all, then a person decides. Keeps: bounded."""
    ran: list[Any] = []
    site = Site(main=agent(asks=asks("read"), tools=(Notes("read", ran, True, die),)))
    site.create()
    for n in range(MAX_ATTEMPTS):
        assert not lives(site.machine(f"w{n}"))
        site.seconds += LEASE

    site.machine("last").rest()

    assert [start for _, start, _ in ran] == [1, 2, 3]
    assert is_parked(site)
    assert [event.reason for event in of(StepAttemptAbandoned, site)] == [
        texts.AUTO_REDRIVE,
        texts.AUTO_REDRIVE,
        texts.ATTEMPT_PARKED,
    ]


def test_the_seals_of_a_model_call_do_not_count_it_from_one_again() -> None:
    """Keeps: bounded."""
    site = Site(main=agent(asks=says(), tools=(), model=Model((says(),), die)))
    site.create()
    for n in range(texts.MAX_MODEL_ATTEMPTS):
        assert not lives(site.machine(f"w{n}"))
        site.seconds += LEASE

    site.machine("last").rest()

    assert [event.attempt for event in of(ModelCalled, site)] == [1, 2, 3]
    assert site.events()[-1] == TaskFailed(texts.LLM_ERROR, texts.MODEL_CALL_INTERRUPTED)
