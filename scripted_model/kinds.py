"""How the script of each kind of task is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from noeta.core.texts import MAX_EMPTY_REPLIES, MAX_TRUNCATED_REPLIES
from noeta.core.tool import MAX_ATTEMPTS
from scripted_model.background_kinds import BACKGROUND_BUILDERS
from scripted_model.drawing import Drawing
from scripted_model.profile import Kind
from scripted_model.script import Cut, Empty, Fail, Kill, Odd, Say, Step, Tools, Turn
from scripted_model.waiting_kinds import WAITING_BUILDERS

_ODD: Final = tuple(Odd)


def _several(draw: Drawing) -> tuple[Turn, ...]:
    calls = [draw.ordinary() for _ in range(draw.stream.between(1, 3))]
    calls += [draw.call("failing"), draw.slow()]
    return draw.about(Tools(tuple(draw.stream.shuffled(calls))), Tools((draw.ordinary(), draw.ordinary())))


def _odd(draw: Drawing) -> tuple[Turn, ...]:
    first, second = draw.stream.choice(_ODD), draw.stream.choice(_ODD)
    calls = (draw.call("plain", odd=Odd.SURROGATE), draw.call("failing", odd=first))
    return (
        Turn(
            (
                Tools(calls),
                Tools((draw.call("recoverable", odd=second), draw.call("big_output", odd=Odd.NUL))),
                *draw.padding(),
                Say(odd=draw.stream.choice(_ODD)),
            )
        ),
    )


def _long(draw: Drawing) -> tuple[Turn, ...]:
    big = Tools((draw.call("big_output", chars=draw.long_chars()), draw.ordinary()))
    return (Turn((*draw.padding(), big, *draw.padding(), Say(chars=draw.long_chars()))),)


def _noted(draw: Drawing) -> tuple[Turn, ...]:
    draw.notes += [1] * draw.stream.between(1, 2)
    return draw.about(Tools((draw.slow(),)))


def _killer_recoverable(draw: Drawing) -> tuple[Turn, ...]:
    # One whose outcome the journal tells in any case; sometimes one more, of which it may know nothing.
    steps = [Tools((draw.call("killer_recoverable", dies_through_start=1, dies="after"),))]
    if draw.stream.chance(0.4):
        steps.append(Tools((draw.killer("killer_recoverable", 1),)))
    return draw.about(*steps)


def _killer_model(draw: Drawing) -> tuple[Turn, ...]:
    return draw.up_to(*([Fail(1)] if draw.stream.chance(0.3) else []), Kill())


def _errors_below(draw: Drawing) -> tuple[Turn, ...]:
    # Two are enough to see the backoff; more only takes time.
    most = min(2, draw.profile.retry_attempts - 1)
    steps = [Fail(draw.stream.between(1, most)), Tools((draw.ordinary(),)), *draw.padding()]
    return (Turn((*steps, Fail(draw.stream.between(1, most)), Say())),)


def _errors_bound(draw: Drawing) -> tuple[Turn, ...]:
    last_chance = Fail(draw.profile.retry_attempts - 1)
    return draw.up_to(last_chance, Tools((draw.ordinary(),)), Fail(None, retryable=draw.stream.chance(0.7)))


def _empty(draw: Drawing) -> tuple[Turn, ...]:
    below = Empty(draw.stream.between(1, MAX_EMPTY_REPLIES - 1))
    return (Turn((below, Tools((draw.ordinary(),)), *draw.padding(), Empty())),)


def _cut_below(draw: Drawing) -> tuple[Turn, ...]:
    cut = Cut(draw.stream.between(1, MAX_TRUNCATED_REPLIES - 1))
    # Twice, with calls between: the count is of replies in a row.
    return (Turn((cut, Tools((draw.ordinary(),)), Cut(MAX_TRUNCATED_REPLIES - 1), *draw.padding(), Say())),)


def _interactive(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = True
    turns = []
    count = draw.stream.between(2, 4)
    for number in range(1, count + 1):
        noted = number == 1 or draw.stream.chance(0.5)
        draw.notes += [number] * (draw.stream.between(1, 3) if noted else 0)
        # Something slow, so that notes find the task running.
        middle = [Tools((draw.slow(),))] if noted else []
        odd = draw.stream.choice(_ODD) if draw.stream.chance(0.2) else None
        turns.append(Turn((*draw.padding(), *middle, *draw.padding(), Say(odd=odd))))
    return tuple(turns)


def _interactive_hurt(draw: Drawing) -> tuple[Turn, ...]:
    draw.interactive = True
    hurts: list[Step] = [Fail(), Fail(None, retryable=False), Cut(), Empty(), Kill()]
    turns = []
    # No notes: one that comes after a failed turn opens it again, and it fails once more than foretold.
    for hurt in draw.stream.shuffled(hurts)[:2]:
        turns.append(Turn((Tools((draw.ordinary(),)), *draw.padding(1), hurt)))
    turns.append(Turn((Tools((draw.ordinary(),)), Say())))
    return tuple(turns)


BUILDERS: Final[Mapping[Kind, Callable[[Drawing], tuple[Turn, ...]]]] = MappingProxyType(
    {
        Kind.PLAIN: lambda draw: draw.about(Tools((draw.call("plain"),)), Tools((draw.call("plain"),))),
        Kind.RETRY_SAFE: lambda draw: draw.about(Tools((draw.call("retry_safe"), draw.call("retry_safe")))),
        Kind.RECOVERABLE: lambda draw: draw.about(Tools((draw.call("recoverable"),)), Tools((draw.ordinary(),))),
        Kind.SLOW: lambda draw: draw.about(Tools((draw.slow("slow"),)), Tools((draw.slow("slow_retry_safe"),))),
        Kind.SEVERAL_CALLS: _several,
        Kind.ODD_TEXT: _odd,
        Kind.LONG_TEXT: _long,
        Kind.NOTED: _noted,
        Kind.KILLER_PLAIN: lambda draw: draw.about(Tools((draw.killer("killer", 1),))),
        Kind.KILLER_RETRY_SAFE: lambda draw: draw.about(
            Tools((draw.killer("killer_retry_safe", draw.stream.between(1, MAX_ATTEMPTS - 1)),))
        ),
        Kind.KILLER_BOUND: lambda draw: draw.about(Tools((draw.killer("killer_retry_safe", MAX_ATTEMPTS),))),
        Kind.KILLER_RECOVERABLE: _killer_recoverable,
        Kind.KILLER_MODEL: _killer_model,
        Kind.ERRORS_BELOW: _errors_below,
        Kind.ERRORS_BOUND: _errors_bound,
        Kind.CUT_BELOW: _cut_below,
        Kind.CUT_BOUND: lambda draw: draw.up_to(Cut()),
        Kind.EMPTY: _empty,
        Kind.INTERACTIVE: _interactive,
        Kind.INTERACTIVE_HURT: _interactive_hurt,
        **WAITING_BUILDERS,
        **BACKGROUND_BUILDERS,
    }
)
"""How each kind is drawn: the turns; what is said and whether the task is interactive stand in the drawing."""
