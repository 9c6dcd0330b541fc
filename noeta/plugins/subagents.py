"""Sub-agents: ordinary tasks, born with the call that asks for them, whose results are its answer.

``Agent`` delegates to one, in the foreground or in the background; ``AgentGroup`` to several at once;
``SubagentHandback`` is how a sub-agent tells its parent something before it has ended.
"""

from __future__ import annotations

from typing import Any, Final

from noeta.core import limits, texts
from noeta.core.errors import BadInput
from noeta.core.store import Post
from noeta.core.tool import ChildAsked, Parked, ToolContext, ToolFlags, ToolOutcome, ToolResult
from noeta.core.wake import HumanResponseReceived
from noeta.plugins import inputs

HANDBACK_KEY: Final = "subtasks:handback:{key}"
"""A repeat of a hand-back is dropped by its key, also long after the first was taken."""


class Agent:
    """Input: ``agent`` (who), ``prompt`` (what is asked of it), ``background``. Implements ``noeta.core.tool.Tool`` and
    ``Recovers``.

    In the foreground the call waits for the result. In the background it is over at once: the sub-agent then belongs
    to the root of the tree, which is told of its end as of a message, and ends with it. A cut-short call delegated
    nothing, because the sub-agent is born in the append of the call's result. Keeps: children-once.
    """

    name = "Agent"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolOutcome:
        """Delegate.

        Raises:
            BadInput.
        """
        given = inputs.fields(input, "agent", "prompt", "background")
        children = (_asked(given),)
        if inputs.flag(given, "background"):
            return ToolResult(texts.CHILD_STARTED.format(call=ctx.call_id), children=children)
        return Parked(children=children)

    def recover(self, input: Any, ctx: ToolContext) -> ToolOutcome:
        return self.run(input, ctx)


class AgentGroup:
    """Input: ``members``, each with ``agent`` and ``prompt``. The call waits for all of them; failed and cancelled ones
    count. Implements ``noeta.core.tool.Tool`` and ``Recovers``. Keeps: children-once.
    """

    name = "AgentGroup"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> Parked:
        """Delegate to all.

        Raises:
            BadInput.
        """
        members = inputs.several(inputs.fields(input, "members"), "members", limits.GROUP_MEMBERS_MAX)
        return Parked(children=tuple(_asked(inputs.fields(member, "agent", "prompt")) for member in members))

    def recover(self, input: Any, ctx: ToolContext) -> Parked:
        return self.run(input, ctx)


class SubagentHandback:
    """Input: a ``report`` for the parent, which gets it as a message. Implements ``noeta.core.tool.Tool`` and
    ``Recovers``.

    The post is committed with the call's result, under a key derived from the call: ``recover`` simply runs again.
    A parent that has ended is told nothing. Keeps: taken-once.
    """

    name = "SubagentHandback"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        """Report.

        Raises:
            BadInput: also of a task that has no parent.
        """
        report = inputs.text(inputs.fields(input, "report"), "report")
        if ctx.parent_task_id is None:
            raise BadInput("report", "this task was not delegated by another one: there is nobody to report to")
        item = HumanResponseReceived(text=texts.HANDBACK.format(child=ctx.task_id, report=report), sender=ctx.task_id)
        post = Post(ctx.parent_task_id, item, HANDBACK_KEY.format(key=ctx.idempotency_key))
        return ToolResult(texts.HANDED_BACK, posts=(post,))

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult:
        return self.run(input, ctx)


def _asked(given: Any) -> ChildAsked:
    return ChildAsked(inputs.text(given, "agent"), inputs.text(given, "prompt"))
