"""Smaller plays: scripts with something less (`shrink_turns.py`), and what is said to their tasks with them.

An edit never puts an ending in that fails where there was none, and never leaves a course that nobody can foretell:
what must come of the task is computed again from what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, count, pairwise
from typing import Final

import msgspec

from noeta.chaos.schedule import Play, Schedule
from noeta.chaos.sim.replay import playable
from noeta.chaos.sim.scripts import Case
from noeta.chaos.sim.shrink_turns import plainer, shorter
from scripted_model.script import (
    ASKS_A_PERSON,
    Agent,
    AgentGroup,
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
    Tools,
    Turn,
    calls_of,
    is_background,
    tree_of,
)
from scripted_model.words import turn_message, turn_named
from scripted_model.workload import MessageKind, ScheduledMessage, ScriptedTask

change = msgspec.structs.replace

ANSWERS_LEFT_OUT_MAX: Final = 20
"""Ways to leave answers out with their questions: nobody says which belongs to which."""


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
        for script, left_out in shorter(task.script):
            yield from _with_script(play, task, script, left_out)
    for task in play.tasks:
        for script in plainer(task.script):
            yield from _with_script(play, task, script, None)
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


# -- what is said --------------------------------------------------------------------------------------------------


def _plainer_messages(message: ScheduledMessage) -> Iterator[ScheduledMessage]:
    if message.delay_seconds:
        yield change(message, delay_seconds=0.0)
    if message.posts > 1:
        yield change(message, posts=1)
    if message.payload is not None:
        yield change(message, payload=None)
    if message.kind in ("cancel", "close") and message.text:
        yield change(message, text="")


def _with_script(play: Play, task: ScriptedTask, script: Script, left_out: int | None) -> Iterator[Play]:
    """The plays with another script for this task, and its messages without those that were for what is gone."""
    messages = play.messages
    if left_out is not None:
        messages = tuple(_moved(messages, task.id, left_out))
    if task.interactive and not script.interactive:
        talk = ("turn", "note", "close")
        messages = tuple(one for one in messages if one.task != task.id or one.kind not in talk)
    ignored = _awaited_kinds(task.script) - _awaited_kinds(script)
    messages = tuple(one for one in messages if one.task != task.id or one.event_kind not in ignored)
    other = _with_task(play, task, change(task, script=script))
    decided = _decided(task.script) - _decided(script)
    for some in _without(messages, task.id, "decision", decided):
        for left in _without(some, task.id, "answer", _questions(task.script) - _questions(script)):
            yield change(other, messages=left)


def _without(
    messages: tuple[ScheduledMessage, ...], task: str, kind: MessageKind, asked: int
) -> Iterator[tuple[ScheduledMessage, ...]]:
    """The messages without one of this kind (answers, decisions) to each of so many calls that are gone: whichever
    those are. And with all, if nobody had one for them."""
    answers = [one for one in messages if one.task == task and one.kind == kind]
    if asked > 0 and answers:
        ways = combinations(answers, min(asked, len(answers)))
        for _, gone in zip(range(ANSWERS_LEFT_OUT_MAX), ways, strict=False):
            yield tuple(one for one in messages if one not in gone)
    yield messages


def _moved(messages: Sequence[ScheduledMessage], task: str, left_out: int) -> Iterator[ScheduledMessage]:
    """Later turns move up, and what was said in the one that is gone goes with it; not a cancel, which is said to the
    task. The first turn needs no message, so the message of the second goes with the first."""
    starter = max(left_out, 2)
    for message in messages:
        if message.task != task or message.turn < left_out:
            yield message
            continue
        if message.kind == "cancel":
            yield change(message, turn=max(message.turn - 1, 1))
            continue
        if message.turn == (starter if message.kind == "turn" else left_out):
            continue
        moved = message.turn - 1
        text = message.text if turn_named(message.text) is None else turn_message(moved, task)
        yield change(message, turn=moved, text=text)


def _awaited_kinds(script: Script) -> set[str]:
    asked = [call.asked for _, call in calls_of(script)]
    return {one.event_kind for one in asked if isinstance(one, AwaitEvent)}


def _questions(script: Script) -> int:
    return sum(isinstance(call.asked, Question) for _, call in calls_of(script))


def _decided(script: Script) -> int:
    return sum(call.arguments.gate in ASKS_A_PERSON for _, call in calls_of(script))


# -- put together --------------------------------------------------------------------------------------------------


def _with_task(play: Play, task: ScriptedTask, other: ScriptedTask) -> Play:
    return change(play, tasks=tuple(other if one is task else one for one in play.tasks))


def _called(task: ScriptedTask, name: str) -> ScriptedTask:
    """Calls are tagged, and sub-agents named, by their place in the tree."""
    places, children = count(1), count(1)
    tags: dict[str, str] = {}

    def named(script: Script, own: str) -> Script:
        turns = tuple(Turn(tuple(tagged(step) for step in turn.steps)) for turn in script.turns)
        return change(script, task=own, turns=turns)

    def tagged(step: Step) -> Step:
        if not isinstance(step, Tools):
            return step
        return Tools(tuple(tagged_call(call) for call in step.calls))

    def tagged_call(call: Call) -> Call:
        tags[call.arguments.tag] = tag = f"{name}#{next(places)}"
        arguments = change(call.arguments, tag=tag)
        return change(call, arguments=arguments, asked=None if call.asked is None else asked_of(call.asked))

    def asked_of(asked: Asked) -> Asked:
        match asked:
            case Agent(child=child):
                return change(asked, child=named(child, f"{name}/{next(children)}"))
            case AgentGroup(children=members):
                return AgentGroup(tuple(named(child, f"{name}/{next(children)}") for child in members))
            case ReadJob(shell=about) | StopJob(shell=about):
                return change(asked, shell=tags[about])
            case StopCron(cron=about):
                return change(asked, cron=tags[about])
            case _:
                return asked

    return change(task, id=name, script=named(task.script, name))


def _activity(key: str, names: Mapping[str, str]) -> str:
    """Activities that are about a task end in its id, which begins with that of the task at the top of its tree:
    ``w1#1/step t3``, ``w1#1/step t3.3-0.1``."""
    about, _, last = key.rpartition(" ")
    root = next((name for name in names if last == name or last.startswith(f"{name}.")), None)
    return key if root is None else f"{about} {names[root]}{last.removeprefix(root)}"


# -- what nobody can foretell --------------------------------------------------------------------------------------


def _hides_a_turn(script: Script) -> bool:
    """A turn that repeats for ever before one that begins with repeats: they would be in a row, see `course.py`."""
    for turn, following in pairwise(script.turns):
        first = next((step for step in following.steps if not isinstance(step, Fail)), None)
        if isinstance(turn.steps[-1], Cut | Empty) and isinstance(first, Cut | Empty):
            return True
    return False


def _fails_again(task: ScriptedTask, messages: Sequence[ScheduledMessage]) -> bool:
    """What is said after a turn that failed, by people, sub-agents, background shells or a cron table, opens it again,
    and it fails once more than foretold."""
    hurt = any(not isinstance(turn.steps[-1], Say) for turn in task.script.turns)
    noted = any(message.task == task.id and message.kind == "note" for message in messages)
    calls = [call for one in tree_of(task.script) for _, call in calls_of(one)]
    told = any(is_background(call) or isinstance(call.asked, Handback | Shell | Cron) for call in calls)
    return hurt and (noted or told) and task.interactive
