"""Which tests hold which sentence, as pytest itself collects them: what is not collected holds nothing."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from noeta.testing.contract.holds import ATTRIBUTE

ROOT: Final = Path(__file__).resolve().parents[2]

STORES: Final = ("memory", "sqlite", "postgres")
"""Each rule of the contract is held over all of these."""

MARKED: Final = re.compile(r"\bmark\.holds\(|\(StoreContract\)")
"""Stands in every file that may hold a sentence: only those are collected."""


class NotCollected(Exception):
    """Pytest could not collect the marked files; the text is what it said."""


@dataclass(slots=True)
class Holder:
    """One test, whatever its parameters; ``stores``: over which stores it runs, if it asks for one."""

    file: str
    name: str
    stores: set[str] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        return f"{self.file}::{self.name}"


class Collector:
    """A plugin of pytest: takes down the tests that name a sentence."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[str, dict[str, Holder]] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if not isinstance(item, pytest.Function):
            return
        keys = [key for marker in item.iter_markers(ATTRIBUTE) for key in marker.args]
        keys += getattr(item.function, ATTRIBUTE, ())
        if not keys:
            return
        file = Path(inspect.getfile(item.function)).relative_to(self.root).as_posix()
        made = Holder(file, item.originalname)
        for key in dict.fromkeys(keys):
            test = self.found.setdefault(key, {}).setdefault(made.place, made)
            test.stores |= set(_stores(item))
            if item.nodeid not in test.ids:
                test.ids.append(item.nodeid)

    def tests(self) -> dict[str, list[Holder]]:
        """The tests of each key, by their place."""
        return {key: [held[place] for place in sorted(held)] for key, held in self.found.items()}


def collect(root: Path = ROOT) -> dict[str, list[Holder]]:
    """The tests of each key that a marker names.

    Raises:
        NotCollected: a marked file cannot be imported, say.
    """
    collector = Collector(root)
    said = io.StringIO()
    options = [
        "--collect-only",
        "--assert=plain",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--rootdir={root}",
        f"--confcutdir={root}",
    ]
    with redirect_stdout(said), redirect_stderr(said):
        code = pytest.main([*options, *map(str, marked_files(root))], plugins=[collector])
    if code != pytest.ExitCode.OK:
        listed, _, why = said.getvalue().partition(" ERRORS ")
        raise NotCollected(why or listed)
    return collector.tests()


def marked_files(root: Path) -> list[Path]:
    """The test files that name a sentence, or run the contract, whose rules do."""
    files = sorted((root / "tests").rglob("test_*.py"))
    return [file for file in files if MARKED.search(file.read_text(encoding="utf-8"))]


def _stores(item: pytest.Function) -> Iterator[str]:
    callspec = getattr(item, "callspec", None)
    named: Iterable[object] = callspec.params.values() if callspec is not None else ()
    yield from (store for store in STORES if store in named)
    if item.cls is not None:
        yield from (store for store in STORES if item.cls.__name__ == f"Test{store.capitalize()}Store")
