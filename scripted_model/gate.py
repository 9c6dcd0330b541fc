"""The gate of scripted agents: what a call's own arguments say becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noeta.core.gates import Allow, Ask, Decision, Deny, GatedCall
from scripted_model.script import ASKS_A_PERSON, REWRITES, TOOLS

DENIED: Final = "the script says so"
QUESTION: Final = "May {tool} {tag} run?"


class ScriptedGate:
    """Implements ``noeta.core.gates.Gate``: the same decision on every worker, from the call alone."""

    def decide(self, call: GatedCall) -> Decision:
        """As ``Arguments.gate`` says; calls to other tools may start."""
        given = call.input if call.tool in TOOLS and isinstance(call.input, dict) else {}
        gate = given.get("gate")
        if gate == "deny":
            return Deny(DENIED)
        if gate in ASKS_A_PERSON:
            question = QUESTION.format(tool=call.tool, tag=given.get("tag"))
            return Ask(question, _rewritten(given)) if gate in REWRITES else Ask(question)
        return Allow(_rewritten(given)) if gate in REWRITES else Allow()


def _rewritten(given: Mapping[str, Any]) -> dict[str, Any]:
    return {**given, "rewritten": True}
