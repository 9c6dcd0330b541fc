"""``AskUser``: a question to a person. The answer may come days later, on another machine."""

from __future__ import annotations

from typing import Any, Final

from noeta.core.tool import Parked, ToolContext, ToolFlags
from noeta.core.wake import HumanResponseReceived
from noeta.plugins import inputs

HANDLE: Final = "question:{task}:{call}"


class AskUser:
    """Input: the ``question``, and ``timeout_seconds`` if the task shall not wait for ever. Implements
    ``noeta.core.tool.Tool`` and ``Recovers``.

    The handle under which an answer is posted follows from the call (`question_handle`); it stands in the log and in
    the waiting row. The question is the input of the call.
    """

    name = "AskUser"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> Parked:
        """Rest until the answer is there.

        Raises:
            BadInput.
        """
        given = inputs.fields(input, "question", "timeout_seconds")
        inputs.text(given, "question")
        timeout = inputs.span(given, "timeout_seconds")
        return Parked(
            HumanResponseReceived(
                question_handle(ctx.task_id, ctx.call_id),
                timeout_at=None if timeout is None else ctx.started_at + timeout,
            )
        )

    def recover(self, input: Any, ctx: ToolContext) -> Parked:
        return self.run(input, ctx)


def question_handle(task: str, call: str) -> str:
    """The handle of the question that this call asks: the same on every worker."""
    return HANDLE.format(task=task, call=call)
