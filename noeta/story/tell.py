"""From a log to its story: entries grouped by who held the task, and between them what was cut short and went on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from noeta.core.events import Ending, TaskCancelled, TaskCreated, TaskSuspended
from noeta.story.cut_short import cut_short
from noeta.story.entries import Teller
from noeta.story.parts import LOG_ALONE, Between, Claimed, Line, Mark, Part, Seen, Struck, Written
from noeta.story.text import span
from noeta.story.under_way import UnderWay

NOTHING_CUT_SHORT: Final = "nothing was cut short: it was given back, or lost between two steps"


@dataclass(slots=True)
class _Chapter:
    """One claim: what lay before it, who held it, what it wrote and what struck it. ``head`` None: no claim yet."""

    head: Claimed | None
    before: Between | None = None
    body: list[Part] = field(default_factory=list)

    def begins_by(self, at: int) -> bool:
        """Whether it had written by then."""
        return any(isinstance(part, Line) and part.entry.at <= at for part in self.body)


def tell(log: Sequence[Written], seen: Seen = LOG_ALONE) -> list[Part]:
    """The whole story: every entry is in it once, in the order of the log, whatever the log looks like."""
    if not log:
        return []
    chapters = list(_Telling(log, seen).chapters())
    for mark in sorted(seen.marks, key=lambda mark: mark.at):
        _put(mark, chapters, log[0].at)
    return [part for chapter in chapters for part in (chapter.before, chapter.head, *chapter.body) if part is not None]


class _Telling:
    """One pass over a log."""

    def __init__(self, log: Sequence[Written], seen: Seen) -> None:
        self._log, self._seen = log, seen
        self._teller, self._under_way = Teller(), UnderWay()
        self._wrote = {entry.epoch for entry in log}
        self._known = {*seen.holders, *(mark.epoch for mark in seen.marks if mark.epoch is not None)}

    def chapters(self) -> Iterator[_Chapter]:
        """The claims, in the order in which they wrote."""
        place = 0
        for epoch, group in groupby(self._log, key=lambda entry: entry.epoch):
            entries = list(group)
            chapter = _Chapter(Claimed(epoch, self._holder(epoch, entries)))
            chapters = [chapter]
            if place:
                silent = self._silent(self._log[place - 1].epoch, epoch)
                chapters = [*map(self._of_silent, filter(self._is_known, silent)), chapter]
                chapters[0].before = self._between(place, silent)  # what was cut short is told where it was
            for entry in entries:
                self._tell(chapter, entry, place)
                place += 1
            yield from chapters
        yield from self._open_end()

    def _tell(self, chapter: _Chapter, entry: Written, place: int) -> None:
        if place:
            last = self._log[place - 1]
            if last.epoch == entry.epoch and isinstance(last.event, TaskSuspended):
                rest = entry.at - last.at
                chapter.body.append(Between(rest, f"rested {span(rest)}, its worker keeping the claim"))
            if entry.seq != last.seq + 1:
                chapter.body.append(Between(0, f"the log jumps from seq {last.seq} to {entry.seq}"))
        chapter.body.append(Line(entry, entry.at - self._log[0].at, self._teller.tell(entry.event)))
        self._under_way.follow(entry)

    def _open_end(self) -> Iterator[_Chapter]:
        """Claims behind the last entry: they have written nothing so far."""
        last = self._log[-1]
        silent = [] if isinstance(last.event, Ending) else self._silent(last.epoch, self._seen.epoch + 1)
        if silent:
            why = (*self._seen.ends.get(last.epoch, ()), *self._cut_short(len(self._log)), *self._untold(silent))
            yield _Chapter(None, Between(0, "nothing was written since", why))
            yield from map(self._of_silent, filter(self._is_known, silent))

    # -- claims that wrote nothing -------------------------------------------------------------------------

    def _silent(self, after: int, before: int) -> list[int]:
        return [epoch for epoch in range(after + 1, before) if epoch not in self._wrote]

    def _is_known(self, epoch: int) -> bool:
        """Whether there is more to say of it than that it was."""
        return epoch in self._known

    def _of_silent(self, epoch: int) -> _Chapter:
        body: list[Part] = [Between(0, words) for words in self._seen.ends.get(epoch, ())]
        return _Chapter(Claimed(epoch, f"{self._holder(epoch, ())}, wrote nothing"), body=body)

    def _untold(self, silent: Sequence[int]) -> tuple[str, ...]:
        untold = [epoch for epoch in silent if not self._is_known(epoch)]
        if not untold:
            return ()
        if len(untold) == 1:
            return (f"the claim of epoch {untold[0]} wrote nothing",)
        return (f"{len(untold):,} claims wrote nothing, of epochs {untold[0]} to {untold[-1]}",)

    # -- between two claims --------------------------------------------------------------------------------

    def _between(self, place: int, skipped: Sequence[int]) -> Between:
        last, entry = self._log[place - 1], self._log[place]
        silent = entry.at - last.at
        ends, cut, nothing = self._seen.ends.get(last.epoch, ()), self._cut_short(place), self._untold(skipped)
        match last.event:
            case _ if entry.epoch < last.epoch:
                return Between(silent, f"silent for {span(silent)}", (*ends, "an older claim wrote behind a newer one"))
            case TaskCreated():
                return Between(silent, f"waited {span(silent)} for a worker", (*ends, *nothing))
            case TaskSuspended():
                return Between(silent, f"rested {span(silent)}", (*ends, *cut, *nothing))
            case _ if isinstance(last.event, Ending):
                return Between(silent, f"{span(silent)} after its end", (*ends, "something was written all the same"))
            case _:
                guess = () if cut or ends else (NOTHING_CUT_SHORT,)
                return Between(silent, f"silent for {span(silent)}", (*ends, *cut, *guess, *nothing))

    def _cut_short(self, place: int) -> tuple[str, ...]:
        return tuple(cut_short(self._under_way, self._log, place, self._teller))

    def _holder(self, epoch: int, entries: Sequence[Written]) -> str:
        worker = self._seen.holders.get(epoch)
        if worker is not None:
            return f"held by {worker}"
        if epoch == 0:
            return "before any worker"
        if entries and isinstance(entries[0].event, TaskCancelled):
            return "held by nobody, ended by an order"
        return "held by a worker that nobody saw" if self._seen.names_holders else "held by some worker"


def _put(mark: Mark, chapters: Sequence[_Chapter], began: int) -> None:
    """Put what struck behind the last line that was written by then: in the chapter of the claim that it hit, or in
    the last that had begun."""
    hit = [one for one in chapters if one.head is not None and mark.epoch in (None, one.head.epoch)]
    if not hit:
        return
    chapter = next((one for one in reversed(hit) if one.begins_by(mark.at)), hit[0])
    place = len(chapter.body)
    while place and not _is_by(chapter.body[place - 1], mark.at):
        place -= 1
    chapter.body.insert(place, Struck(mark.at, mark.at - began, mark.words))


def _is_by(part: Part, at: int) -> bool:
    """Whether it happened by then; what lay before a later line is later, too."""
    match part:
        case Line(entry=entry):
            return entry.at <= at
        case Struck(at=struck):
            return struck <= at
        case _:
            return False
