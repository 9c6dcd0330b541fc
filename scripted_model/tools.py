"""The tools of scripted models: each has one effect, a line in the journal, and some trouble around it.

The course of every tool is the same — wait, die, point, journal, point, die, fail, answer — and its line in
``script.TOOLS`` says which of these it does. Outputs depend on the input alone, so that a call looked up by
``recover`` answers what its run would have answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from noeta.core.codec import escape_text
from noeta.core.tool import StepCancelled, ToolContext, ToolFlags, ToolResult
from scripted_model.dying import Die, die_for_certain, kill_own_process
from scripted_model.journal import Journal, token_of
from scripted_model.script import REWRITES, TOOLS, Arguments, ToolSpec
from scripted_model.words import ODD_TEXTS, stretched, with_odd


class ScriptedFailure(Exception):
    """What ``failing`` raises, after its effect."""


class InputDamaged(Exception):
    """The input is not what the model wrote, or not what the gate made of it; raised before any effect."""


@dataclass(frozen=True, slots=True)
class ScriptedTool:
    """Implements ``noeta.core.tool.Tool``."""

    name: str
    spec: ToolSpec
    journal: Journal
    die: Die = kill_own_process

    @property
    def flags(self) -> ToolFlags:
        """As the tool's line in ``script.TOOLS`` says."""
        return ToolFlags(retry_safe=self.spec.retry_safe)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Have the effect once for this start.

        Raises:
            ScriptedFailure: it is ``failing``; the effect is had.
            InputDamaged: no effect is had.
            StepCancelled: the step was cancelled while it waited; no effect is had.
        """
        arguments = read_input(input)
        if self.spec.waits and ctx.wait(arguments.seconds):
            raise StepCancelled(f"{self.name} {arguments.tag} was stopped while it waited, before any effect")
        dies = self.spec.dies and ctx.start <= arguments.dies_through_start
        if dies and arguments.dies == "before":
            self._die(ctx)
        token = token_of(ctx.task_id, ctx.call_id, ctx.start)
        ctx.point("tool.before_journal", tool=self.name, token=token)
        self.journal.effect(task=ctx.task_id, call=ctx.call_id, tool=self.name, tag=arguments.tag, start=ctx.start)
        ctx.point("tool.after_journal", tool=self.name, token=token)
        if dies:
            self._die(ctx)
        if self.spec.fails:
            raise ScriptedFailure(f"{self.name} {arguments.tag} fails as scripted")
        return ToolResult(output_of(self.name, arguments))

    def _die(self, ctx: ToolContext) -> None:
        self.journal.death(task=ctx.task_id, call=ctx.call_id, start=ctx.start)
        die_for_certain(self.die)


@dataclass(frozen=True, slots=True)
class RecoverableTool(ScriptedTool):
    """Implements ``noeta.core.tool.Recovers`` too: its journal tells what an interrupted call did."""

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult | None:
        """The result of a call whose effect is in the journal, whichever worker and start had it; else None."""
        if self.journal.find(ctx.task_id, ctx.call_id) is None:
            return None
        return ToolResult(output_of(self.name, read_input(input)))


def make_tools(journal: Journal, *, die: Die = kill_own_process) -> tuple[ScriptedTool, ...]:
    """Every tool of ``script.TOOLS``, in its order, writing to this worker's journal."""
    return tuple(
        (RecoverableTool if spec.recovers else ScriptedTool)(name, spec, journal, die) for name, spec in TOOLS.items()
    )


def read_input(input: Any) -> Arguments:
    """The arguments in a call's input.

    Raises:
        InputDamaged: it is not what the model wrote, with lone surrogates made visible.
    """
    try:
        arguments = msgspec.convert(input, Arguments)
    except msgspec.ValidationError as error:
        raise InputDamaged(f"the input holds no arguments: {error}") from error
    expected = None if arguments.odd is None else escape_text(ODD_TEXTS[arguments.odd])
    if arguments.text != expected:
        raise InputDamaged(f"{arguments.tag}: expected the text {expected!r}, found {arguments.text!r}")
    if arguments.rewritten != (arguments.gate in REWRITES):
        raise InputDamaged(f"{arguments.tag}: the gate says {arguments.gate!r}, found rewritten: {arguments.rewritten}")
    return arguments


def output_of(tool: str, arguments: Arguments) -> str:
    """What a call answers; odd texts are not escaped here: that is the runtime's edge."""
    done = f"{tool} {arguments.tag} done" + (", as the gate rewrote it" if arguments.rewritten else "")
    return stretched(with_odd(done, arguments.odd), arguments.chars)
