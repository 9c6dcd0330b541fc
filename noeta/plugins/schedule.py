"""``ScheduleWakeup``: the task rests until a timer fires, however long that takes, and costs nothing meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noeta.core.errors import BadInput
from noeta.core.tool import Parked, ToolContext, ToolFlags
from noeta.core.wake import TimerFired
from noeta.plugins import inputs


class ScheduleWakeup:
    """Input: ``delay_seconds`` (from the start of the call, by the store's clock), or ``at`` (a date and time with its
    offset from UTC); and a ``reason``, for whoever reads the log. Implements ``noeta.core.tool.Tool`` and ``Recovers``.

    The instant follows from the log alone, so that the call asks for the same timer whoever runs it again.
    Keeps: timers-once.
    """

    name = "ScheduleWakeup"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> Parked:
        """Rest until then.

        Raises:
            BadInput: neither or both are given, or one is out of its bounds.
        """
        given = inputs.fields(input, "delay_seconds", "at", "reason")
        inputs.text(given, "reason", default="")
        return Parked(TimerFired(fire_at(given, ctx.started_at)))

    def recover(self, input: Any, ctx: ToolContext) -> Parked:
        return self.run(input, ctx)


def fire_at(given: Mapping[str, Any], started_at: float) -> float:
    """When the timer is due, in seconds since the epoch."""
    delay, at = inputs.span(given, "delay_seconds"), inputs.instant(given, "at")
    if (delay is None) == (at is None):
        raise BadInput("delay_seconds", "give it or at, and not both")
    if at is not None:
        return at
    assert delay is not None
    return started_at + delay
