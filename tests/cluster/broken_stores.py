"""Five stores that break one rule each, in the form that `noeta certify` takes: SQLite with one edit.

The edit is made in copies of its modules, so that the true store beside them stays as it is.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Final, TypeVar

from noeta.backends.stores import sqlite, sqlite_verbs
from noeta.backends.stores.around import AroundStore, Call
from noeta.core.errors import Conflict
from noeta.core.store import Store
from tests.mutants.mutant import Lines
from tests.mutants.plant import look_up, rewritten

T = TypeVar("T")
STORE, VERBS = sqlite.__name__, sqlite_verbs.__name__

NO_FENCE: Final = Lines(
    VERBS,
    "fenced",
    (("if not rules.holds(row, claim, tables.now):", "if False:"),),
)
CLAIMS_NOT_ATOMIC: Final = Lines(
    STORE,
    "SqliteStore.claim",
    (("            for row in found:\n", "        with self._writing() as tables:\n            for row in found:\n"),),
)
EARLY_WAKE_LOST: Final = Lines(
    VERBS,
    "apply",
    (("moved = write.inbox_seen is not None and row.inbox_seq > write.inbox_seen", "moved = False"),),
)
KNOWN: Final = """\
    if item.key is not None and tables.number_of_key(row.id, item.key) is not None:
        return "repeat"
"""
KNOWN_WHILE_UNREAD: Final = """\
    number = None if item.key is None else tables.number_of_key(row.id, item.key)
    if number is not None and tables.is_unread(row.id, number):
        return "repeat"
    if number is not None:
        from dataclasses import replace

        item = replace(item, key=None)
"""
DEDUPE_FORGOTTEN: Final = Lines(VERBS, "post", ((KNOWN, KNOWN_WHILE_UNREAD),))


def no_fence(place: str, clock: Callable[[], float] | None = None) -> Store:
    """A writer whose claim is gone writes all the same."""
    return made(NO_FENCE, place, clock)


def claims_not_atomic(place: str, clock: Callable[[], float] | None = None) -> Store:
    """What a claim takes was read in a transaction before the one that takes it."""
    return made(CLAIMS_NOT_ATOMIC, place, clock)


def early_wake_lost(place: str, clock: Callable[[], float] | None = None) -> Store:
    """A task suspends although what it waits for has come while it decided to."""
    return made(EARLY_WAKE_LOST, place, clock)


def dedupe_forgotten(place: str, clock: Callable[[], float] | None = None) -> Store:
    """A key is known only until its item was taken."""
    return made(DEDUPE_FORGOTTEN, place, clock)


def client_clock(place: str, clock: Callable[[], float] | None = None) -> Store:
    """Leases are compared with the clock of the process that asks, whatever clock it is given."""
    return sqlite.SqliteStore(f"{place}/tasks.db")


def nothing_is_written(place: str, clock: Callable[[], float] | None = None) -> Store:
    """Every append is refused, so that no task comes forward."""
    return RefusingStore(sqlite.SqliteStore(f"{place}/tasks.db", clock=clock))


class RefusingStore(AroundStore):
    def around(self, call: Call, do: Callable[[], T]) -> T:
        if call.verb == "append":
            raise Conflict("refused")
        return do()


def made(bug: Lines, place: str, clock: Callable[[], float] | None) -> Store:
    store: Store = broken(bug).SqliteStore(f"{place}/tasks.db", clock=clock)
    return store


@cache
def broken(bug: Lines) -> ModuleType:
    """A copy of the store's module, over a copy of its verbs, with this edit in one of them."""
    copies = {module.__name__: copy_of(module, bug.path) for module in (sqlite, sqlite_verbs)}
    vars(copies[STORE])["sqlite_verbs"] = copies[VERBS]
    owner, attribute, found = look_up(copies[bug.module], bug.path)
    setattr(owner, attribute, rewritten(bug.path, copies[bug.module], found, bug))
    return copies[STORE]


def copy_of(module: ModuleType, name: str) -> ModuleType:
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(f"{module.__name__} without {name}", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = copy  # where inspect looks for the source of its classes
    spec.loader.exec_module(copy)
    return copy
