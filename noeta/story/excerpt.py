"""A part of a long story: what lies around some of its entries, bounded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from noeta.story.parts import Between, Claimed, LeftOut, Line, Part, Struck

NEARER: Final = 3
"""What lies between claims and what struck is worth as much as an entry this many times nearer."""


def excerpt(parts: Sequence[Part], seqs: Collection[int], instants: Collection[int], *, most: int) -> list[Part]:
    """At most so many parts: those around the entries with these seqs, and around those written last by these instants;
    of a story that has none of them, its end. Each claim that is shown has its heading; gaps are counted."""
    if not parts:
        return []
    goals = _goals(parts, seqs, instants)
    headings = _headings(parts)

    def distance(place: int) -> float:
        near = min(abs(place - goal) for goal in goals)
        return near / NEARER if isinstance(parts[place], Between | Struck) else float(near)

    kept: set[int] = set()
    for place in sorted(range(len(parts)), key=distance):
        more = kept | {place, headings[place]}
        if len(_with_gaps(parts, more)) > most:
            break
        kept = more
    return _with_gaps(parts, kept)


def _goals(parts: Sequence[Part], seqs: Collection[int], instants: Collection[int]) -> list[int]:
    lines = [(place, part.entry) for place, part in enumerate(parts) if isinstance(part, Line)]
    goals = [place for place, entry in lines if entry.seq in seqs]
    for at in instants:
        goals += [place for place, entry in lines if entry.at <= at][-1:]
    return goals or [len(parts) - 1]


def _headings(parts: Sequence[Part]) -> list[int]:
    """For each part the place of its claim's heading; what lies before a claim belongs to that claim."""
    places: list[int] = []
    current = 0
    for place, part in enumerate(parts):
        if isinstance(part, Claimed):
            current = place
        elif isinstance(part, Between) and place + 1 < len(parts) and isinstance(parts[place + 1], Claimed):
            current = place + 1
        places.append(current)
    return places


def _with_gaps(parts: Sequence[Part], kept: Collection[int]) -> list[Part]:
    shown: list[Part] = []
    gap = 0
    for place, part in enumerate(parts):
        if place not in kept:
            gap += 1
            continue
        if gap:
            shown.append(LeftOut(gap))
        gap = 0
        shown.append(part)
    return [*shown, LeftOut(gap)] if gap else shown
