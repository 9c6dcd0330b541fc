"""``WaitForEvent``: the task rests until something happens outside."""

from __future__ import annotations

from typing import Any

from noeta.core import limits
from noeta.core.ids import check_name
from noeta.core.tool import Parked, ToolContext, ToolFlags
from noeta.core.wake import ExternalEvent
from noeta.plugins import inputs


class WaitForEvent:
    """Input: the ``event_kind``, and ``timeout_seconds`` if the task shall not wait for ever. Implements
    ``noeta.core.tool.Tool`` and ``Recovers``.

    An event that was posted before the call is not lost: it ends the wait at once. The result is the event's payload as
    JSON, ``null`` if it has none; a timeout is an error result. Keeps: wake-once.
    """

    name = "WaitForEvent"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> Parked:
        """Rest until the event is there.

        Raises:
            BadInput.
        """
        given = inputs.fields(input, "event_kind", "timeout_seconds")
        kind = check_name("event_kind", inputs.text(given, "event_kind"), chars_max=limits.NAME_CHARS_MAX)
        timeout = inputs.span(given, "timeout_seconds")
        return Parked(ExternalEvent(kind, timeout_at=None if timeout is None else ctx.started_at + timeout))

    def recover(self, input: Any, ctx: ToolContext) -> Parked:
        return self.run(input, ctx)
