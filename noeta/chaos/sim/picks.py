"""Who goes on next: the pickers of the simulator's scheduler.

Each is a function of its seed and of what it is asked. Whatever a picker decides, the scheduler notes what
first-come-first-served would not have done (``Turn``), and ``replay`` decides that again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from noeta.chaos.schedule import Turn
from noeta.chaos.sim.scheduler import Activity, Pick, Scheduler
from scripted_model.seeds import Stream

PRIORITIES: Final = 1_000_000_000
"""Priorities are drawn below this; a demoted activity gets one below zero."""


def at_random(draws: Stream) -> Pick:
    """Any of the ready ones, each as likely."""
    return lambda ready: draws.below(len(ready))


def replay(turns: Iterable[Turn], scheduler: Scheduler) -> Pick:
    """What was noted, where it comes about; first come, first served otherwise."""
    noted = {(turn.activity, turn.resumed, turn.passed) for turn in turns}
    resumed = scheduler.resumed

    def pick(ready: Sequence[Activity]) -> int:
        for place, activity in enumerate(ready):
            if (activity.key, resumed[activity.key] + 1, activity.passed) in noted:
                return place
        return 0

    return pick


class ByPriority:
    """PCT: the ready activity of the highest priority goes on; priorities are drawn at birth, and at ``depth - 1``
    choices drawn beforehand among ``choices`` the one that would go on falls below all that have not fallen.

    Of n activities and the first k = ``choices`` choices one execution meets a given bug of depth d with a chance of
    at least 1 / (n k^(d-1)). After Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized scheduler with
    probabilistic guarantees of finding bugs" (ASPLOS 2010).
    """

    def __init__(self, draws: Stream, *, depth: int, choices: int) -> None:
        self.choices = 0
        """Choices made so far."""
        self._draws = draws
        self._priorities: dict[str, int] = {}
        # Who falls later need not fall deeper: with falls that only go down, some orders could never come about.
        self._falls = {draws.between(1, max(1, choices)): -number for number in range(1, depth)}

    @property
    def activities(self) -> int:
        """How many activities had a priority."""
        return len(self._priorities)

    def __call__(self, ready: Sequence[Activity]) -> int:
        self.choices += 1
        for activity in ready:
            if activity.key not in self._priorities:
                self._priorities[activity.key] = self._draws.below(PRIORITIES)
        first = self._highest(ready)
        if self.choices in self._falls:
            self._priorities[ready[first].key] = self._falls[self.choices]
            first = self._highest(ready)
        return first

    def _highest(self, ready: Sequence[Activity]) -> int:
        return max(range(len(ready)), key=lambda place: (self._priorities[ready[place].key], -place))


def chance_of_missing(*, activities: int, choices: int, depth: int, executions: int) -> float:
    """An upper bound of the chance that so many executions of ``ByPriority`` all missed a bug of this depth."""
    chance = 1.0 / (max(1, activities) * max(1, choices) ** (depth - 1))
    return float((1.0 - chance) ** executions)
