"""Draws that a seed repeats: the same in every Python version and under any PYTHONHASHSEED.

Every stream is named, and its seed is derived from the root seed and the name, so a new stream changes no
other draw. Only ``Random.random()`` is used: the language promises its sequence for a given seed, while
``choice``, ``sample`` and ``shuffle`` have changed before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def child_seed(seed: int | str, name: str) -> str:
    """The seed of a part, by the part's name: a root seed again, of any depth."""
    return f"{seed}/{name}"


class Stream:
    """The draws of one named stream, in order."""

    __slots__ = ("_random",)

    def __init__(self, seed: int | str, name: str) -> None:
        digest = hashlib.sha256(child_seed(seed, name).encode()).digest()
        self._random = Random(int.from_bytes(digest, "big"))

    def below(self, bound: int) -> int:
        """A whole number from 0 up to, not including, ``bound``."""
        assert bound >= 1
        return int(self._random.random() * bound)

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def seconds(self, low: float, high: float) -> float:
        """A span, in whole milliseconds so that it prints the same everywhere."""
        return round(low + (high - low) * self._random.random(), 3)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, each as likely."""
        return options[self.below(len(options))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, as likely as its weight, in the mapping's order."""
        left = self.below(sum(weights.values()))
        for option, weight in weights.items():
            left -= weight
            if left < 0:
                return option
        raise AssertionError("weights add up to more than their sum")

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in another order (Fisher and Yates)."""
        mixed = list(options)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed
