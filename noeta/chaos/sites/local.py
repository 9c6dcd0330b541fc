"""A storm over a store that lives in files of this machine: SQLite, or a user's own store in a directory.

There is no server to strike: faults of one are refused by name. A file that the run made itself lies in the run
directory and stays there as evidence, unless it is big; one whose place was named is removed afterwards unless it is
to be kept, as a schema is on a server that was given.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from noeta.backends.open import open_store
from noeta.chaos.contract_view import ContractView, StoreClock
from noeta.chaos.reaper import Reapers
from noeta.chaos.sites.file_locks import FileLocks
from noeta.chaos.sites.site import Opening
from noeta.core.errors import BadInput
from noeta.core.store import Store

NO_SERVER: Final = "this store has no server that could be stopped"
NO_WIRE: Final = "this store has no wire between workers and a server"
FOLDER: Final = "store"
"""Of the run directory: where a store lies whose place was not named."""

SQLITE_FILE: Final = "noeta.db"
SQLITE_BESIDE: Final = ("-wal", "-shm", "-journal")
EVIDENCE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Up to here a store is left in the run directory. A storm of the default size leaves a few megabytes; what is much
larger fills a disk run by run, and the logs that the laws read were copied out of it anyhow."""


@dataclass(frozen=True, slots=True)
class LocalGround:
    """Implements ``Ground``."""

    address: str
    clock: StoreClock
    files: Callable[[], Iterable[Path]]
    locks: FileLocks
    schema: None = None
    server: None = None
    no_server: str = NO_SERVER
    wire: None = None
    no_wire: str = NO_WIRE

    def worker_address(self, process: str) -> str:
        return self.address

    def open(self, connections_max: int) -> Store:
        return open_store(self.address, max_connections=connections_max)

    def view(self, name: str) -> ContractView:
        return ContractView(self.open(1), self.clock)

    def lock_view(self) -> None:
        return None

    def keeps_out(self, pid: int) -> bool:
        # A file's lock belongs to a process until it ends, also while that is stopped in the middle of a commit.
        return self.locks.holds(pid, self.files())

    def facts(self) -> Mapping[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class LocalSite:
    """Implements ``Site``. ``before``: the address up to the place; ``place``: where it really is, through links,
    because SQLite's other files are there, too; None for one in the run directory;
    ``file``: the store is one file of this name there, with others beside it; None: it is a whole directory.

    Raises:
        BadInput: the place is taken.
    """

    kind: str
    version: str
    before: str
    place: Path | None
    file: str | None

    def __post_init__(self) -> None:
        if self.place is not None:
            self._check(self.place)

    @property
    def words(self) -> str:
        return f"store={self.kind} {self.version}"

    def facts(self) -> Mapping[str, Any]:
        shown = f"{FOLDER}/{self.file or ''}" if self.place is None else str(self.place)
        return {"kind": self.kind, "version": self.version, "file": shown, "words": self.words}

    def versions(self) -> Mapping[str, str]:
        return {self.kind: self.version}

    @contextmanager
    def open(self, opening: Opening) -> Iterator[LocalGround]:
        place = self._make(opening)
        with ExitStack() as stack:
            if self.place is not None and not opening.keep:
                stack.callback(opening.reapers.withdraw, self._register(opening.reapers, place))
            stack.callback(self._tidy, opening, place)
            address = f"{self.before}{place}"
            with _closing(open_store(address, max_connections=1)) as store:
                # Before there is any task: see `ContractView`.
                clock = StoreClock(store)
            locks = FileLocks()
            stack.callback(locks.close)
            yield LocalGround(address, clock, partial(self._files, place), locks)

    def _make(self, opening: Opening) -> Path:
        if self.place is not None:
            self._check(self.place)  # somebody may have come since it was asked for
            place = self.place
        else:
            folder = opening.run_dir.path(FOLDER).absolute()
            place = folder if self.file is None else folder / self.file
        (place if self.file is None else place.parent).mkdir(parents=True, exist_ok=True)
        return place

    def _register(self, reapers: Reapers, place: Path) -> int:
        return reapers.directory(place) if self.file is None else reapers.files(self._paths(place))

    def _tidy(self, opening: Opening, place: Path) -> None:
        paths = [path for path in self._paths(place) if path.exists()]
        size = sum(_size(path) for path in paths)
        named = self.place is not None
        stays = opening.keep or (not named and size <= EVIDENCE_BYTES_MAX)
        if not stays:
            for path in paths:
                _remove(path)
        if named and stays:
            opening.tell(f"kept: {place}")
        elif not named and not stays:
            opening.tell(f"the store is not kept as evidence: {size} bytes, at most {EVIDENCE_BYTES_MAX}")
        opening.run_dir.update_run(store={**self.facts(), "bytes": size, "kept": stays})

    def _paths(self, place: Path) -> list[Path]:
        if self.file is None:
            return [place]
        return [place, *(place.with_name(place.name + end) for end in SQLITE_BESIDE)]

    def _files(self, place: Path) -> Iterable[Path]:
        return place.rglob("*") if self.file is None else self._paths(place)

    def _check(self, place: Path) -> None:
        if self.file is None:
            if place.exists() and not (place.is_dir() and not any(place.iterdir())):
                raise BadInput("--store", f"expected a directory that is not there yet or is empty, found {place}")
            return
        for path in self._paths(place):
            if path.exists() and not (path.is_file() and path.stat().st_size == 0):
                raise BadInput("--store", f"expected a file that is not there yet or is empty, found {path}")


def sqlite_site(path: str) -> LocalSite:
    """A storm over a SQLite file; empty: one in the run directory.

    Raises:
        BadInput: the file has something in it.
    """
    return LocalSite("sqlite", sqlite3.sqlite_version, "sqlite:", _real(path), SQLITE_FILE)


def factory_site(module: str, function: str, place: str) -> LocalSite:
    """A storm over a user's own store: each process calls ``function(place)``; empty: in the run directory.

    Raises:
        BadInput: the directory has something in it.
    """
    before = f"factory:{module}:{function}:"
    return LocalSite(f"{module}:{function}", _version_of(module), before, _real(place), None)


def _real(place: str) -> Path | None:
    return Path(place).resolve() if place else None


def _version_of(module: str) -> str:
    top = module.partition(".")[0]
    found = importlib.metadata.packages_distributions().get(top, ())
    return importlib.metadata.version(found[0]) if found else "unversioned"


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        store.close()


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
