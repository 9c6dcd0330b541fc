"""An agent that pays, and a gate that asks a person about large sums: for tests of the commands about approvals."""

from __future__ import annotations

from typing import Any

from noeta.core.gates import Allow, Ask, Decision, GatedCall
from noeta.core.model import ModelReply
from noeta.core.runner import Engine
from noeta.plugins import waiting_tools
from tests.actors import Model, says
from tests.unit.commands.shell import Shell
from tests.unit.runtime.gating import Notes, agent
from tests.unit.runtime.machines import calls

APPROVAL = "approval:t:3-0"
APPROVES = ["approve"]
DENIES = ["deny", "--reason", "no"]


class Limit:
    """Implements ``noeta.core.gates.Gate``: a person decides about more than five euros, of which cents are cut."""

    def decide(self, call: GatedCall) -> Decision:
        if call.tool != "pay" or call.input["euros"] <= 5:
            return Allow()
        return Ask(f"Pay {call.input['to']}?", {**call.input, "euros": int(call.input["euros"])})


def pays(ran: list[Any], *euros: float, more: ModelReply | None = None) -> Engine:
    """An agent that pays these sums at once, of which a gate asks about the large ones. ``more``: what it asks for
    then."""
    asked = calls(*[("pay", {"euros": one, "to": "Ada"}) for one in euros or (9.5,)])
    if more is None:
        return agent(Limit(), asks=asked, tools=(Notes("pay", ran),))
    return agent(
        Limit(),
        asks=asked,
        model=Model((asked, more, says("done"))),
        tools=(Notes("pay", ran), *waiting_tools().values()),
    )


def results(shell: Shell, id: str = "t") -> list[tuple[str, str]]:
    log = [one["event"] for one in shell.json("show", id)["log"]]
    return [(one["source"], one["output"]) for one in log if one["type"] == "ToolFinished"]
