"""Which of two failing schedules is the smaller one: a total order, so that shrinking ends and never makes worse.

What a reader has to hold in mind comes first: strikes, tasks, messages, workers, switches, then how much the scripts
say and how odd it is, then how plain the faults are, and what else differs from a calm beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from noeta.chaos.schedule import Fault, Kind, Play, Schedule, to_json
from noeta.chaos.sim.scripts import LEASE_SECONDS
from noeta.chaos.sim.strikes import SPARE
from scripted_model.script import (
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
    Timer,
    Tools,
    tree_of,
)
from scripted_model.workload import ScheduledMessage

ROUND_SECONDS: Final = LEASE_SECONDS / 2
"""Spans that are a multiple of this are the easiest to read; whole seconds come next."""

PLAINEST: Final = "plain"
"""The tool of which there is least to say."""


class Bulk(NamedTuple):
    """The part of a size that is known before an execution is played, if nobody is switched to out of turn.

    ``turns``: such switches of the scheduler. ``script_turns``, ``steps`` and ``calls``: of the tasks and of all that
    they delegate. ``oddities``: values of scripts and messages that are not plain.
    """

    faults: int
    tasks: int
    messages: int
    workers: int
    turns: int
    script_turns: int
    steps: int
    calls: int
    oddities: int


LINES_SHOWN_MAX: Final = 3
"""So many lines of a background shell, or more, are as hard to read as one that goes on for ever."""


class Size(NamedTuple):
    """How much a schedule asks of its reader; smaller is better, the first difference decides.

    ``trimmings``: what makes faults less plain. ``text`` makes the order total.
    """

    bulk: Bulk
    trimmings: int
    unresolved: int
    skews: int
    lenient: bool
    length: int
    text: str

    def told(self) -> str:
        """In words, what people look at."""
        counted = (
            (self.bulk.faults, "fault"),
            (self.bulk.tasks, "task"),
            (self.bulk.messages, "message"),
            (self.bulk.workers, "worker"),
            (self.bulk.turns, "switch"),
            (self.bulk.steps, "step"),
        )
        return ", ".join(f"{count} {_plural(count, word)}" for count, word in counted)


def size_of(schedule: Schedule) -> Size:
    """The size of a simulated execution's schedule."""
    play = schedule.play
    assert play is not None, "a storm's schedule has no size here"
    faults = strikes_in(schedule)
    text = to_json(schedule)
    return Size(
        bulk_of(play, faults=len(faults), workers=play.workers, turns=len(play.turns)),
        trimmings=sum(map(_trimmings, faults)),
        unresolved=play.unresolved,
        skews=len(schedule.faults) - len(faults),
        lenient=play.lenient,
        length=len(text),
        text=text,
    )


def bulk_of(play: Play, *, faults: int, workers: int, turns: int = 0) -> Bulk:
    """What counts most, of this play with so many faults, workers and switches."""
    scripts = [script for task in play.tasks for script in tree_of(task.script)]
    steps = [step for script in scripts for turn in script.turns for step in turn.steps]
    return Bulk(
        faults,
        len(play.tasks),
        len(play.messages),
        workers,
        turns,
        script_turns=sum(len(script.turns) for script in scripts),
        steps=len(steps),
        calls=sum(len(step.calls) for step in steps if isinstance(step, Tools)),
        oddities=_oddities(play, scripts, steps),
    )


def strikes_in(schedule: Schedule) -> tuple[Fault, ...]:
    """The faults that strike. A skewed clock does not: it is wrong from the beginning."""
    return tuple(fault for fault in schedule.faults if fault.kind is not Kind.SKEW)


def _oddities(play: Play, scripts: Iterable[Script], steps: Iterable[Step]) -> int:
    odd = sum((script.interactive, script.think_seconds > 0, script.parks).count(True) for script in scripts)
    odd += sum(task.delay_seconds > 0 for task in play.tasks)
    return odd + sum(map(_message_oddities, play.messages)) + sum(map(_step_oddities, steps))


def _message_oddities(message: ScheduledMessage) -> int:
    odd = (message.delay_seconds > 0) + (message.posts - 1) + (message.payload is not None)
    return odd + (message.kind in ("cancel", "close") and bool(message.text))


def _step_oddities(step: Step) -> int:
    match step:
        case Tools(calls=calls):
            return sum(map(_call_oddities, calls))
        case Say(odd=odd, chars=chars):
            return (odd is not None) + (chars > 0)
        case Fail(times=times) | Cut(times=times) | Empty(times=times):
            return 1 + (times or 0)
        case _:
            return 1


def _call_oddities(call: Call) -> int:
    if call.asked is not None:
        return 1 + _asked_oddities(call.asked)
    arguments = call.arguments
    odd = (call.tool != PLAINEST) + (arguments.odd is not None) + (arguments.chars > 0)
    odd += 0 if arguments.gate is None else len(arguments.gate.split("_"))
    return odd + unevenness(arguments.seconds) + arguments.dies_through_start


def _asked_oddities(asked: Asked) -> int:
    match asked:
        case Agent(background=background):
            return int(background)
        case AgentGroup():
            return 1
        case Handback(odd=odd):
            return odd is not None
        case Timer(seconds=seconds):
            return _wait_oddities(seconds)
        case Question(timeout_seconds=limit, odd=odd):
            return (odd is not None) + _limit_oddities(limit)
        case AwaitEvent(timeout_seconds=limit):
            return _limit_oddities(limit)
        case Shell(lines=lines, every_seconds=pause, exit_code=code, stubborn=stubborn):
            often = LINES_SHOWN_MAX if lines is None else min(lines, LINES_SHOWN_MAX)
            return often + _wait_oddities(pause) + (code != 0) + stubborn
        case Cron() | ReadJob() | StopJob() | StopCron():
            return 0


def _limit_oddities(seconds: float | None) -> int:
    return 0 if seconds is None else 1 + _wait_oddities(seconds)


def _wait_oddities(seconds: float) -> int:
    """A wait of a round span is over soon and easy to read."""
    return unevenness(seconds) + (seconds > ROUND_SECONDS)


def _trimmings(fault: Fault) -> int:
    spans = [value for name, value in fault.args.items() if name != "seconds_max" and isinstance(value, int | float)]
    return (SPARE in fault.args) + sum(map(unevenness, spans))


def unevenness(seconds: float) -> int:
    """How hard a span is to read: none at all, a round one, whole seconds, any."""
    if seconds == 0:
        return 0
    if seconds % ROUND_SECONDS == 0:
        return 1
    return 2 if seconds == int(seconds) else 3


def _plural(count: int, word: str) -> str:
    if count == 1:
        return word
    return f"{word}es" if word.endswith("ch") else f"{word}s"
