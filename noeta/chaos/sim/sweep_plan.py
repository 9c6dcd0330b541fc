"""What a sweep is asked to do, as data that goes to any process: the seeds, how they decide, and the units of work."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Final

import msgspec

from noeta.chaos.sim.fingerprint import code_fingerprint
from noeta.chaos.sim.seeded import PCT_DEPTH, Strategy
from noeta.core.errors import BadInput

CHUNK_SEEDS_MAX: Final = 25
"""Seeds of one unit: a second's work or less, so that little is lost with a process and little is said about it."""

CHUNKS_MIN: Final = 2
"""So many units at least, because each checks one of its seeds a second time."""


class Plan(msgspec.Struct, frozen=True):
    """The seeds from ``first`` to ``last``, both included. ``verify``: every seed runs twice.

    Raises:
        BadInput.
    """

    first: int
    last: int
    strategy: Strategy = Strategy.RANDOM
    pct_depth: int = PCT_DEPTH
    verify: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise BadInput("seeds", f"expected two whole numbers in order, from 0, found {self.first}..{self.last}")
        if self.pct_depth < 1:
            raise BadInput("pct_depth", f"expected at least 1, found {self.pct_depth}")

    @property
    def seeds(self) -> int:
        """How many."""
        return self.last - self.first + 1

    @property
    def name(self) -> str:
        """What its record is called."""
        return f"sweep-{self.strategy}-{self.first}-{self.last}"

    def units(self) -> Iterator[Unit]:
        """The work in parts. Where they begin and end depends on the plan alone, whoever runs them."""
        size = min(CHUNK_SEEDS_MAX, -(-self.seeds // CHUNKS_MIN))
        for first in range(self.first, self.last + 1, size):
            yield Unit(self, first, min(first + size - 1, self.last), code_fingerprint())


class Unit(msgspec.Struct, frozen=True):
    """Some seeds of a plan, both ends included, to be run by the code of this fingerprint and no other."""

    plan: Plan
    first: int
    last: int
    code: str


class Header(msgspec.Struct, frozen=True, tag="sweep"):
    """What must be equal for two parts of a sweep to belong together."""

    plan: Plan
    code: str
    python: str

    @classmethod
    def of(cls, plan: Plan) -> Header:
        """For this plan, here and now."""
        return cls(plan, code_fingerprint(), platform.python_version())

    def differs(self, other: Header) -> list[str]:
        """What is not the same, in words."""
        parts = (
            ("code", self.code != other.code),
            ("options", self.plan != other.plan),
            ("Python", self.python != other.python),
        )
        return [name for name, differs in parts if differs]
