"""Gates: who may let a tool call start, change what it runs with, refuse it, or ask a person first.

They are asked once, before the first start of a call, in order; each sees the input that the one before it left. What
the log records is what runs. A call that was started is not gated again when it is recovered: it was allowed when it
ran. Only the park flow (`OnUnknown.PARK`) asks again, before it starts anything a second time by itself.
A gate that fails, answers nonsense or rewrites to what no log can keep denies the call: running it ungated would be
worse. Not handled: a gate that does not return; it holds the step, as a tool would.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from msgspec import UNSET, UnsetType

from noeta.core import codec, limits, texts
from noeta.core.events import ToolStarted
from noeta.core.tool import ToolFlags

_log = logging.getLogger("noeta.runner")

HANDLE: Final = "approval:{task}:{call}"
QUESTION: Final = "May {tool} run?"

QUESTION_BYTES_MAX: Final = 8 * 1024
"""What is kept of a question, encoded: its entry holds the input, too. The rest is cut, and the question says so."""


@dataclass(frozen=True, slots=True)
class GatedCall:
    """A call that is about to start. ``input``: what it would run with by now; a copy, so that changing it changes
    nothing: another input is returned."""

    task_id: str
    agent: str
    call_id: str
    tool: str
    input: Any
    flags: ToolFlags


@dataclass(frozen=True, slots=True)
class Allow:
    """It may start, with another ``input`` if one is given."""

    input: Any | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Deny:
    """It does not start; the model is told the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides; the call waits, at no cost, as long as that takes. With another ``input`` if one is given."""

    question: str = ""
    input: Any | UnsetType = UNSET


Decision = Allow | Deny | Ask


class Gate(Protocol):
    """Part of an agent's instructions: the same call gets the same decision on every worker."""

    def decide(self, call: GatedCall) -> Decision: ...


def decide(gates: Sequence[Gate], call: GatedCall) -> Decision:
    """What all of them together say: the first refusal counts, then the first question, then the last input, if it is
    another one."""
    asked: Ask | None = None
    given = codec.canonical(call.input)
    rewritten: Any | UnsetType = UNSET
    for gate in gates:
        decision = _decision(gate, replace(call, input=copy.deepcopy(call.input)))
        if isinstance(decision, Deny):
            return decision
        if isinstance(decision, Ask):
            asked = asked or decision
        if decision.input is not UNSET:
            rewritten = decision.input
            call = replace(call, input=rewritten)
    if rewritten is not UNSET and codec.canonical(rewritten) == given:
        rewritten = UNSET
    if asked is not None:
        return Ask(asked.question or QUESTION.format(tool=call.tool), rewritten)
    return Allow(rewritten)


def _decision(gate: Gate, call: GatedCall) -> Decision:
    """What one of them says, as it can be kept."""
    try:
        decision: object = gate.decide(call)
    except Exception as error:
        _log.warning("the gate %s failed for %s", _name(gate), call.tool, exc_info=True)
        return Deny(f"the gate {_name(gate)} failed: {type(error).__name__}: {error}")
    match decision:
        case Deny(reason=str()):
            return decision
        case Allow(input=input):
            kept = _kept(gate, call, input)
            return kept if isinstance(kept, Deny) else Allow(kept)
        case Ask(question=str(question), input=input):
            kept = _kept(gate, call, input)
            text = codec.cut(codec.escape_text(question), QUESTION_BYTES_MAX, texts.QUESTION_CUT)
            return kept if isinstance(kept, Deny) else Ask(text, kept)
        case _:
            _log.warning("the gate %s answered nonsense for %s: %.200r", _name(gate), call.tool, decision)
            return Deny(f"the gate {_name(gate)} answered neither Allow nor Deny nor Ask, with texts in them")


def _kept(gate: Gate, call: GatedCall, input: Any | UnsetType) -> Any | UnsetType | Deny:
    """The input as every later reader of the log gets it: whoever runs the call runs it with the same value."""
    if input is UNSET:
        return UNSET
    try:
        body = codec.encode("input", ToolStarted(call.call_id, 1, input), bytes_max=limits.ITEM_BYTES_MAX)
        event = codec.decode_event(body)
    except Exception as error:
        return Deny(f"the gate {_name(gate)} rewrote the call to what cannot be kept: {error}")
    assert isinstance(event, ToolStarted), event
    return event.input


def approval_handle(task: str, call: str) -> str:
    """Under which a person's decision about this call is posted: the same on every worker."""
    return HANDLE.format(task=task, call=call)


def is_approval(task: str, handle: str) -> bool:
    """Whether an answer under this handle is one to a gate of this task."""
    return handle.startswith(approval_handle(task, ""))


def _name(gate: Gate) -> str:
    return type(gate).__name__
