"""Where in its script a conversation stands, read off what was said and nothing else.

Replies are counted, not recognised: each is then compared with the one the script gives at that place, so a
lost, doubled, reordered or altered one is found here instead of being papered over. Results of tools are only
paired with their calls: what they say changes nothing. Messages of clients name the turn they start, because
a failed turn leaves no trace in what was said; all others are notes, which change nothing either.

A turn is left when it stands at its ending step and the message of the next turn has come, however early that
came: where messages land cannot change which calls are made, nor the last answer. For the same reason a turn that
was closed in its middle is not lost: the next turn's message finds it there, its remaining steps are played, and
what it would have answered is left out. What a call waited for, and whether it came, is a result like any other; that
a background shell has ended or is lost, and what a cron table says, are notes like any other. A call that is about an
earlier one (a shell to read or to stop) names it by the id that stands in what was said.
Not handled: a next turn's message taken between two cut replies of a turn that is cut for ever, before a turn that
begins with cut replies. They are in a row for the runtime too, so the bound may come early; the generator draws no
such turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from noeta.core.codec import escape, escape_text
from noeta.core.model import CallMade, ModelReply, ModelSaid, RequestedCall, Said, ToolAnswered, UserSaid
from noeta.core.texts import CONTINUE_TRUNCATED
from scripted_model.jobs import command_of
from scripted_model.script import (
    AGENT,
    Agent,
    AgentGroup,
    Arguments,
    Asked,
    AwaitEvent,
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
    ends_turn,
    to_goal,
)
from scripted_model.words import ODD_TEXTS, checksum, stretched, turn_named, with_odd


class OffCourse(Exception):
    """What was said is no conversation that this script and a correct runtime can lead to."""


@dataclass(frozen=True, slots=True)
class Position:
    """Turn and step, from 0, and how many replies of a repeating step were given. ``ids``: of the calls that were made
    so far, by tag."""

    turn: int = 0
    step: int = 0
    replies: int = 0
    ids: Mapping[str, str] = field(default_factory=dict, compare=False)


def locate(script: Script, said: Sequence[Said]) -> Position:
    """The position of the reply that comes next.

    Raises:
        OffCourse: names the entry of ``said`` and what should have stood there.
    """
    position, turn_reached = Position(), 0
    open_calls: set[str] = set()
    seen_calls: set[str] = set()
    ids: dict[str, str] = {}
    for index, entry in enumerate(said[1:], 1):
        match entry:
            case UserSaid(text=text):
                named = None if text == CONTINUE_TRUNCATED else turn_named(text)
                if named is not None and named <= len(script.turns):
                    turn_reached = max(turn_reached, named - 1)
            case ToolAnswered(call_id=call):
                if call not in open_calls:
                    raise OffCourse(f"said[{index}] answers {call!r}, which is not open")
                open_calls.remove(call)
            case ModelSaid(calls=calls):
                _refuse_open(index, open_calls)
                position = replace(_enter(script, position, turn_reached), ids=ids)
                _compare(f"said[{index}]", entry, reply_at(script, position))
                ids |= _ids(script, position, calls)
                position = _after(script, position)
                open_calls = {call.id for call in calls}
                if len(open_calls) != len(calls) or open_calls & seen_calls:
                    raise OffCourse(f"said[{index}] uses a call id twice")
                seen_calls |= open_calls
    _refuse_open(len(said), open_calls)
    return replace(_enter(script, position, turn_reached), ids=ids)


def step_at(script: Script, position: Position) -> Step:
    """The step of a position, which may be a ``Fail`` in front of the step that replies."""
    return script.turns[position.turn].steps[position.step]


def replying_step(script: Script, position: Position) -> tuple[int, Step]:
    """The step that the model call of this position comes to, behind failures that pass, with its index."""
    step = step_at(script, position)
    if isinstance(step, Fail) and step.times is not None:
        return position.step + 1, script.turns[position.turn].steps[position.step + 1]
    return position.step, step


def reply_at(script: Script, position: Position) -> ModelReply:
    """What the model answers there, once it answers.

    Raises:
        OffCourse: the script gives no reply there: the call fails, or kills its worker, every time.
    """
    index, step = replying_step(script, position)
    name = f"{script.task} turn {position.turn + 1} step {index}"
    mark = checksum(script, position.turn, index, position.replies)
    match step:
        case Say(odd=odd, chars=chars):
            return ModelReply(text=stretched(with_odd(f"{name} answers {mark}", odd), chars))
        case Tools(calls=calls):
            requested = tuple(_requested(number, call, position.ids) for number, call in enumerate(calls))
            return ModelReply(f"{name} calls {mark}", requested, stop="tool_use")
        case Cut():
            return ModelReply(text=f"{name} is cut {position.replies} {mark}", stop="max_tokens")
        case Empty():
            return ModelReply()
        case Fail() | Kill():
            raise OffCourse(f"{name} gives no reply")


def answer_at(script: Script, turn: int) -> str:
    """The final answer of a turn, from 0, that ends in one, as it must stand in the log."""
    return escape_text(reply_at(script, Position(turn, len(script.turns[turn].steps) - 1)).text)


def input_of(arguments: Arguments) -> dict[str, Any]:
    """The input as the model writes it: the arguments, and the odd text they ask for."""
    built: dict[str, Any] = msgspec.to_builtins(arguments)
    if arguments.odd is not None:
        built["text"] = ODD_TEXTS[arguments.odd]
    return built


def asked_input(tag: str, asked: Asked, ids: Mapping[str, str]) -> dict[str, Any]:
    """The input of a call to one of the caller's tools. A sub-agent is given its whole script, and plays it. ``ids``:
    of earlier calls, by tag; one that nobody made (yet) stands as its tag."""
    match asked:
        case Agent(child=child, background=background):
            return {"agent": AGENT, "prompt": to_goal(child), "background": background}
        case AgentGroup(children=children):
            return {"members": [{"agent": AGENT, "prompt": to_goal(child)} for child in children]}
        case Handback(report=report, odd=odd):
            return {"report": with_odd(report, odd)}
        case Timer(seconds=seconds):
            return {"delay_seconds": seconds, "reason": "as scripted"}
        case Question(question=question, timeout_seconds=limit, odd=odd):
            return {"question": with_odd(question, odd), **_limited(limit)}
        case AwaitEvent(event_kind=kind, timeout_seconds=limit):
            return {"event_kind": kind, **_limited(limit)}
        case Shell():
            return {"command": command_of(tag, asked), "background": True}
        case ReadJob(shell=about) | StopJob(shell=about):
            return {"job": ids.get(about, about)}
        case Cron(expression=expression, prompt=prompt, zone=zone):
            return {"expression": expression, "zone": zone, "prompt": prompt}
        case StopCron(cron=about):
            return {"cron": ids.get(about, about)}


def _limited(seconds: float | None) -> dict[str, Any]:
    return {} if seconds is None else {"timeout_seconds": seconds}


def _requested(number: int, call: Call, ids: Mapping[str, str]) -> RequestedCall:
    tag = call.arguments.tag
    built = input_of(call.arguments) if call.asked is None else asked_input(tag, call.asked, ids)
    # Numbered anew in each reply, as some providers do: the runtime must not take these ids for unique.
    return RequestedCall(call.tool, built, provider_id=f"call_{number}")


def _ids(script: Script, position: Position, made: Sequence[CallMade]) -> dict[str, str]:
    """The ids of the calls that were made at this position, by tag."""
    _, step = replying_step(script, position)
    calls = step.calls if isinstance(step, Tools) else ()
    return {call.arguments.tag: one.id for call, one in zip(calls, made, strict=True)}


def _enter(script: Script, position: Position, turn_reached: int) -> Position:
    while position.turn < turn_reached and ends_turn(replying_step(script, position)[1]):
        position = Position(position.turn + 1)
    return position


def _after(script: Script, position: Position) -> Position:
    index, step = replying_step(script, position)
    match step:
        case Cut(times=times) | Empty(times=times):
            if position.replies + 1 == times:
                return Position(position.turn, index + 1)
            return Position(position.turn, index, position.replies + 1)
        case Tools():
            return Position(position.turn, index + 1)
        case _:
            return position


def _refuse_open(index: int, open_calls: set[str]) -> None:
    if open_calls:
        raise OffCourse(f"before said[{index}] the calls {sorted(open_calls)} must be answered")


def _compare(where: str, said: ModelSaid, reply: ModelReply) -> None:
    if said.text != escape_text(reply.text):
        raise OffCourse(f"{where} must say {reply.text[:200]!r}, found {said.text[:200]!r}")
    found = [(call.tool, call.input) for call in said.calls]
    expected = [(call.tool, escape(call.input)) for call in reply.calls]
    if found != expected:
        raise OffCourse(f"{where} must call {str(expected)[:400]}, found {str(found)[:400]}")
