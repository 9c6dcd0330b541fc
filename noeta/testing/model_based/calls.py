"""One call of a store as data, and what became of it: the step that two stores are driven by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noeta.core.errors import NoetaError
from noeta.core.store import Store

ADVANCE: Final = "advance"
"""The one step that is no verb of a store: both clocks move on by the argument, in seconds."""


@dataclass(frozen=True, slots=True)
class Call:
    """A verb with its arguments. ``on_other``: through the second handle, as another process would."""

    verb: str
    arguments: tuple[object, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    on_other: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that raised. Its text is not kept: no promise is made about it."""

    kind: str
    code: str


def call(verb: str, *arguments: object, **options: object) -> Call:
    """A call through the first handle."""
    return Call(verb, arguments, tuple(options.items()))


def seconds_of(step: Call) -> float:
    """How far an ``ADVANCE`` goes."""
    (seconds,) = step.arguments
    assert isinstance(seconds, float), step
    return seconds


def perform(step: Call, store: Store) -> object:
    """What the store answers, or that it refused; so for each member of a tuple."""
    try:
        answer = getattr(store, step.verb)(*step.arguments, **dict(step.options))
    except Exception as error:  # whatever a store raises is its answer, and is compared
        return _refused(error)
    if isinstance(answer, tuple):
        return tuple(_refused(one) if isinstance(one, Exception) else one for one in answer)
    return answer


def _refused(error: Exception) -> Refused:
    return Refused(type(error).__name__, error.code if isinstance(error, NoetaError) else "")
