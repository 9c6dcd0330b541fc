"""Which scripts with background shells, cron tables, gates and parks can be played and foretold.

The rules follow from how a play ends: nothing may run, fire or wait for ever once everybody has said what there is to
say, and no call may be left out because another one of its reply is for a person to decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noeta.core import cron
from noeta.core.errors import BadInput
from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.steps import (
    ASKS_A_PERSON,
    TOOLS,
    Asked,
    AwaitEvent,
    BadScript,
    Call,
    Cron,
    Question,
    Script,
    Shell,
    StopCron,
    StopJob,
    Tools,
    calls_of,
    referred,
)

LINES_MAX: Final = 10_000
"""Lines that a shell writes before it ends: an hour of three a second."""

EXIT_CODE_MAX: Final = 255

_TAG: Final = re.compile(r"[A-Za-z0-9._/#-]+")
"""What may stand between quotes in a shell's command, and in a line of JSON, as it is."""


def check_background(script: Script, where: str, *, is_child: bool) -> None:
    """The rules for what one script (without those below it) does in the background, and asks before it does it.

    Raises:
        BadScript: names the part and the rule.
    """
    seen: dict[str, Asked | None] = {}
    for number, turn in enumerate(script.turns, 1):
        for step in turn.steps:
            if isinstance(step, Tools):
                for call in step.calls:
                    _check_call(f"{where}turn {number}, {call.arguments.tag}", call, seen, is_child=is_child)
                # Only now: the model knows no id of a call before its reply is in the log.
                seen |= {call.arguments.tag: call.asked for call in step.calls}
    asked = {call.arguments.gate == "refuse" for _, call in calls_of(script) if call.arguments.gate in ASKS_A_PERSON}
    if len(asked) > 1:
        raise BadScript(f"{where}people say the same of every call: whoever comes later knows of none before")
    if script.interactive:
        _check_ends(script, where)
    if any(isinstance(asked, Cron) for asked in seen.values()) and (is_child or not script.interactive):
        raise BadScript(f"{where}only a task that rests between turns, and that nobody waits for, has a cron table")
    if script.parks:
        _check_parks(script, where, is_child=is_child)


def may_end_unknown(call: Call) -> bool:
    """Whether nobody can tell what the call did once its own death has come."""
    if call.asked is not None or not TOOLS[call.tool].dies:
        return False
    spec, arguments = TOOLS[call.tool], call.arguments
    found = spec.recovers and arguments.dies == "after"
    return not found and not (spec.retry_safe and arguments.dies_through_start < MAX_ATTEMPTS)


def _check_call(where: str, call: Call, seen: Mapping[str, Asked | None], *, is_child: bool) -> None:
    arguments = call.arguments
    if arguments.rewritten:
        raise BadScript(f"{where}: a gate rewrites a call, a script names in gate that it does")
    if arguments.gate in ("deny", "refuse") and call.asked is None and TOOLS[call.tool].dies:
        raise BadScript(f"{where}: a call that never starts kills nobody")
    if arguments.gate == "refuse" and is_child:
        raise BadScript(f"{where}: whoever is asked by a sub-agent approves, since nobody knows it beforehand")
    if isinstance(call.asked, Shell):
        _check_shell(where, call.arguments.tag, call.asked)
    if isinstance(call.asked, Cron):
        _check_cron(where, call.asked)
    about = referred(call.asked)
    if about is not None:
        wanted = Cron if isinstance(call.asked, StopCron) else Shell
        if not isinstance(seen.get(about), wanted):
            raise BadScript(f"{where}: is about a {wanted.__name__} of an earlier reply, found {about!r}")


def _check_shell(where: str, tag: str, shell: Shell) -> None:
    if not _TAG.fullmatch(tag):
        raise BadScript(f"{where}: the tag of a shell stands in its command, and is of {_TAG.pattern}")
    if shell.lines is not None and not 1 <= shell.lines <= LINES_MAX:
        raise BadScript(f"{where}: from 1 to {LINES_MAX} lines, or null for ever, found {shell.lines}")
    if not 0 <= shell.exit_code <= EXIT_CODE_MAX:
        raise BadScript(f"{where}: an exit code is from 0 to {EXIT_CODE_MAX}, found {shell.exit_code}")


def _check_cron(where: str, asked: Cron) -> None:
    try:
        cron.parse(asked.expression, asked.zone)
    except BadInput as error:
        raise BadScript(f"{where}: {error}") from error


def _check_ends(script: Script, where: str) -> None:
    """A task that rests after its last turn rests for good: nothing keeps its claim, or wakes it."""
    asked = [call.asked for _, call in calls_of(script)]
    ended = {referred(one) for one in asked if isinstance(one, StopJob | StopCron)}
    for _, call in calls_of(script):
        for_ever = isinstance(call.asked, Cron) or (isinstance(call.asked, Shell) and call.asked.lines is None)
        if for_ever and call.arguments.tag not in ended:
            raise BadScript(f"{where}{call.arguments.tag} goes on for ever, and nothing stops it at last")


def _check_parks(script: Script, where: str, *, is_child: bool) -> None:
    if is_child or script.interactive:
        raise BadScript(f"{where}only a one-shot task that nobody waits for is seen to be parked, not this one")
    calls = [call for _, call in calls_of(script)]
    if any(_needs_people(call) for call in calls[1:]):
        raise BadScript(f"{where}what only people bring is the first thing that a task that may be parked waits for")
    for turn in script.turns:
        for step in turn.steps:
            if isinstance(step, Tools) and any(_kills(call) for call in step.calls[:-1]):
                raise BadScript(f"{where}a call that kills is the last of its reply: a park closes the rest")


def _kills(call: Call) -> bool:
    return call.asked is None and TOOLS[call.tool].dies


def _needs_people(call: Call) -> bool:
    waits = isinstance(call.asked, Question | AwaitEvent)
    return waits or call.arguments.gate in ASKS_A_PERSON
