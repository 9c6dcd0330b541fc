"""What a comparison has counted until its first failure, that failure, and when its time is over."""

from __future__ import annotations

import time
from collections import Counter

from noeta.testing.model_based.pair import Found


class TimeIsOver(BaseException):
    """Ends a comparison between two examples. No ``Exception``: hypothesis would take that for a failure."""


class Progress:
    """Shared by all examples of one comparison. ``seconds``: for the search, and again for shrinking."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._step = 0
        self.is_over = False
        self.examples = 0
        self.calls: Counter[str] = Counter()
        self.situations: Counter[str] = Counter()
        self.freedoms: Counter[str] = Counter()
        self.found: Found | None = None
        self.first = (0, 0)
        """Example and call of the failure, from 1."""

    def begin(self) -> None:
        """An example begins.

        Raises:
            TimeIsOver.
        """
        if self.time_is_over():
            self.is_over = True
            raise TimeIsOver
        self._step = 0
        if self.found is None:
            self.examples += 1

    def count_call(self, verb: str) -> None:
        self._step += 1
        self._count(self.calls, verb)

    def count_situation(self, name: str) -> None:
        self._count(self.situations, name)

    def count_freedom(self, name: str) -> None:
        self._count(self.freedoms, name)

    def fail(self, found: Found) -> None:
        """The two stores differ. The first difference is kept; what is left of the time is for making it small."""
        if self.found is None:
            self.found = found
            self.first = self.examples, self._step
            self._until = time.monotonic() + self._seconds

    def time_is_over(self) -> bool:
        return time.monotonic() > self._until

    def _count(self, counter: Counter[str], name: str) -> None:
        if self.found is None:  # what hypothesis repeats says nothing about how much was compared
            counter[name] += 1
