"""Smaller scripts, one thing at a time: a turn, a step, a call, a sub-agent less, or something plainer in its place.

What a call delegates is a script, too, and is made smaller in the same way. Nothing here says whether what comes out
can be foretold: that is asked of every play that is made of it (`shrink_scripts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from noeta.chaos.sim.shrink_order import PLAINEST, ROUND_SECONDS
from scripted_model.script import (
    TOOLS,
    Agent,
    AgentGroup,
    Arguments,
    Asked,
    AwaitEvent,
    Call,
    Cut,
    Empty,
    Fail,
    Handback,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    Turn,
    asking,
    children_of,
    ends_turn,
)

T = TypeVar("T")

change = msgspec.structs.replace


# -- less of it ----------------------------------------------------------------------------------------------------


def shorter(script: Script) -> Iterator[tuple[Script, int | None]]:
    """Scripts with a turn, a step, a call or a sub-agent less; with the number of the turn that is gone, if one is."""
    turns = script.turns
    if len(turns) > 1:
        for number in range(len(turns), 0, -1):
            yield change(script, turns=_without(turns, number - 1)), number
    for place, turn in enumerate(turns):
        for fewer in _shorter_turns(turn):
            yield change(script, turns=_with(turns, place, fewer)), None


def _shorter_turns(turn: Turn) -> Iterator[Turn]:
    for _, _, call in _calls(turn):
        for child in children_of(call):
            yield child.turns[0]  # the task does itself what it would have delegated
    *before, last = turn.steps
    if before:
        yield Turn((last,))
        for place in range(len(before)):
            yield Turn(_without(turn.steps, place))
    if before and not isinstance(last, Say):
        yield Turn((Say(),))
    for place, step in enumerate(turn.steps):
        if isinstance(step, Tools) and len(step.calls) > 1:
            for number in range(len(step.calls)):
                yield Turn(_with(turn.steps, place, Tools(_without(step.calls, number))))
    for place, number, call in _calls(turn):
        for smaller in _shorter_calls(call):
            yield _with_call(turn, place, number, smaller)


def _shorter_calls(call: Call) -> Iterator[Call]:
    """Fewer members, and members that do less."""
    children = children_of(call)
    if children:
        yield Call(PLAINEST, Arguments(call.arguments.tag))
    if len(children) > 1:
        for place in range(len(children)):
            yield _delegating(call, _without(children, place))
    for place, child in enumerate(children):
        for smaller, _ in shorter(child):
            yield _delegating(call, _with(children, place, smaller))


# -- plainer -------------------------------------------------------------------------------------------------------


def plainer(script: Script) -> Iterator[Script]:
    """Scripts that do as much, of which there is less to say."""
    if script.think_seconds:
        yield change(script, think_seconds=0.0)
    if script.interactive and len(script.turns) == 1:
        yield change(script, interactive=False)
    for place, turn in enumerate(script.turns):
        for at, step in enumerate(turn.steps):
            for plain in _plainer_steps(step):
                yield change(script, turns=_with(script.turns, place, Turn(_with(turn.steps, at, plain))))


def _plainer_steps(step: Step) -> Iterator[Step]:
    match step:
        case Tools(calls=calls):
            for number, call in enumerate(calls):
                for plain in _plainer_calls(call):
                    yield Tools(_with(calls, number, plain))
        case Say(odd=odd, chars=chars):
            if odd is not None or chars:
                yield Say()
        case Fail(times=times) | Cut(times=times) | Empty(times=times):
            if ends_turn(step):
                yield Say()
            elif times is not None and times > 1:
                yield change(step, times=1)
        case _:
            yield Say()


def _plainer_calls(call: Call) -> Iterator[Call]:
    arguments = call.arguments
    if call.tool != PLAINEST:
        yield Call(PLAINEST, Arguments(arguments.tag))
    if call.asked is not None:
        for asked in _plainer_asked(call.asked):
            yield asking(arguments.tag, asked)
        return
    if TOOLS[call.tool].dies and TOOLS[call.tool].retry_safe:
        yield Call("retry_safe", Arguments(arguments.tag))
    if TOOLS[call.tool].dies and TOOLS[call.tool].recovers:
        yield Call("recoverable", Arguments(arguments.tag))
    if TOOLS[call.tool].waits and TOOLS[call.tool].retry_safe:
        yield Call("retry_safe", Arguments(arguments.tag))
    if arguments.odd is not None or arguments.chars:
        yield Call(call.tool, change(arguments, odd=None, chars=0))
    for seconds in rounder(arguments.seconds):
        yield Call(call.tool, change(arguments, seconds=seconds))
    if arguments.dies_through_start > 1:
        yield Call(call.tool, change(arguments, dies_through_start=1))


def _plainer_asked(asked: Asked) -> Iterator[Asked]:
    """Who is waited for, one sub-agent for a group of one, no limit, and shorter waits."""
    match asked:
        case Agent(child=child, background=background):
            if background:
                yield Agent(child)
            for plain in plainer(child):
                yield Agent(plain, background)
        case AgentGroup(children=children):
            if len(children) == 1:
                yield Agent(children[0])
            for place, child in enumerate(children):
                for plain in plainer(child):
                    yield AgentGroup(_with(children, place, plain))
        case Handback(odd=odd):
            if odd is not None:
                yield change(asked, odd=None)
        case Timer(seconds=seconds):
            for shorter_wait in shorter_waits(seconds):
                yield Timer(shorter_wait)
        case Question(timeout_seconds=limit, odd=odd):
            if odd is not None:
                yield change(asked, odd=None)
            yield from _plainer_limits(asked, limit)
        case AwaitEvent(timeout_seconds=limit):
            yield from _plainer_limits(asked, limit)


def _plainer_limits(asked: Question | AwaitEvent, limit: float | None) -> Iterator[Question | AwaitEvent]:
    if limit is not None:
        yield change(asked, timeout_seconds=None)
        for shorter_wait in shorter_waits(limit):
            yield change(asked, timeout_seconds=shorter_wait)


def shorter_waits(seconds: float) -> Iterator[float]:
    """Waits that are easier to read, and none of no time at all."""
    if seconds > ROUND_SECONDS:
        yield ROUND_SECONDS
    yield from (rounded for rounded in rounder(seconds) if rounded)


def rounder(seconds: float) -> Iterator[float]:
    """Spans that are easier to read, near this one; none is longer by more than one round span."""
    if seconds % ROUND_SECONDS:
        yield seconds // ROUND_SECONDS * ROUND_SECONDS
        yield (seconds // ROUND_SECONDS + 1) * ROUND_SECONDS
        if seconds != int(seconds):
            yield float(int(seconds) + 1)


# -- put together --------------------------------------------------------------------------------------------------


def _calls(turn: Turn) -> Iterator[tuple[int, int, Call]]:
    """Every call with the place of its step and its own."""
    for place, step in enumerate(turn.steps):
        if isinstance(step, Tools):
            for number, call in enumerate(step.calls):
                yield place, number, call


def _with_call(turn: Turn, place: int, number: int, call: Call) -> Turn:
    step = turn.steps[place]
    assert isinstance(step, Tools)
    return Turn(_with(turn.steps, place, Tools(_with(step.calls, number, call))))


def _delegating(call: Call, children: tuple[Script, ...]) -> Call:
    """The call with other sub-agents."""
    match call.asked:
        case Agent() as one:
            return change(call, asked=change(one, child=children[0]))
        case AgentGroup():
            return change(call, asked=AgentGroup(children))
        case _:
            raise AssertionError(f"{call.tool} delegates nothing")


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return items[:place] + items[place + 1 :]


def _with(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])
