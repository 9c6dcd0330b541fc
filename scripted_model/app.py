"""The engine that plays scripts: agent, instructions, provider and tools of one worker process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from noeta.core.fold import TaskState
from noeta.core.model import UserSaid
from noeta.core.retry import RetryPolicy
from noeta.core.runner.engine import Engine
from noeta.core.tool import OnUnknown, Tool
from scripted_model.dying import Die, kill_own_process
from scripted_model.gate import ScriptedGate
from scripted_model.journal import Journal
from scripted_model.provider import ScriptedProvider
from scripted_model.script import SUBTASK_DEPTH_MAX, BadScript, from_goal
from scripted_model.tools import make_tools
from scripted_model.workload import AGENT

SYSTEM: Final = "Play the script in the first message."
"""The agent's instructions; part of every request, so the same on every worker."""


def make_engine(
    journal: Journal,
    *,
    retry: RetryPolicy,
    die: Die = kill_own_process,
    pause: Callable[[float], object] = time.sleep,
    more_tools: Iterable[Tool] = (),
    max_subtask_depth: int | None = SUBTASK_DEPTH_MAX,
) -> Engine:
    """The engine of one worker process.

    ``journal`` is this process's own. ``retry`` allows as many attempts as the workload's ``retry_attempts``, or turns
    end otherwise than foretold; its delays are the run's choice. ``die`` ends the process and does not return.
    ``pause`` blocks for a number of seconds while the model thinks. The simulator replaces both. ``more_tools``: the
    caller's, by the names in ``script.TOOL_OF``: scripts that call them play on the real ones.
    ``max_subtask_depth``: another than the scripts were written for must be told to ``foretell``, too.
    """
    tools = {tool.name: tool for tool in (*make_tools(journal, die=die), *more_tools)}
    provider = ScriptedProvider(die, pause, journal)
    gates = (ScriptedGate(),)
    return Engine(provider, AGENT, SYSTEM, tools, retry, gates, max_subtask_depth=max_subtask_depth)


def engine_for(task: TaskState, engine: Engine) -> Engine:
    """The engine as this task's script wants it: who says how to go on after a call whose outcome nobody can tell."""
    parks = False
    if task.said and isinstance(task.said[0], UserSaid):
        try:
            parks = from_goal(task.said[0].text).parks
        except BadScript:
            pass  # the provider refuses it
    return replace(engine, on_unknown=OnUnknown.PARK if parks else OnUnknown.TELL)
