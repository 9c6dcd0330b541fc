"""Which scripts can be played and foretold; the others are refused, with the part and the rule."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from noeta.core import limits
from noeta.core.texts import MAX_EMPTY_REPLIES, MAX_TRUNCATED_REPLIES
from scripted_model.background_check import check_background
from scripted_model.steps import (
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
    Handback,
    Kill,
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
    Turn,
    calls_of,
    ends_turn,
    tree_of,
)

CHARS_MAX: Final = 1_000_000
"""Characters of one long text: what a model or a tool may say at once and a body still holds three times over."""

SECONDS_MAX: Final = 3_600.0
"""No script keeps a worker, or waits, for longer than an hour."""

SUBTASK_DEPTH_MAX: Final = 3
"""How deep the scripts may delegate: an engine with another budget bears other children than foretold."""

TURN_WORD: Final = "turn "
"""How a client's message begins that starts a turn: no report, and no cron's prompt, may be taken for one."""


def check(script: Script) -> None:
    """Refuse a script that cannot be played or foretold, or that delegates to one.

    Raises:
        BadScript: names the turn, the step and the rule.
    """
    _check_own(script)
    check_background(script, "", is_child=False)
    tree = list(tree_of(script))
    for child in tree[1:]:
        _check_child(child)
    _check_unique("tags", [call.arguments.tag for one in tree for _, call in calls_of(one)], "name one call each")
    _check_unique("names of tasks", [one.task for one in tree], "name one script each")
    _check_unique("event kinds", _event_kinds(tree), "are waited for once each")


def _check_child(script: Script) -> None:
    """The rules for one sub-agent's script, beside those below it.

    Raises:
        BadScript.
    """
    where = f"sub-agent {script.task}"
    if script.interactive:
        raise BadScript(f"{where}: nobody talks to a sub-agent, so it is not interactive")
    _check_own(script, f"{where}, ")
    check_background(script, f"{where}, ", is_child=True)
    if any(isinstance(step, Kill) for turn in script.turns for step in turn.steps):
        raise BadScript(f"{where}: a model call that kills names its task in the journal, a sub-agent's has no id yet")
    for _, call in calls_of(script):
        if isinstance(call.asked, AwaitEvent) and call.asked.timeout_seconds is None:
            raise BadScript(f"{where}: nobody can send it an event, so its wait needs timeout_seconds")


def _event_kinds(tree: Iterable[Script]) -> list[str]:
    asked = (call.asked for script in tree for _, call in calls_of(script))
    return [one.event_kind for one in asked if isinstance(one, AwaitEvent)]


def _check_own(script: Script, where: str = "") -> None:
    if not script.turns:
        raise BadScript(f"{where}a script has at least one turn")
    if not script.interactive and len(script.turns) != 1:
        raise BadScript(f"{where}a one-shot task has one turn, found {len(script.turns)}")
    _check_number(f"{where}think_seconds", script.think_seconds, SECONDS_MAX)
    for number, turn in enumerate(script.turns, 1):
        _check_turn(f"{where}turn {number}", turn)


def _check_unique(what: str, names: list[str], rule: str) -> None:
    for name, count in Counter(names).items():
        if not name or count > 1:
            raise BadScript(f"{what} are not empty and {rule}, found {name!r}")


def _check_turn(where: str, turn: Turn) -> None:
    endings = [index for index, step in enumerate(turn.steps) if ends_turn(step)]
    if endings != [len(turn.steps) - 1]:
        raise BadScript(f"{where}: exactly the last step ends it, found endings at {endings}")
    streak = False
    for index, step in enumerate(turn.steps):
        _check_step(f"{where}, step {index}", step)
        if isinstance(step, Fail) and index > 0 and isinstance(turn.steps[index - 1], Fail):
            raise BadScript(f"{where}, step {index}: failures of one model call stand in one step")
        if isinstance(step, Cut | Empty):
            if streak:
                raise BadScript(f"{where}, step {index}: a tools step stands between two runs of cut or empty replies")
            streak = True
        elif isinstance(step, Tools):
            streak = False


def _check_step(where: str, step: Step) -> None:
    match step:
        case Tools(calls=calls):
            if not calls:
                raise BadScript(f"{where}: at least one call")
            for call in calls:
                _check_call(where, call)
        case Say(chars=chars):
            _check_number(f"{where}, chars", chars, CHARS_MAX)
        case Fail(times=times, retryable=retryable):
            if times is not None and (times < 1 or not retryable):
                raise BadScript(f"{where}: at least one failure, and retryable if the call goes on, found {step}")
        case Cut(times=times):
            _check_times(where, times, MAX_TRUNCATED_REPLIES)
        case Empty(times=times):
            _check_times(where, times, MAX_EMPTY_REPLIES)
        case Kill():
            pass


def _check_times(where: str, times: int | None, bound: int) -> None:
    if times is not None and not 1 <= times < bound:
        raise BadScript(f"{where}: from 1 to {bound - 1} times, or null to reach the bound, found {times}")


def _check_call(where: str, call: Call) -> None:
    if call.asked is not None:
        _check_asking(where, call, call.asked)
        return
    spec = TOOLS.get(call.tool)
    arguments = call.arguments
    if spec is None:
        raise BadScript(f"{where}: there is no tool {call.tool!r}; there are {', '.join(TOOLS)}")
    _check_number(f"{where}, seconds", arguments.seconds, SECONDS_MAX)
    _check_number(f"{where}, chars", arguments.chars, CHARS_MAX)
    if arguments.seconds and not spec.waits:
        raise BadScript(f"{where}: {call.tool} does not wait")
    if spec.dies != (arguments.dies_through_start >= 1):
        raise BadScript(f"{where}: killers, and only they, die through a start of at least 1")
    if arguments.text is not None:
        raise BadScript(f"{where}: the model adds the text, a script names its kind in odd")


def _check_asking(where: str, call: Call, asked: Asked) -> None:
    tool = TOOL_OF[type(asked)]
    if call.tool != tool:
        raise BadScript(f"{where}: what is asked is asked of {tool}, not of {call.tool!r}")
    if call.arguments != Arguments(call.arguments.tag):
        raise BadScript(f"{where}: a call of {tool} has no arguments but its tag")
    match asked:
        case Agent():
            pass
        case AgentGroup(children=children):
            if not 1 <= len(children) <= limits.GROUP_MEMBERS_MAX:
                raise BadScript(f"{where}: a group has 1 to {limits.GROUP_MEMBERS_MAX} members, found {len(children)}")
        case Handback(report=report):
            if not report or report.startswith(TURN_WORD):
                raise BadScript(f"{where}: a report is not empty and starts no turn, found {report!r}")
        case Timer(seconds=seconds):
            _check_span(f"{where}, seconds", seconds)
        case Question(question=question, timeout_seconds=limit):
            if not question:
                raise BadScript(f"{where}: a question is not empty")
            _check_span(f"{where}, timeout_seconds", limit)
        case AwaitEvent(event_kind=kind, timeout_seconds=limit):
            if len(kind) > limits.NAME_CHARS_MAX:
                raise BadScript(f"{where}: an event kind has at most {limits.NAME_CHARS_MAX} characters")
            _check_span(f"{where}, timeout_seconds", limit)
        case Shell(every_seconds=seconds):
            _check_span(f"{where}, every_seconds", seconds)
        case Cron(prompt=prompt):
            if not prompt or prompt.startswith(TURN_WORD):
                raise BadScript(f"{where}: a prompt is not empty and starts no turn, found {prompt!r}")
        case ReadJob() | StopJob() | StopCron():
            pass


def _check_span(where: str, seconds: float | None) -> None:
    if seconds is not None:
        _check_number(where, seconds, SECONDS_MAX)
        if not seconds:
            raise BadScript(f"{where}: above 0, found 0")


def _check_number(where: str, value: float, value_max: float) -> None:
    if not math.isfinite(value) or not 0 <= value <= value_max:
        raise BadScript(f"{where}: from 0 to {value_max:g}, found {value}")
