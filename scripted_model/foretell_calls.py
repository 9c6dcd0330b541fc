"""How each call of a script ends if nothing but the script kills workers, and what it leaves in the background."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.background_check import may_end_unknown
from scripted_model.foretold import ForetoldCall, ForetoldCron, ForetoldJob
from scripted_model.script import (
    ASKS_A_PERSON,
    TOOLS,
    Agent,
    AgentGroup,
    Asked,
    AwaitEvent,
    Call,
    Cron,
    Empty,
    Handback,
    Question,
    ReadJob,
    Say,
    Script,
    Shell,
    StopCron,
    StopJob,
    Timer,
    calls_of,
    children_of,
    referred,
)
from scripted_model.workload import ScheduledMessage


def foretell_call(
    turn: int, call: Call, own: Sequence[ScheduledMessage], *, may_delegate: bool, parks: bool
) -> ForetoldCall:
    """How this call ends. ``own``: what is said to its task. ``parks``: whether a person says how to go on after a call
    whose outcome nobody can tell."""
    if call.asked is not None:
        return _asking(turn, call, call.asked, own, may_delegate=may_delegate)
    spec, arguments = TOOLS[call.tool], call.arguments
    tag, tool, through = arguments.tag, call.tool, arguments.dies_through_start
    if arguments.gate in ("deny", "refuse"):
        return ForetoldCall(tag, tool, turn, "denied", is_error=True, starts=0)
    if not spec.dies:
        return ForetoldCall(tag, tool, turn, "ran", is_error=spec.fails, starts=1)
    if parks and spec.retry_safe and arguments.gate in ASKS_A_PERSON:
        # Whoever goes on would start it again, which a person was asked for: so a person is asked how to go on.
        return ForetoldCall(tag, tool, turn, "parked", is_error=True, starts=1)
    if may_end_unknown(call):
        starts = MAX_ATTEMPTS if spec.retry_safe else 1
        return ForetoldCall(tag, tool, turn, "parked" if parks else "unknown", is_error=True, starts=starts)
    if spec.recovers:
        return ForetoldCall(tag, tool, turn, "recovered", is_error=False, starts=1)
    return ForetoldCall(tag, tool, turn, "ran", is_error=False, starts=through + 1)


def jobs_of(script: Script) -> Iterator[ForetoldJob]:
    """The background shells of the task itself, in order."""
    stopped = {referred(call.asked) for _, call in calls_of(script) if isinstance(call.asked, StopJob)}
    for turn, call in calls_of(script):
        if isinstance(call.asked, Shell):
            shell = call.asked
            exit_code = None if shell.lines is None else shell.exit_code
            tag = call.arguments.tag
            yield ForetoldJob(tag, turn, shell.lines, exit_code, tag in stopped)


def crons_of(script: Script) -> Iterator[ForetoldCron]:
    """The entries that the task itself makes in its cron table, in order."""
    removed = {referred(call.asked) for _, call in calls_of(script) if isinstance(call.asked, StopCron)}
    for turn, call in calls_of(script):
        if isinstance(call.asked, Cron):
            asked, tag = call.asked, call.arguments.tag
            yield ForetoldCron(tag, turn, asked.expression, asked.zone, tag in removed)


def _asking(
    turn: int, call: Call, asked: Asked, own: Sequence[ScheduledMessage], *, may_delegate: bool
) -> ForetoldCall:
    def told(source: Literal["ran", "woken"], *, is_error: bool | None) -> ForetoldCall:
        return ForetoldCall(call.arguments.tag, call.tool, turn, source, is_error=is_error, starts=1)

    match asked:
        case Agent() | AgentGroup() if not may_delegate:
            return told("ran", is_error=True)
        case Agent(background=True) | Handback() | Shell() | Cron() | StopCron():
            return told("ran", is_error=False)
        case Agent() | AgentGroup():
            return told("woken", is_error=all(_fails(child) for child in children_of(call)))
        case ReadJob() | StopJob():
            return told("ran", is_error=None)  # it may have ended before, and been told
        case Timer() | Question(timeout_seconds=None) | AwaitEvent(timeout_seconds=None):
            return told("woken", is_error=False)
        case Question():
            return told("woken", is_error=None if any(m.kind == "answer" for m in own) else True)
        case AwaitEvent(event_kind=kind):
            return told("woken", is_error=None if any(m.event_kind == kind for m in own) else True)


def _fails(child: Script) -> bool:
    """Whether a sub-agent ends failed: as its only turn does."""
    return not isinstance(child.turns[0].steps[-1], Say | Empty)
