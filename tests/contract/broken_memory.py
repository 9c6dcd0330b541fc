"""Memory stores with one planted bug each, beside a true one: only the candidate of a comparison is broken.

A bug of `tests/mutants/catalogue.py` is planted in copies of the modules, so that the reference stays as it is.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import FunctionType, ModuleType
from typing import Final

from noeta.backends.stores import memory
from noeta.core import rules, task
from noeta.core.store import Store
from noeta.testing.clock import ManualClock
from tests.mutants.catalogue import MUTANTS, Lines, Mutant, Swap
from tests.mutants.plant import look_up, rewritten

TABLE: Final = (task.__name__, "TRANSITIONS")

RACES: Final = frozenset({"claim-without-row-lock"})
"""Bugs that one caller alone cannot meet: the race matrix is there for them."""

COPIED: Final = frozenset({rules.__name__, memory.__name__})


def _in_memory(mutant: Mutant) -> bool:
    """Whether some of it is in the memory store: what stands in ``core`` alone is broken in the reference, too."""
    return any(
        patch.module in COPIED or (isinstance(patch, Swap) and (patch.module, patch.path) == TABLE)
        for patch in mutant.python
    )


RARE: Final = frozenset({"resume-fires-early"})
"""Found too, but only after minutes: a kept row with a timer far ahead is seldom resumed. Asked about only where the
examples are given (``NOETA_MODEL_EXAMPLES``)."""

SEQUENTIAL: Final[tuple[Mutant, ...]] = tuple(
    mutant
    for mutant in MUTANTS
    if mutant.where == "store"
    and _in_memory(mutant)
    and mutant.name not in RACES
    and (mutant.name not in RARE or "NOETA_MODEL_EXAMPLES" in os.environ)
)
"""Bugs of the memory store that show in some sequence of calls."""


class BrokenFactory:
    """Implements ``noeta.testing.store_contract.StoreFactory`` over a memory store with this bug."""

    def __init__(self, mutant: Mutant) -> None:
        self._module = broken(mutant)
        self.make()

    def make(self) -> Store:
        self._clock = ManualClock()
        store: Store = self._module.MemoryStore(self._clock.now)
        self._store = store
        return store

    def another(self) -> Store:
        return self._store

    def clock(self) -> ManualClock:
        return self._clock

    def close(self) -> None:
        self._store.close()


def broken(mutant: Mutant) -> ModuleType:
    """A copy of the memory store's module with the bug in it.

    Raises:
        LookupError: no part of the bug is in the memory store.
    """
    copies = {module.__name__: _copy(module, mutant.name) for module in (rules, memory)}
    store = copies[memory.__name__]
    for name, value in list(vars(store).items()):
        if value is rules:
            vars(store)[name] = copies[rules.__name__]
        elif getattr(value, "__module__", None) == rules.__name__:
            vars(store)[name] = getattr(copies[rules.__name__], value.__name__)
    planted = 0
    for patch in mutant.python:
        if isinstance(patch, Swap) and (patch.module, patch.path) == TABLE:
            names = {**vars(task), "TRANSITIONS": patch.make(task.TRANSITIONS)}
            for copy in copies.values():
                vars(copy)["step"] = FunctionType(task.step.__code__, names)
        elif patch.module in copies:
            copy = copies[patch.module]
            owner, attribute, found = look_up(copy, patch.path)
            made = rewritten(mutant.name, copy, found, patch) if isinstance(patch, Lines) else patch.make(found)
            setattr(owner, attribute, made)
        else:
            continue
        planted += 1
    if not planted:
        raise LookupError(f"{mutant.name}: nothing of it is in the memory store")
    return store


def _copy(module: ModuleType, name: str) -> ModuleType:
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name}.{module.__name__}", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = copy  # where inspect looks for the source of its classes
    spec.loader.exec_module(copy)
    return copy
