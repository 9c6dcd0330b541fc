"""Smaller scripts: what may be left out of a task's course so that it can still be played and foretold.

An edit never puts an ending in that fails where there was none, and never leaves a course that nobody can foretell:
what must come of the task is computed again from what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import TypeVar

import msgspec

from noeta.chaos.schedule import Play, Schedule
from noeta.chaos.sim.replay import playable
from noeta.chaos.sim.scripts import Case
from noeta.chaos.sim.shrink_order import PLAINEST, ROUND_SECONDS
from scripted_model.script import TOOLS, Arguments, Call, Cut, Empty, Fail, Say, Script, Step, Tools, Turn, ends_turn
from scripted_model.words import turn_message, turn_named
from scripted_model.workload import ScheduledMessage, ScriptedTask

T = TypeVar("T")

change = msgspec.structs.replace


def is_playable(play: Play) -> bool:
    """Whether the outcome of every task can be foretold, so that a law may judge by it."""
    if play.app is not None:
        return True
    case = playable(play)
    assert isinstance(case, Case)
    try:
        case.foretold()
    except ValueError:
        return False
    return not any(_hides_a_turn(task.script) or _fails_again(task, play.messages) for task in play.tasks)


def edits(play: Play) -> Iterator[Play]:
    """Plays with one thing less in one script or message, what takes most away first."""
    for task in play.tasks:
        for script, left_out in _shorter(task.script):
            yield _with_script(play, task, script, left_out)
    for task in play.tasks:
        for script in _plainer(task.script):
            yield _with_script(play, task, script, None)
        if task.delay_seconds:
            yield _with_task(play, task, change(task, delay_seconds=0.0))
    for message in play.messages:
        for plain in _plainer_messages(message):
            yield change(play, messages=tuple(plain if one is message else one for one in play.messages))


def renamed(schedule: Schedule) -> Schedule:
    """The same with tasks called t1, t2, …: what a script is about after all that was left out, its name does not
    say."""
    play = schedule.play
    assert play is not None
    names = {task.id: f"t{number}" for number, task in enumerate(play.tasks, start=1)}
    renamed_play = change(
        play,
        tasks=tuple(_called(task, names[task.id]) for task in play.tasks),
        messages=tuple(change(one, task=names[one.task]) for one in play.messages),
        turns=tuple(change(turn, activity=_activity(turn.activity, names)) for turn in play.turns),
    )
    return change(schedule, play=renamed_play)


# -- less of it ----------------------------------------------------------------------------------------------------


def _shorter(script: Script) -> Iterator[tuple[Script, int | None]]:
    """Scripts with a turn, a step or a call less; with the number of the turn that is gone, if one is."""
    turns = script.turns
    if len(turns) > 1:
        for number in range(len(turns), 0, -1):
            yield change(script, turns=_without(turns, number - 1)), number
    for place, turn in enumerate(turns):
        for fewer in _shorter_turns(turn):
            yield change(script, turns=_with(turns, place, fewer)), None


def _shorter_turns(turn: Turn) -> Iterator[Turn]:
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


# -- plainer -------------------------------------------------------------------------------------------------------


def _plainer(script: Script) -> Iterator[Script]:
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


def _plainer_messages(message: ScheduledMessage) -> Iterator[ScheduledMessage]:
    if message.delay_seconds:
        yield change(message, delay_seconds=0.0)
    if message.posts > 1:
        yield change(message, posts=1)


def rounder(seconds: float) -> Iterator[float]:
    """Spans that are easier to read, near this one; none is longer by more than one round span."""
    if seconds % ROUND_SECONDS:
        yield seconds // ROUND_SECONDS * ROUND_SECONDS
        yield (seconds // ROUND_SECONDS + 1) * ROUND_SECONDS
        if seconds != int(seconds):
            yield float(int(seconds) + 1)


# -- put together --------------------------------------------------------------------------------------------------


def _with_task(play: Play, task: ScriptedTask, other: ScriptedTask) -> Play:
    return change(play, tasks=tuple(other if one is task else one for one in play.tasks))


def _with_script(play: Play, task: ScriptedTask, script: Script, left_out: int | None) -> Play:
    """The play with another script for this task, and its messages without those of the turn that is gone."""
    messages = play.messages
    if left_out is not None:
        messages = tuple(_moved(messages, task.id, left_out))
    if not script.interactive:
        messages = tuple(one for one in messages if one.task != task.id or not task.interactive)
    return change(_with_task(play, task, change(task, script=script)), messages=messages)


def _moved(messages: Sequence[ScheduledMessage], task: str, left_out: int) -> Iterator[ScheduledMessage]:
    """Later turns move up. The first turn needs no message, so the message of the second goes with the first."""
    starter = max(left_out, 2)
    for message in messages:
        if message.task != task or message.turn < left_out:
            yield message
            continue
        goes = message.turn == left_out if message.kind == "note" else message.turn == starter
        if goes:
            continue
        moved = message.turn - 1
        text = message.text if turn_named(message.text) is None else turn_message(moved, task)
        yield change(message, turn=moved, text=text)


def _called(task: ScriptedTask, name: str) -> ScriptedTask:
    place = count(1)

    def tagged(step: Step) -> Step:
        if not isinstance(step, Tools):
            return step
        calls = (change(one, arguments=change(one.arguments, tag=f"{name}#{next(place)}")) for one in step.calls)
        return Tools(tuple(calls))

    turns = tuple(Turn(tuple(map(tagged, turn.steps))) for turn in task.script.turns)
    return change(task, id=name, script=change(task.script, task=name, turns=turns))


def _activity(key: str, names: Mapping[str, str]) -> str:
    """Activities that are about a task end in its name: ``w1#1/step t3``."""
    about, _, last = key.rpartition(" ")
    return f"{about} {names[last]}" if last in names else key


def _hides_a_turn(script: Script) -> bool:
    """A turn that repeats for ever before one that begins with repeats: they would be in a row, see `course.py`."""
    for turn, following in pairwise(script.turns):
        first = next((step for step in following.steps if not isinstance(step, Fail)), None)
        if isinstance(turn.steps[-1], Cut | Empty) and isinstance(first, Cut | Empty):
            return True
    return False


def _fails_again(task: ScriptedTask, messages: Sequence[ScheduledMessage]) -> bool:
    """A note that comes after a turn that failed opens it again, and it fails once more than foretold."""
    hurt = any(not isinstance(turn.steps[-1], Say) for turn in task.script.turns)
    noted = any(message.task == task.id and message.kind == "note" for message in messages)
    return hurt and noted and task.interactive


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return items[:place] + items[place + 1 :]


def _with(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])
