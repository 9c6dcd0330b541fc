"""Gates decide before a call is started, once: what they allow, deny, rewrite, or leave to a person, through every
death around it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noeta.core import texts
from noeta.core.events import (
    ApprovalAsked,
    MessageTaken,
    ModelReplied,
    TaskCompleted,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
)
from noeta.core.fold import fold
from noeta.core.gates import Allow, Ask, Decision, Deny, GatedCall, approval_handle
from noeta.core.limits import COMMIT_PARTS_MAX
from noeta.core.model import ModelReply, ModelSaid, RequestedCall, ToolAnswered
from noeta.core.runner import Held, Runner
from noeta.core.task import Status
from noeta.core.tool import OnUnknown, ToolResult
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from noeta.plugins import waiting_tools
from tests.actors import Model, PointWorld, asks, die, says
from tests.unit.runtime.gating import (
    APPROVAL,
    POINTS_MAX,
    POINTS_MIN,
    Mortal,
    Notes,
    Says,
    agent,
    asking,
    denying,
    dying,
    kinds,
    lives,
    of,
    rewriting,
    told,
)
from tests.unit.runtime.machines import LEASE, Site, calls, delegates, main_agent

DAY = 86_400.0
TELL = OnUnknown.TELL


def approve(site: Site, handle: str = APPROVAL, text: str = texts.APPROVE, id: str = "t") -> None:
    """As `noeta tasks approve` and `deny` do: the first answer counts."""
    site.outsider().say(id, text, message_id="answer", handle=handle)


def site_of(*gates: Any, reply: ModelReply | None = None, tools: tuple[Any, ...] = (), **more: Any) -> Site:
    """A one-shot task ``t`` whose model asks for ``pay`` (unless told otherwise)."""
    return Site(main=agent(*gates, asks=reply or asks("pay"), tools=tools, **more))


# -- before the start --------------------------------------------------------------------------------------


def test_a_gate_is_asked_before_the_start_with_what_would_run() -> None:
    ran: list[Any] = []
    gate = Says({})
    site = site_of(gate, tools=(Notes("pay", ran, retry_safe=True),))
    site.create()

    site.machine().rest()

    (call,) = gate.seen
    assert (call.task_id, call.agent, call.call_id, call.tool, call.input) == ("t", "main", "3-0", "pay", {"n": 0})
    assert call.flags.retry_safe
    assert ran == [("3-0", 1, {"n": 0})]
    assert of(ToolStarted, site) == [ToolStarted("3-0", 1)], "nothing is repeated that nobody changed"


def test_a_denied_call_has_no_start_and_no_effect_and_the_model_reads_why() -> None:
    """Keeps: effect-at-most-once."""
    ran: list[Any] = []
    site = site_of(denying("pay", reason="over the limit"), tools=(Notes("pay", ran),))
    site.create()

    site.machine().rest()

    assert (ran, of(ToolStarted, site)) == ([], [])
    assert of(ToolFinished, site) == [ToolFinished("3-0", "Not done: over the limit", is_error=True, source="denied")]
    assert told(site) == [ToolAnswered("3-0", "Not done: over the limit", is_error=True)]
    assert site.events()[-1] == TaskCompleted("done")


def test_a_gate_that_fails_denies_and_the_task_goes_on() -> None:
    class Broken:
        def decide(self, call: GatedCall) -> Decision:
            raise ZeroDivisionError("planted")

    ran: list[Any] = []
    site = site_of(Broken(), tools=(Notes("pay", ran),))
    site.create()

    site.machine().rest()

    assert ran == []
    assert site.results() == ["Not done: the gate Broken failed: ZeroDivisionError: planted"]
    assert site.events()[-1] == TaskCompleted("done")


def test_a_call_to_no_tool_is_shown_to_no_gate() -> None:
    gate = Says({"pay": Allow({"n": 1})})
    site = site_of(gate)
    site.create()

    site.machine().rest()

    assert gate.seen == []
    assert site.results() == ["There is no tool named 'pay'."]


def test_the_log_holds_what_runs_and_the_model_what_it_asked_for() -> None:
    """Keeps: same-request."""
    ran: list[Any] = []
    model = Model((asks("pay"), says("done")))
    site = site_of(rewriting(pay={"euros": 1}), tools=(Notes("pay", ran),), model=model)
    site.create()

    site.machine().rest()

    assert ran == [("3-0", 1, {"euros": 1})]
    assert of(ToolStarted, site) == [ToolStarted("3-0", 1, {"euros": 1})]
    (reply, _) = of(ModelReplied, site)
    assert reply.calls[0].input == {"n": 0}
    (said,) = [said for said in model.requests[-1].said if isinstance(said, ModelSaid)]
    assert said.calls[0].input == {"n": 0}


def test_a_tool_that_changes_its_input_changes_neither_log_nor_request() -> None:
    """Keeps: same-request."""

    class Pops(Notes):
        def run(self, input: Any, ctx: Any) -> ToolResult:
            input.clear()
            return ToolResult("cleared")

    model = Model((asks("pay"), says("done")))
    site = site_of(tools=(Pops("pay", []),), model=model)
    site.create()

    site.machine().rest()

    (said,) = [said for said in model.requests[-1].said if isinstance(said, ModelSaid)]
    assert said.calls[0].input == {"n": 0}


@pytest.mark.parametrize("decision", [Deny("no"), Ask(), Ask("May it?", {"n": 1})])
def test_more_calls_than_a_commit_holds_are_decided_in_several(decision: Decision) -> None:
    """A model that asks for a thousand calls at once fails nothing. Keeps: bounded."""
    many = COMMIT_PARTS_MAX + 1
    site = site_of(Says({"pay": decision}), reply=asks(*["pay"] * many), tools=(Notes("pay", []),))
    site.create()

    site.machine().loop.tick()

    kind = "ToolFinished" if isinstance(decision, Deny) else "ApprovalAsked"
    seen: list[str] = []
    after = 0
    while page := site.store.read("t", after).entries:
        seen += [type(entry.event).__name__ for entry in page]
        after = page[-1].seq
    assert seen.count(kind) == many
    assert "TurnFailed" not in seen


def test_large_inputs_of_many_calls_are_recorded_in_several_commits() -> None:
    """Keeps: bounded."""
    large = Ask("May it?", "x" * (1 << 20))
    site = site_of(Says({"pay": large}), reply=asks(*["pay"] * 20), tools=(Notes("pay", []),))
    site.create()

    site.machine().loop.tick()

    assert len(of(ApprovalAsked, site)) == 20
    assert site.row().wake_on == HumanResponseReceived(APPROVAL)


# -- recovered calls ---------------------------------------------------------------------------------------


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


# -- approval ----------------------------------------------------------------------------------------------


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


# -- deaths ------------------------------------------------------------------------------------------------


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


def test_what_the_runner_holds_is_what_a_fold_of_the_log_gives() -> None:
    """Through every decision of a gate. Keeps: same-request."""
    gate = Says({"pay": Ask("Pay?", {"to": ("a", "b")}), "drop": Deny("no"), "read": Allow({"n": [1]})})
    tools = tuple(Notes(name, []) for name in ("pay", "drop", "read"))
    site = site_of(gate, reply=asks("pay", "drop", "read", "none"), tools=tools)
    site.create()
    for turn in range(2):
        (claim,) = site.store.claim("w1", None, LEASE).claims
        world = PointWorld()
        held = Held(world, site.store, claim, world.monotonic() + 1e6)
        runner = Runner(lambda state: site.agents["main"], world, site.store, held)
        runner.drive()
        # What is only noted with the last commit is not advanced over: the task rests or has ended.
        folded = fold("t", site.store.read("t").entries[: runner._state.last_seq])
        assert runner._state == replace(folded), turn
        approve(site)
    assert site.row().status is Status.TERMINAL


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
