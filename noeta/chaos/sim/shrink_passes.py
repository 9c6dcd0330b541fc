"""The passes that leave something out of a failing schedule, or make it plainer.

Each asks of candidate after candidate whether it still fails, and goes on from what an accepted one really did. What
is left out moves the counts by which faults are anchored, so a candidate is tried with its faults named in several
ways: by count, by what they hit, and by what they hit whoever comes there. The id of a sub-agent is a count, too: it
holds the place of the call that delegates. So what hits one is also named by what it wrote alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from noeta.chaos.schedule import Fault, Kind, Play, Schedule
from noeta.chaos.sim.shrink_order import strikes_in
from noeta.chaos.sim.shrink_scripts import edits, renamed
from noeta.chaos.sim.shrink_turns import rounder
from noeta.chaos.sim.strikes import SPARE
from noeta.chaos.sim.watch import Watched
from noeta.core.texts import MAX_MODEL_ATTEMPTS

T = TypeVar("T")

change = msgspec.structs.replace


class Hunt(Protocol):
    """What a pass works on."""

    @property
    def best(self) -> Schedule:
        """The smallest failing schedule so far."""
        ...

    @property
    def watched(self) -> Watched:
        """The best one, played under observation."""
        ...

    def tries(self, candidate: Schedule) -> bool:
        """Play it; whether it breaks the law and is smaller, so that it is the best now."""
        ...


Leave = Callable[[Sequence[T]], Iterator[Schedule]]
"""From what is to be left in to the schedules without the rest."""


def no_turns(hunt: Hunt) -> None:
    """First come, first served, from the beginning to the end."""
    hunt.tries(_with_play(hunt.best, turns=()))


def fewer_faults(hunt: Hunt) -> None:
    """Strikes left out."""

    def leave(left: Sequence[Fault]) -> Iterator[Schedule]:
        kept = {fault.id for fault in left}
        for faults in _anchored(hunt):
            chosen = tuple(fault for fault in faults if fault.kind is Kind.SKEW or fault.id in kept)
            yield change(hunt.best, faults=chosen)

    _fewer(hunt, strikes_in, leave)


def fewer_tasks(hunt: Hunt) -> None:
    """Tasks left out, with what is said to them."""

    def leave(left: Sequence[object]) -> Iterator[Schedule]:
        play = _play(hunt.best)
        tasks = tuple(task for task in play.tasks if task in left)
        if tasks:
            names = {task.id for task in tasks}
            messages = tuple(message for message in play.messages if message.task in names)
            yield from _each_way(hunt, change(play, tasks=tasks, messages=messages))

    _fewer(hunt, lambda best: _play(best).tasks, leave)


def fewer_messages(hunt: Hunt) -> None:
    """Notes, orders, and events that nobody waits for left out. The messages that start turns go with their turns,
    what a call waits for with the call."""

    def leave(left: Sequence[object]) -> Iterator[Schedule]:
        play = _play(hunt.best)
        messages = tuple(message for message in play.messages if message.kind == "turn" or message in left)
        yield from _each_way(hunt, change(play, messages=messages))

    _fewer(hunt, lambda best: [one for one in _play(best).messages if one.kind != "turn"], leave)


def fewer_workers(hunt: Hunt) -> None:
    """One worker is easiest to follow, then two."""
    for workers in range(1, _play(hunt.best).workers):
        if any(map(hunt.tries, _each_way(hunt, change(_play(hunt.best), workers=workers)))):
            return


def fewer_turns(hunt: Hunt) -> None:
    """Switches left out, in halves, quarters, … one by one."""
    _fewer(hunt, lambda best: _play(best).turns, lambda left: iter((_with_play(hunt.best, turns=tuple(left)),)))


def smaller_scripts(hunt: Hunt) -> None:
    """Turns, steps and calls left out of scripts, and plainer ones put in."""
    while any(hunt.tries(one) for play in edits(_play(hunt.best)) for one in _each_way(hunt, play)):
        pass


def plainer_faults(hunt: Hunt) -> None:
    """No spare worker, successors at once, round spans."""
    while any(
        hunt.tries(change(hunt.best, faults=tuple(plain if one is fault else one for one in hunt.best.faults)))
        for fault in strikes_in(hunt.best)
        for plain in _plainer(fault)
    ):
        pass


def true_clocks(hunt: Hunt) -> None:
    """Clocks that are right, and engines that are there at once."""
    if _play(hunt.best).unresolved:
        hunt.tries(_with_play(hunt.best, unresolved=0))

    def leave(left: Sequence[Fault]) -> Iterator[Schedule]:
        yield change(hunt.best, faults=(*left, *strikes_in(hunt.best)))

    _fewer(hunt, lambda best: [fault for fault in best.faults if fault.kind is Kind.SKEW], leave)


def strictly(hunt: Hunt) -> None:
    """Judged without excuses. Only with so few strikes that no bound is filled by them alone: with more, sound code
    would be convicted, too."""
    if len(strikes_in(hunt.best)) < MAX_MODEL_ATTEMPTS:
        hunt.tries(_with_play(hunt.best, lenient=False))


def short_names(hunt: Hunt) -> None:
    """Tasks are called t1, t2, …"""
    hunt.tries(renamed(hunt.best))


def _fewer(hunt: Hunt, items: Callable[[Schedule], Sequence[T]], leave: Leave[T]) -> None:
    """Leave out everything, then halves, quarters, … single ones, each as long as it fails without.

    After Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002).
    """
    chunk = len(items(hunt.best))
    while chunk:
        start = 0
        while start < len(all_items := items(hunt.best)):
            left = [*all_items[:start], *all_items[start + chunk :]]
            if not any(map(hunt.tries, leave(left))):
                start += chunk
        chunk //= 2


def _each_way(hunt: Hunt, play: Play) -> Iterator[Schedule]:
    """The best schedule with another play, its faults named in each way."""
    best = hunt.best
    for faults in _anchored(hunt):
        yield change(best, faults=faults, play=play)


def _anchored(hunt: Hunt) -> Iterator[tuple[Fault, ...]]:
    """The faults by count, by what they hit, by what they hit whoever comes there, and whatever sub-agent it is."""
    best = hunt.best
    yield best.faults
    struck = hunt.watched.struck
    skews = tuple(fault for fault in best.faults if fault.kind is Kind.SKEW)
    yield (*skews, *(one.by_facts for one in struck))
    yield (*skews, *(one.by_anybody for one in struck))
    if any(one.is_below for one in struck):
        yield (*skews, *(one.by_events for one in struck))


def _plainer(fault: Fault) -> Iterator[Fault]:
    args = dict(fault.args)
    if args.pop(SPARE, None) is not None:
        yield change(fault, args=args)
    if fault.args.get("respawn_seconds"):
        yield change(fault, args={**fault.args, "respawn_seconds": 0.0})
    if "seconds" in fault.args:
        for seconds in rounder(fault.seconds("seconds")):
            if seconds:  # in no time at all nothing goes wrong
                bound = {"seconds_max": seconds} if "seconds_max" in fault.args else {}
                yield change(fault, args={**fault.args, "seconds": seconds, **bound})


def _play(schedule: Schedule) -> Play:
    assert schedule.play is not None
    return schedule.play


def _with_play(schedule: Schedule, **changes: object) -> Schedule:
    return change(schedule, play=change(_play(schedule), **changes))
