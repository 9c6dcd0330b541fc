"""A story as lines of text, as wide as they may be, and what each line is, for whoever colours them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from noeta.core.events import TaskFailed, TurnFailed
from noeta.story.parts import Between, Claimed, LeftOut, Line, Part, Struck
from noeta.story.text import clock

WIDTH_MIN: Final = 40
"""Narrower than this, clock and seq would leave no room for words."""


class Look(Enum):
    """What a line is."""

    HEAD = "head"
    PLAIN = "plain"
    CLAIM = "claim"
    BETWEEN = "between"
    STRUCK = "struck"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Shown:
    """One line."""

    text: str
    look: Look = Look.PLAIN


def story_lines(parts: Sequence[Part], width: int | None = None) -> list[Shown]:
    """The parts as lines. ``width`` in characters: longer lines are broken, with nothing lost; None: they are not."""
    clocks = [clock(part.since) for part in parts if isinstance(part, Line | Struck)]
    seqs = [len(str(part.entry.seq)) for part in parts if isinstance(part, Line)]
    layout = _Layout(max(map(len, clocks), default=0), max(seqs, default=1), width)
    return [line for part in parts for line in layout.lines(part)]


def broken(lines: Iterable[str], width: int | None, look: Look = Look.PLAIN) -> Iterator[Shown]:
    """Lines that stand alone, as wide as they may be."""
    for line in lines:
        yield from _broken(line, "", width, look)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How wide the columns are."""

    clock: int
    seq: int
    width: int | None

    def lines(self, part: Part) -> Iterator[Shown]:
        match part:
            case Claimed(epoch=epoch, words=words):
                yield from _broken(f"epoch {epoch}, {words}", "", self.width, Look.CLAIM)
            case Line(entry=entry, since=since, words=words):
                look = Look.FAILED if isinstance(entry.event, TurnFailed | TaskFailed) else Look.PLAIN
                yield from self._row(clock(since), str(entry.seq), words, look)
            case Struck(since=since, words=words):
                yield from self._row(clock(since), "!", words, Look.STRUCK)
            case Between(words=words, why=why):
                for sentence in (words, *why):
                    yield from _broken(sentence, "    ~ ", self.width, Look.BETWEEN)
            case LeftOut(lines=lines):
                yield Shown(f"    … {lines:,} {'line' if lines == 1 else 'lines'} left out", Look.BETWEEN)
            case _:
                assert_never(part)

    def _row(self, at: str, seq: str, words: str, look: Look) -> Iterator[Shown]:
        return _broken(words, f"  {at:>{self.clock}}  {seq:>{self.seq}}  ", self.width, look)


def _broken(words: str, before: str, width: int | None, look: Look) -> Iterator[Shown]:
    if width is None or len(before) + len(words) <= width:
        yield Shown(before + words, look)
        return
    hanging = " " * max(len(before), 4)
    for text in textwrap.wrap(
        words,
        max(width, WIDTH_MIN),
        initial_indent=before,
        subsequent_indent=hanging,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    ):
        yield Shown(text, look)
