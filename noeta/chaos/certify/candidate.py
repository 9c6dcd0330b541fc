"""The store that is certified: a user's function, what it says of itself, and the stores made with it.

What does not hold for a store is an attribute of the function:

* ``shared = False``: it lives in one process. Parts that need several are not covered.
* ``remove(place)``: takes away what is kept elsewhere than in the directory (a schema on a server).
* ``empty(place)``: makes a used place as good as new, for stores whose places are dear.
"""

from __future__ import annotations

import inspect
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from noeta.backends.factory import check_factory
from noeta.core.errors import BadInput
from noeta.core.store import Store
from noeta.testing.clock import ManualClock

MakeStore = Callable[..., Store]
KNOWN: Final = {name: f"noeta.chaos.certify.known:{name}" for name in ("memory", "sqlite", "postgres")}
"""Stores of this project, by the name that stands for their function."""


def _nothing(place: str) -> None:
    """What is removed for a store that keeps everything in its directory."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A loaded function. ``name``: as it was asked for; ``module``, ``function``: where it is."""

    name: str
    module: str
    function: str
    make: MakeStore
    shared: bool
    remove: Callable[[str], object]
    empty: Callable[[str], object] | None

    @property
    def address(self) -> str:
        """What ``--store`` of the other commands takes, up to the place."""
        return f"factory:{self.module}:{self.function}:"


def load(name: str) -> Candidate:
    """The candidate of ``MODULE:FUNCTION``, or of one of this project's stores by name. Nothing is made yet.

    Raises:
        BadInput: it is neither, or says of itself what nobody understands.
    """
    module, colon, function = KNOWN.get(name, name).partition(":")
    if not colon or not module or not function.isidentifier():
        raise BadInput("store", f"expected MODULE:FUNCTION or one of {', '.join(KNOWN)}, found {name!r}")
    make: Any = check_factory(module, function)
    shared = getattr(make, "shared", True)
    if not isinstance(shared, bool):
        raise BadInput(f"{function}.shared", f"expected True or False, found {shared!r}")
    try:
        inspect.signature(make).bind("place", clock=None)
    except (TypeError, ValueError) as error:
        raise BadInput(name, f"expected {function}(place, clock=None) -> Store: {error}") from error
    remove, empty = getattr(make, "remove", _nothing), getattr(make, "empty", None)
    for field, hook in (("remove", remove), ("empty", empty)):
        if hook is not None and not callable(hook):
            raise BadInput(f"{function}.{field}", f"expected a function of a place, found {hook!r}")
    return Candidate(name, module, function, make, shared, remove, empty)


class Places:
    """Empty directories for one candidate under ``root``, removed when they are given back."""

    def __init__(self, candidate: Candidate, root: Path) -> None:
        self._candidate = candidate
        self._root = root

    def fresh(self) -> str:
        """A place nobody was at."""
        place = self._root / uuid.uuid4().hex[:12]
        place.mkdir(parents=True)
        return str(place)

    def give_back(self, place: str) -> None:
        """Remove what is there; every store at it was closed."""
        self._candidate.remove(place)
        shutil.rmtree(place)

    def renewed(self, place: str | None) -> str:
        """A place as good as a fresh one, instead of this one."""
        if place is None:
            return self.fresh()
        if self._candidate.empty is not None:
            self._candidate.empty(place)
            return place
        self.give_back(place)
        return self.fresh()


class CandidateFactory:
    """Implements ``noeta.testing.store_contract.StoreFactory`` over a candidate."""

    def __init__(self, candidate: Candidate, places: Places) -> None:
        self._candidate = candidate
        self._places = places
        self._place: str | None = None
        self._clock = ManualClock()
        self._handles: list[Store] = []

    def make(self) -> Store:
        self._close_handles()
        self._place = self._places.renewed(self._place)
        self._clock = ManualClock()
        return self._open()

    def another(self) -> Store:
        return self._open() if self._candidate.shared else self._handles[-1]

    def clock(self) -> ManualClock:
        return self._clock

    def close(self) -> None:
        self._close_handles()
        if self._place is not None:
            self._places.give_back(self._place)
            self._place = None

    def _open(self) -> Store:
        store = self._candidate.make(self._place, self._clock.now)
        self._handles.append(store)
        return store

    def _close_handles(self) -> None:
        handles, self._handles = self._handles, []
        for store in handles:
            store.close()


class SimulatedStores:
    """Makes a candidate's store for one execution of the simulator after another, on the simulation's clock."""

    def __init__(self, candidate: Candidate, places: Places) -> None:
        self._candidate = candidate
        self._places = places
        self._place: str | None = None

    def __call__(self, clock: Callable[[], float]) -> Store:
        """An empty store; the one before was closed by its execution."""
        self._place = self._places.renewed(self._place)
        return self._candidate.make(self._place, clock)

    def close(self) -> None:
        """Remove the last place."""
        if self._place is not None:
            self._places.give_back(self._place)
