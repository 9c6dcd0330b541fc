"""``CronCreate``, ``CronDelete``, ``CronList``: a task that rests between turns is woken by its cron table.

Each only names what it wants; the runner records it with the call's result, so that after a crash it simply runs again.
"""

from __future__ import annotations

from typing import Any, Final

from noeta.core import codec, cron
from noeta.core.errors import BadInput
from noeta.core.limits import CRON_PROMPT_BYTES_MAX, CRONS_MAX
from noeta.core.tool import CronAsked, CronState, ToolContext, ToolFlags, ToolResult
from noeta.plugins import inputs

PROMPT_CHARS_LISTED: Final = 80
"""How much of a prompt ``CronList`` shows: enough to tell entries apart, and a full table fits one screen."""

CREATED: Final = "Cron {cron} is set: {expression} in {zone}. It fires next at {next}."
DELETED: Final = "Cron {cron} is removed: {expression} in {zone}."
LISTED: Final = "{cron}: {expression} in {zone}, next at {next}: {prompt}"
NONE: Final = "There are no crons."
NEVER: Final = "never"
UNREADABLE: Final = "an instant that this worker cannot tell ({problem})"


class CronCreate:
    """Input: ``expression`` (five fields), ``zone`` (an IANA name, ``UTC`` if it is not there) and the ``prompt`` that
    begins a turn each time. Implements ``noeta.core.tool.Tool`` and ``Recovers``. The id of the cron is the call's.
    """

    name = "CronCreate"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Ask for an entry of the table.

        Raises:
            BadInput: also of a task that never rests between turns, and of a table that is full.
        """
        given = inputs.fields(input, "expression", "zone", "prompt")
        _check_rests(ctx)
        prompt = inputs.text(given, "prompt")
        codec.check("prompt", prompt, bytes_max=CRON_PROMPT_BYTES_MAX)
        table = cron.parse(inputs.text(given, "expression"), inputs.text(given, "zone", default="UTC"))
        first = cron.next_after(table, ctx.started_at)
        if first is None:
            raise BadInput("expression", f"must name a time that comes again, found {table.expression!r}")
        told = CREATED.format(
            cron=ctx.call_id, expression=table.expression, zone=table.zone, next=cron.local_text(table, first)
        )
        return ToolResult(told, crons=(CronAsked(table.expression, table.zone, prompt),))

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult:
        return self.run(input, ctx)


class CronDelete:
    """Input: the id of a ``cron`` of this task. Implements ``noeta.core.tool.Tool`` and ``Recovers``.

    A repeat after a crash finds the entry still there: it goes with the call's result.
    """

    name = "CronDelete"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Ask for the entry to be taken away.

        Raises:
            BadInput: also of an id that is not there.
        """
        cron_id = inputs.text(inputs.fields(input, "cron"), "cron")
        state = ctx.crons.get(cron_id)
        if state is None:
            there = f"there are {', '.join(ctx.crons)}" if ctx.crons else "there are none"
            raise BadInput("cron", f"no such cron in this task; {there}, found {cron_id!r:.200}")
        told = DELETED.format(cron=cron_id, expression=state.expression, zone=state.zone)
        return ToolResult(told, crons_removed=(cron_id,))

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult:
        return self.run(input, ctx)


class CronList:
    """Input: ``{}``. Tells the entries in the order in which they were made. Implements ``noeta.core.tool.Tool`` and
    ``Recovers``."""

    name = "CronList"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """List them.

        Raises:
            BadInput.
        """
        if input != {}:
            raise BadInput("input", f"expected an object without fields, found {input!r:.200}")
        lines = [_line(cron_id, state, ctx.started_at) for cron_id, state in ctx.crons.items()]
        return ToolResult("\n".join(lines) or NONE)

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult:
        return self.run(input, ctx)


def _check_rests(ctx: ToolContext) -> None:
    """Only a task that rests between turns is woken by a cron, and has room for one more."""
    if ctx.parent_task_id is not None:
        raise BadInput(
            "expression",
            f"a cron wakes only a task that rests between turns; this one was delegated by {ctx.parent_task_id!r}, "
            "which waits for its result: rest with ScheduleWakeup, or leave the cron to the one who delegated",
        )
    if not ctx.interactive:
        raise BadInput(
            "expression",
            "a cron wakes only a task that rests between turns; this one ends with its turn, because it was not made "
            "interactive: rest with ScheduleWakeup instead",
        )
    if len(ctx.crons) >= CRONS_MAX:
        raise BadInput("expression", f"at most {CRONS_MAX} crons of a task, found {len(ctx.crons)}: delete one first")


def _line(cron_id: str, state: CronState, after: float) -> str:
    prompt = " ".join(state.prompt.split())
    if len(prompt) > PROMPT_CHARS_LISTED:
        prompt = prompt[: PROMPT_CHARS_LISTED - 1] + "…"
    return LISTED.format(
        cron=cron_id, expression=state.expression, zone=state.zone, next=_next(state, after), prompt=prompt
    )


def _next(state: CronState, after: float) -> str:
    try:
        table = cron.parse(state.expression, state.zone)
    except BadInput as error:  # a worker with newer zones made it
        return UNREADABLE.format(problem=error)
    at = cron.next_after(table, after)
    return NEVER if at is None else cron.local_text(table, at)
