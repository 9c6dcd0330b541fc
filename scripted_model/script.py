"""What a scripted task does, as data: turns of steps, carried as JSON in the task's goal.

A turn is a list of steps of which exactly the last ends it. Steps that repeat (``times``) go on afterwards
when they have a number, and never when it is None: then they reach the runtime's bound and the turn ends
there. A script that could not be foretold (two runs of cut replies that add up, a step behind an ending) is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from noeta.core import codec
from noeta.core.texts import MAX_EMPTY_REPLIES, MAX_TRUNCATED_REPLIES

CHARS_MAX: Final = 1_000_000
"""Characters of one long text: what a model or a tool may say at once and a body still holds three times over."""

SECONDS_MAX: Final = 3_600.0
"""No script keeps a worker for longer than an hour."""


class BadScript(ValueError):
    """The script is not one this package can play and foretell; the message says which part and why."""


class Odd(Enum):
    """Text that stores and wires stumble over."""

    NUL = "nul"
    SURROGATE = "surrogate"
    RIGHT_TO_LEFT = "right_to_left"
    ASTRAL = "astral"
    CONTROLS = "controls"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a tool of this package does around its journal line, and what it promises about a second run."""

    retry_safe: bool = False
    recovers: bool = False
    waits: bool = False
    dies: bool = False
    fails: bool = False


TOOLS: Final = MappingProxyType(
    {
        "plain": ToolSpec(),
        "retry_safe": ToolSpec(retry_safe=True),
        "recoverable": ToolSpec(recovers=True),
        "slow": ToolSpec(waits=True),
        "slow_retry_safe": ToolSpec(waits=True, retry_safe=True),
        "killer": ToolSpec(dies=True),
        "killer_retry_safe": ToolSpec(dies=True, retry_safe=True),
        "killer_recoverable": ToolSpec(dies=True, recovers=True),
        "failing": ToolSpec(fails=True),
        "big_output": ToolSpec(),
    }
)
"""Every tool, by name. All write one journal line per start."""


class Arguments(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a call asks of its tool.

    ``tag`` names the call in log and journal, once in the whole workload. ``seconds``: how long ``slow``
    tools wait. ``dies_through_start``: a killer dies at its starts up to this one, ``dies`` its journal line.
    ``chars``: how long the output is. ``odd``: the model adds such a ``text`` to the input, and the output
    holds it too.
    """

    tag: str
    seconds: float = 0.0
    dies_through_start: int = 0
    dies: Literal["before", "after"] = "after"
    chars: int = 0
    odd: Odd | None = None
    text: str | None = None


class Call(msgspec.Struct, frozen=True):
    """One tool call of a reply."""

    tool: str
    arguments: Arguments


class Tools(msgspec.Struct, frozen=True, tag="tools", tag_field="step"):
    """A reply that asks for these calls."""

    calls: tuple[Call, ...]


class Say(msgspec.Struct, frozen=True, omit_defaults=True, tag="say", tag_field="step"):
    """The final answer of the turn. ``chars``: at least as long as this."""

    odd: Odd | None = None
    chars: int = 0


class Fail(msgspec.Struct, frozen=True, omit_defaults=True, tag="fail", tag_field="step"):
    """The provider fails this many requests of the next model call; None: every one, so the turn fails."""

    times: int | None = None
    retryable: bool = True


class Kill(msgspec.Struct, frozen=True, tag="kill", tag_field="step"):
    """The model call kills its worker, each time it is made, so the turn fails."""


class Cut(msgspec.Struct, frozen=True, omit_defaults=True, tag="cut", tag_field="step"):
    """Replies cut at the output limit, so many in a row; None: for ever, so the turn fails."""

    times: int | None = None


class Empty(msgspec.Struct, frozen=True, omit_defaults=True, tag="empty", tag_field="step"):
    """Empty replies, so many in a row; None: for ever, so the turn ends without an answer."""

    times: int | None = None


Step = Tools | Say | Fail | Kill | Cut | Empty


class Turn(msgspec.Struct, frozen=True):
    """What the model does from one message to the end of its turn."""

    steps: tuple[Step, ...]


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole task. Interactive ones have a turn per ``turn n:`` message, others one. ``think_seconds``: how
    long each model call takes."""

    task: str
    kind: str
    turns: tuple[Turn, ...]
    interactive: bool = False
    think_seconds: float = 0.0


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


def ends_turn(step: Step) -> bool:
    """Whether nothing of the turn comes after this step."""
    match step:
        case Say() | Kill():
            return True
        case Fail(times=times) | Cut(times=times) | Empty(times=times):
            return times is None
        case Tools():
            return False


def calls_of(script: Script) -> Iterator[tuple[int, Call]]:
    """Every call with the number of its turn, from 1, in order."""
    for number, turn in enumerate(script.turns, 1):
        for step in turn.steps:
            if isinstance(step, Tools):
                for call in step.calls:
                    yield number, call


def check(script: Script) -> None:
    """Refuse a script that cannot be played or foretold.

    Raises:
        BadScript: names the turn, the step and the rule.
    """
    if not script.turns:
        raise BadScript("a script has at least one turn")
    if not script.interactive and len(script.turns) != 1:
        raise BadScript(f"a one-shot task has one turn, found {len(script.turns)}")
    _check_number("think_seconds", script.think_seconds, SECONDS_MAX)
    for number, turn in enumerate(script.turns, 1):
        _check_turn(f"turn {number}", turn)
    tags = [call.arguments.tag for _, call in calls_of(script)]
    for tag in tags:
        if not tag or tags.count(tag) > 1:
            raise BadScript(f"tags are not empty and name one call each, found {tag!r}")


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


def _check_number(where: str, value: float, value_max: float) -> None:
    if not math.isfinite(value) or not 0 <= value <= value_max:
        raise BadScript(f"{where}: from 0 to {value_max:g}, found {value}")
