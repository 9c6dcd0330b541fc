"""Tools that come with noeta: what an agent delegates, waits for, asks, runs and is woken by.

Those of ``waiting_tools`` and ``cron_tools`` name what they want as data, and the runner commits it with the call; none
does anything by itself, so that each simply runs again after a crash. Those of ``shell_tools`` run commands.
"""

from noeta.core.tool import Tool
from noeta.plugins.cron import CronCreate, CronDelete, CronList
from noeta.plugins.external import WaitForEvent
from noeta.plugins.questions import AskUser
from noeta.plugins.schedule import ScheduleWakeup
from noeta.plugins.shell import Bash, BashOutput, KillBash, shell_tools
from noeta.plugins.subagents import Agent, AgentGroup, SubagentHandback

__all__ = [
    "Agent",
    "AgentGroup",
    "AskUser",
    "Bash",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "KillBash",
    "ScheduleWakeup",
    "SubagentHandback",
    "WaitForEvent",
    "cron_tools",
    "shell_tools",
    "waiting_tools",
]


def waiting_tools() -> dict[str, Agent | AgentGroup | SubagentHandback | ScheduleWakeup | AskUser | WaitForEvent]:
    """What an agent delegates and waits for, by name, as an ``Engine`` takes its tools."""
    tools = (Agent(), AgentGroup(), SubagentHandback(), ScheduleWakeup(), AskUser(), WaitForEvent())
    return {tool.name: tool for tool in tools}


def cron_tools() -> dict[str, Tool]:
    """A table that wakes the task, by name."""
    tools: tuple[Tool, ...] = (CronCreate(), CronDelete(), CronList())
    return {tool.name: tool for tool in tools}
