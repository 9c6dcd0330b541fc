"""Tools that come with noeta: what an agent delegates, waits for and asks. Each names what it wants as data, and the
runner commits it with the call; none does anything by itself, so that each simply runs again after a crash.
"""

from noeta.plugins.external import WaitForEvent
from noeta.plugins.questions import AskUser
from noeta.plugins.schedule import ScheduleWakeup
from noeta.plugins.subagents import Agent, AgentGroup, SubagentHandback

__all__ = ["Agent", "AgentGroup", "AskUser", "ScheduleWakeup", "SubagentHandback", "WaitForEvent", "waiting_tools"]


def waiting_tools() -> dict[str, Agent | AgentGroup | SubagentHandback | ScheduleWakeup | AskUser | WaitForEvent]:
    """All of them by name, as an ``Engine`` takes its tools."""
    tools = (Agent(), AgentGroup(), SubagentHandback(), ScheduleWakeup(), AskUser(), WaitForEvent())
    return {tool.name: tool for tool in tools}
