"""A kept schedule, played again by those who keep it: does it still strike, and is it survived now?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from invariants import Verdict
from noeta.chaos.schedule import AtPoint, Schedule, from_json
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.silence import silence


@dataclass(frozen=True, slots=True)
class Replayed:
    """A schedule, played again. ``unknown`` if it plans strikes and none of them came about: then it shows nothing.
    ``why``: the reasons for a verdict that is not valid, a line each."""

    verdict: Verdict
    why: tuple[str, ...]
    planned: int
    struck: int


def replay_text(text: str | bytes) -> Replayed:
    """Play a schedule again, given as JSON.

    Raises:
        BadInput: it is none, or its app cannot be loaded.
    """
    schedule = from_json(text)
    with quiet():
        result = replay(schedule)
    planned = len(list(anchors(schedule)))
    if result.verdict is Verdict.VALID and planned and not result.struck:
        why = f"none of its {planned} strikes came about: the app has changed, and this schedule shows nothing any more"
        return Replayed(Verdict.UNKNOWN, (why,), planned, 0)
    return Replayed(result.verdict, tuple(result.why()), planned, len(result.struck))


def anchors(schedule: Schedule) -> Iterator[AtPoint]:
    """Where the faults of a schedule stand, as far as they stand at a point."""
    for fault in schedule.faults:
        if isinstance(fault.anchor, AtPoint):
            yield fault.anchor


@contextmanager
def quiet() -> Iterator[None]:
    """`silence` for a while: this may be the process of somebody's tests, which read what noeta logs."""
    logger = logging.getLogger("noeta")
    before = logger.level
    silence()
    try:
        yield
    finally:
        logger.setLevel(before)
