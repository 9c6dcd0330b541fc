"""What a story is made of: who held the task, what was written, what lay between, and what struck.

Instants and spans are in microseconds; instants by the store's clock unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from noeta.core.events import Event


class Written(Protocol):
    """An entry of a log, whoever read it."""

    @property
    def seq(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def at(self) -> int: ...

    @property
    def event(self) -> Event: ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """From here on the task is held under this epoch. ``words``: by whom, as far as anybody knows. A claim without a
    line after it has written nothing."""

    epoch: int
    words: str


@dataclass(frozen=True, slots=True)
class Line:
    """One entry. ``since``: how long after the first one it was written."""

    entry: Written
    since: int
    words: str


@dataclass(frozen=True, slots=True)
class Between:
    """What lay between two entries: a wait, or a claim that ended. ``silent``: how long nothing was written; ``words``
    names it. ``why``: a sentence for each thing that was cut short, and how it went on."""

    silent: int
    words: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Struck:
    """Something from outside the log: a fault that hit the holder, or its end. ``since`` as a line's."""

    at: int
    since: int
    words: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """So many lines of a longer story are not shown here."""

    lines: int


Part = Claimed | Line | Between | Struck | LeftOut


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that struck, to be put in its place. ``epoch``: of the claim that it hit; None: wherever its instant
    falls."""

    at: int
    words: str
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known besides the log. ``holders``: who held an epoch, in words. ``ends``: sentences about how its claim
    ended. ``epoch``: the newest there is. ``names_holders``: whether somebody wrote down who held what, so that an
    epoch without a holder is one that nobody saw."""

    holders: Mapping[int, str] = field(default_factory=dict)
    ends: Mapping[int, Sequence[str]] = field(default_factory=dict)
    marks: Sequence[Mark] = ()
    epoch: int = 0
    names_holders: bool = False


LOG_ALONE: Final = Seen()
"""Nothing but the log is known."""
