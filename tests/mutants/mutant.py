"""What a planted bug is, as data: what it replaces, the promise it breaks, and what finds it fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

Where = Literal["store", "runner", "worker", "server"]
Detector = Literal["contract", "race", "sim", "storm"]
DETECTORS: Final[tuple[Detector, ...]] = ("contract", "race", "sim", "storm")

Edit = tuple[str, str]
"""Old text, new text. The old text must be there."""

MEMORY: Final = "noeta.backends.stores.memory"
RUNNER: Final = "noeta.core.runner.runner"
DESK: Final = "noeta.core.runner.desk"
CALLS: Final = "noeta.core.runner.calls"
LOWER: Final = "noeta.core.lower"
SIM_ONLY: Final = "comes-to-an-end"
"""The simulator's own finding: a run that came to no end."""

LOOP_ENDS: Final = "loop-outlives"
"""Another: an activity of a worker ended with an error."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Text replaced in the source of one function. ``path``: the attribute path inside the module."""

    module: str
    path: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Swap:
    """An attribute replaced by what ``make`` makes of it."""

    module: str
    path: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Quick:
    """What catches the bug within seconds, for `make check`.

    ``tests``: node ids of the contract, one of which must fail. ``sim``: (case, mode) of the exhaustive search,
    which must be invalid. ``race``: the scene of the race matrix that shows it first.
    """

    tests: tuple[str, ...] = ()
    sim: tuple[str, str] | None = None
    race: str | None = None


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug. ``extra``: not one of the fourteen that the harness must catch."""

    name: str
    title: str
    promise: str
    where: Where
    sql: tuple[Edit, ...] = ()
    python: tuple[Lines | Swap, ...] = ()
    laws: tuple[str, ...] = ()
    quick: Quick = Quick()
    extra: bool = False

    @property
    def convicting(self) -> frozenset[str]:
        """Laws whose anomaly is a catch for the right reason."""
        return frozenset({self.promise, *self.laws})


MEMORY_CONTRACT: Final = "tests/contract/test_memory_contract.py::TestMemoryStore::"
