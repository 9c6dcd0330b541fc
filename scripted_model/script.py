"""What a scripted task does, as data: turns of steps, carried as JSON in the task's goal.

A turn is a list of steps of which exactly the last ends it. Steps that repeat (``times``) go on afterwards
when they have a number, and never when it is None: then they reach the runtime's bound and the turn ends
there. A script that could not be foretold (two runs of cut replies that add up, a step behind an ending) is
refused. A call that delegates holds the sub-agents' whole scripts: each travels on in the goal of its task.
"""

from __future__ import annotations

from typing import Final

import msgspec

from noeta.core import codec
from scripted_model.script_check import CHARS_MAX, SECONDS_MAX, SUBTASK_DEPTH_MAX, check
from scripted_model.steps import (
    AGENT,
    ASKS_A_PERSON,
    REWRITES,
    TOOL_OF,
    TOOLS,
    Agent,
    AgentGroup,
    Arguments,
    Asked,
    AwaitEvent,
    BadScript,
    Call,
    Cron,
    Cut,
    Empty,
    Fail,
    Gating,
    Handback,
    Kill,
    Odd,
    Question,
    ReadJob,
    Say,
    Script,
    Shell,
    Step,
    StopCron,
    StopJob,
    Timer,
    Tools,
    ToolSpec,
    Turn,
    asking,
    calls_of,
    children_of,
    ends_turn,
    is_background,
    referred,
    tree_of,
)

__all__ = [
    "AGENT",
    "ASKS_A_PERSON",
    "CHARS_MAX",
    "REWRITES",
    "SECONDS_MAX",
    "SUBTASK_DEPTH_MAX",
    "TOOLS",
    "TOOL_OF",
    "Agent",
    "AgentGroup",
    "Arguments",
    "Asked",
    "AwaitEvent",
    "BadScript",
    "Call",
    "Cron",
    "Cut",
    "Empty",
    "Fail",
    "Gating",
    "Handback",
    "Kill",
    "Odd",
    "Question",
    "ReadJob",
    "Say",
    "Script",
    "Shell",
    "Step",
    "StopCron",
    "StopJob",
    "Timer",
    "ToolSpec",
    "Tools",
    "Turn",
    "asking",
    "calls_of",
    "check",
    "children_of",
    "ends_turn",
    "from_goal",
    "is_background",
    "referred",
    "to_goal",
    "tree_of",
]

_decoder: Final[msgspec.json.Decoder[Script]] = msgspec.json.Decoder(Script)


def to_goal(script: Script) -> str:
    """The script as the task's first message; the same script gives the same bytes.

    Raises:
        BadScript.
    """
    check(script)
    return codec.canonical(script).decode()


def from_goal(goal: str) -> Script:
    """The script in a task's first message.

    Raises:
        BadScript: it is not JSON of a script, or the script breaks a rule.
    """
    try:
        script = _decoder.decode(goal)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadScript(f"the goal holds no script: {error}") from error
    check(script)
    return script
