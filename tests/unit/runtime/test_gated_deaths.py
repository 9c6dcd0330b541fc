"""Gates and approvals through deaths: what is in the log is decided, for every worker after the one that died."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.core.events import ApprovalAsked, TaskWoken, ToolFinished, ToolStarted
from noeta.core.gates import Allow, Ask, Decision, Deny
from noeta.core.task import Status
from noeta.core.tool import OnUnknown, ToolResult
from noeta.core.wake import HumanResponseReceived
from tests.actors import asks, die
from tests.unit.runtime.gating import (
    APPROVAL,
    POINTS_MAX,
    POINTS_MIN,
    Mortal,
    Notes,
    Says,
    agent,
    approve,
    asking,
    denying,
    dying,
    kinds,
    lives,
    of,
    rewriting,
    site_of,
    told,
)
from tests.unit.runtime.machines import LEASE, Site

TELL = OnUnknown.TELL


@pytest.mark.holds("tool/not-gated-again")
@pytest.mark.parametrize("now", [Deny("by now"), Ask(), Allow({"n": 2})])
def test_a_recovered_call_is_not_gated_again_and_runs_with_what_the_log_holds(now: Decision) -> None:
    """It was allowed when it ran, whatever the gates would say today. Keeps: effect-at-most-once."""
    ran: list[Any] = []
    first = rewriting(read={"n": 1})
    site = site_of(first, reply=asks("read"), tools=(Notes("read", ran, True, die),), on_unknown=TELL)
    site.create()
    assert not lives(site.machine("w1"))
    site.seconds += LEASE
    later = Says({"read": now})
    site.agents["main"] = agent(later, asks=asks("read"), tools=(Notes("read", ran, True),), on_unknown=TELL)

    site.machine("w2").rest()

    assert (first.asked_about("3-0"), later.seen) == (1, [])
    assert ran == [("3-0", 1, {"n": 1}), ("3-0", 2, {"n": 1})]
    assert of(ToolStarted, site) == [ToolStarted("3-0", 1, {"n": 1}), ToolStarted("3-0", 2, {"n": 1})]
    assert site.results() == ["read ran as start 2"]


def test_a_call_that_was_approved_is_started_again_without_asking_twice() -> None:
    """The approval stands in the log."""
    ran: list[Any] = []
    gate = asking("read")
    site = site_of(gate, reply=asks("read"), tools=(Notes("read", ran, True, die),), on_unknown=TELL)
    site.create()
    site.machine("w1").rest()
    approve(site)
    assert not lives(site.machine("w2"))
    site.seconds += LEASE
    site.agents["main"] = agent(gate, asks=asks("read"), tools=(Notes("read", ran, True),), on_unknown=TELL)

    site.machine("w3").rest()

    assert gate.asked_about("3-0") == 1
    assert [(call, start) for call, start, _ in ran] == [("3-0", 1), ("3-0", 2)]
    assert len(of(ApprovalAsked, site)) == 1


def test_nothing_is_decided_until_it_is_in_the_log() -> None:
    """A worker that dies between the gate and the append decided nothing: the next one asks the gates itself."""
    ran: list[Any] = []
    lenient, strict = Says({}), denying("pay")
    site = site_of(lenient, tools=(Notes("pay", ran),))
    site.create()
    assert not lives(dying("w1", site, 2))  # of the reply and the start
    assert lenient.asked_about("3-0") == 1
    site.seconds += LEASE
    site.agents["main"] = agent(strict, asks=asks("pay"), tools=(Notes("pay", ran),))

    site.machine("w2").rest()

    assert (ran, of(ToolStarted, site)) == ([], [])
    assert [event.source for event in of(ToolFinished, site)] == ["denied"]


@pytest.mark.parametrize("words", ["approve", "no"])
@pytest.mark.parametrize("retry_safe", [False, True])
def test_a_death_at_any_point_around_an_approval_starts_it_as_often_as_it_may(words: str, retry_safe: bool) -> None:
    """A person answers once; whoever dies before or after that, the question is asked once, and the call runs as often
    as its tool allows, and not at all if it was denied. Keeps: effect-at-most-once, wake-once."""
    dies_at, lived = 0, False
    while not lived:
        dies_at += 1
        assert dies_at < POINTS_MAX
        ran: list[Any] = []
        reply = asks("pay", "read")
        tools = (Notes("pay", ran, retry_safe), Notes("read", ran, retry_safe=True))
        site = site_of(Says({"pay": Ask("Pay?", {"euros": 9})}), reply=reply, tools=tools, on_unknown=TELL)
        site.create()
        mortal = site.machine("mortal", Mortal(dies_at))
        lived = lives(mortal)
        if lived:
            approve(site, text=words)
            lived = lives(mortal)
        if not lived:
            _finish(site, words)

        where = (dies_at, kinds(site))
        assert site.row().status is Status.TERMINAL, where
        assert len(of(ApprovalAsked, site)) == len(of(TaskWoken, site)) == 1, where
        paid = [(start, input) for call, start, input in ran if call.endswith("-0")]
        starts = [event for event in of(ToolStarted, site) if event.call_id.endswith("-0")]
        assert all(input == {"euros": 9} for _, input in paid), where
        assert all(event.input == {"euros": 9} for event in starts), where
        if words == "approve":
            assert (1 if retry_safe else 0) <= len(paid) <= (2 if retry_safe else 1), where
            assert len(starts) >= 1, where
        else:
            assert (paid, starts) == ([], []), where
        assert len(told(site)) == 2, where
    assert dies_at > POINTS_MIN, "next to no points were passed"


def _finish(site: Site, words: str) -> None:
    """The next machines; a person answers when the task is seen to ask. Model calls may have moved the call's id."""
    for n in range(6):
        site.seconds += LEASE
        site.machine(f"next{n}").rest()
        if isinstance(wake_on := site.row().wake_on, HumanResponseReceived):
            approve(site, wake_on.handle, words)


@pytest.mark.holds("tool/parked-is-not-cut-short")
def test_a_parked_call_is_not_cut_short_by_a_takeover() -> None:
    """A worker that took the task over in the middle of another call asks nothing about the one that waits: it is
    neither looked up, nor told unknown, nor started. Keeps: effect-at-most-once."""
    looked_up: list[str] = []

    class Looks(Notes):
        def recover(self, input: Any, ctx: Any) -> ToolResult | None:
            looked_up.append(ctx.call_id)
            return None

    ran: list[Any] = []
    gate = asking("pay")
    reply = asks("pay", "read")
    tools = (Looks("pay", ran, retry_safe=True), Notes("read", ran, True, die))
    site = site_of(gate, reply=reply, tools=tools)
    site.create()
    assert not lives(site.machine("w1"))
    site.seconds += LEASE
    sound = (tools[0], Notes("read", ran, retry_safe=True))
    site.agents["main"] = agent(gate, asks=reply, tools=sound)

    site.machine("w2").rest()

    assert looked_up == []
    assert [call for call, _, _ in ran] == ["3-1", "3-1"]
    assert (gate.asked_about("3-0"), len(of(ApprovalAsked, site))) == (1, 1)
    assert [event.call_id for event in of(ToolFinished, site)] == ["3-1"]
    assert site.row().wake_on == HumanResponseReceived(APPROVAL)
    approve(site)
    site.machine("w3").rest()
    assert [call for call, _, _ in ran] == ["3-1", "3-1", "3-0"]
