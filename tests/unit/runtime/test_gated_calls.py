"""Gates decide before a call is started, once: what they allow, deny and rewrite, and what of it the log and the model
see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noeta.core.events import ApprovalAsked, ModelReplied, TaskCompleted, ToolFinished, ToolStarted
from noeta.core.fold import fold
from noeta.core.gates import Allow, Ask, Decision, Deny, GatedCall
from noeta.core.limits import COMMIT_PARTS_MAX
from noeta.core.model import ModelSaid, ToolAnswered
from noeta.core.runner import Held, Runner
from noeta.core.task import Status
from noeta.core.tool import ToolResult
from noeta.core.wake import HumanResponseReceived
from tests.actors import Model, PointWorld, asks, says
from tests.unit.runtime.gating import APPROVAL, Notes, Says, approve, denying, of, rewriting, site_of, told
from tests.unit.runtime.machines import LEASE


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
