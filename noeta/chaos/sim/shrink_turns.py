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
    Cron,
    Cut,
    Empty,
    Fail,
    Handback,
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
    asking,
    calls_of,
    children_of,
    ends_turn,
    referred,
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
    for tag in _referred(script):
        yield _without_all_about(script, tag), None
    for place, turn in enumerate(turns):
        for fewer in _shorter_turns(turn):
            yield change(script, turns=_with(turns, place, fewer)), None


def _referred(script: Script) -> list[str]:
    """Tags of calls that later ones are about, each once."""
    return sorted({tag for _, call in calls_of(script) if (tag := referred(call.asked)) is not None})


def _without_all_about(script: Script, tag: str) -> Script:
    """The script without this call and those that are about it."""

    def left(step: Step) -> Step | None:
        if not isinstance(step, Tools):
            return step
        calls = tuple(call for call in step.calls if tag not in (call.arguments.tag, referred(call.asked)))
        return Tools(calls) if calls else None

    turns = [[left(step) for step in turn.steps] for turn in script.turns]
    return change(script, turns=tuple(Turn(tuple(one for one in steps if one is not None)) for steps in turns))


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
    if script.parks:
        yield change(script, parks=False)
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
    if arguments.gate is not None:
        yield Call(call.tool, change(arguments, gate=None))
        if arguments.gate == "approve_rewritten":
            yield Call(call.tool, change(arguments, gate="approve"))
            yield Call(call.tool, change(arguments, gate="rewrite"))
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
        case Shell():
            yield from _plainer_shells(asked)
        case Cron() | ReadJob() | StopJob() | StopCron():
            pass


def _plainer_shells(shell: Shell) -> Iterator[Shell]:
    """One that ends sooner, in a plainer way, and at a pace that is easier to read."""
    if shell.stubborn:
        yield change(shell, stubborn=False)
    if shell.exit_code:
        yield change(shell, exit_code=0)
    if shell.lines != 1:
        yield change(shell, lines=1)
    for pause in shorter_waits(shell.every_seconds):
        yield change(shell, every_seconds=pause)


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
