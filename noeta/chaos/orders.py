"""What the harness tells a running worker process, and how a worker says that it struck itself.

Orders are a small file, replaced whole; a worker looks at it at each crash point. A worker that reaches a point
at which it shall die, stop or spoil a call first writes down that it will: a file of the fault's name, which only
one process can create. So no fault strikes twice, and the harness learns of each. Once the harness has disarmed
everybody and held the gate alone for a moment, that list is final.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from noeta.chaos.schedule import AtPoint

WORKER_VARIABLE: Final = "NOETA_CHAOS_WORKER"
"""Where a worker finds the path of its ``WorkerConfig``."""

MUTANT_VARIABLE: Final = "NOETA_CHAOS_MUTANT"
"""``module:function`` to call before the app is built: a planted bug."""


BECAME: Final = ".became"
"""Behind the name of a fault: the file that says how its call ended."""


class Aimed(msgspec.Struct, frozen=True):
    """At the ``n``-th passing of ``point`` from now on, kill or pause yourself, or spoil the store call that comes.

    ``seconds``: how long a spoiled call takes. ``incarnation`` and ``where``: which process, and which passings count
    (`schedule.AtPoint`).
    """

    id: str
    kind: str
    point: str
    n: int
    seconds: float = 0.0
    incarnation: int = 0
    where: Mapping[str, str] = {}

    def counts(self, incarnation: int, facts: Mapping[str, object]) -> bool:
        """Whether a passing with these facts, in the so-manieth process of its name, is one to count."""
        anchor = AtPoint(self.point, self.n, where=self.where)
        return self.incarnation in (0, incarnation) and anchor.counts(facts)


class Orders(msgspec.Struct, frozen=True):
    """What holds for one worker name now."""

    skew_seconds: float = 0.0
    aimed: tuple[Aimed, ...] = ()


class WorkerConfig(msgspec.Struct, frozen=True):
    """What one worker process is born with. ``lifeline``: a descriptor at whose end of file it must die."""

    name: str
    incarnation: int
    control: str
    attempts: str
    journal: str
    lifeline: int
    retry_attempts: int
    retry_first_seconds: float

    @property
    def process(self) -> str:
        """Name and incarnation, as evidence names a process."""
        return f"{self.name}#{self.incarnation}"

    @property
    def stem(self) -> str:
        """Name and incarnation, as files are named."""
        return f"{self.name}.{self.incarnation}"


class SelfStrike(msgspec.Struct, frozen=True):
    """A process is about to strike itself. ``at``: microseconds, by its own clock."""

    fault: str
    kind: str
    point: str
    n: int
    process: str
    pid: int
    at: int
    facts: Mapping[str, str]


class Became(msgspec.Struct, frozen=True):
    """What became of a spoiled call. ``hurt`` False: the store refused it by itself, and nothing was spoiled."""

    became: str
    hurt: bool


@dataclass(frozen=True, slots=True)
class Control:
    """The directory through which harness and workers speak."""

    root: Path

    def make(self) -> None:
        """Create it, with nothing ordered."""
        for folder in (self.root, self._struck):
            folder.mkdir(parents=True, exist_ok=True)
        self._gate.touch()

    @property
    def _struck(self) -> Path:
        return self.root / "struck"

    @property
    def _gate(self) -> Path:
        return self.root / "gate"

    def orders_path(self, name: str) -> Path:
        """The orders of one worker name."""
        return self.root / f"{name}.orders.json"

    def order(self, name: str, orders: Orders) -> None:
        """Replace the orders of one worker name."""
        path = self.orders_path(name)
        passing = path.with_suffix(".new")
        passing.write_bytes(msgspec.json.encode(orders))
        passing.replace(path)

    def orders(self, name: str) -> Orders:
        """What is ordered now."""
        try:
            return msgspec.json.decode(self.orders_path(name).read_bytes(), type=Orders)
        except FileNotFoundError:
            return Orders()

    def points_path(self, stem: str) -> Path:
        """Where a process writes a line before it strikes itself."""
        return self.root / f"{stem}.points.jsonl"

    def counts_path(self, stem: str) -> Path:
        """Where a process counts the points it passes."""
        return self.root / f"{stem}.counts"

    def take(self, name: str, strike: SelfStrike) -> bool:
        """Called by a worker: whether the strike is still ordered and nobody else has made it; then it is on disk."""
        with self._through_gate(fcntl.LOCK_SH):
            if all(aimed.id != strike.fault for aimed in self.orders(name).aimed):
                return False
            try:
                descriptor = os.open(self._struck / strike.fault, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
            except FileExistsError:
                return False
            os.write(descriptor, msgspec.json.encode(strike))
            os.close(descriptor)
            return True

    def struck(self, fault: str) -> SelfStrike | None:
        """Whether some process has struck itself for this fault, and which."""
        try:
            return msgspec.json.decode((self._struck / fault).read_bytes(), type=SelfStrike)
        except (FileNotFoundError, msgspec.DecodeError):
            return None  # not yet, or it is being written

    def tell(self, fault: str, became: Became) -> None:
        """Called by a worker: the call that this fault spoiled has come to its end."""
        path = self._struck / f"{fault}{BECAME}"
        passing = path.with_suffix(".new")
        passing.write_bytes(msgspec.json.encode(became))
        passing.replace(path)

    def became(self, fault: str) -> Became | None:
        """What became of the call that this fault spoiled; None: not told yet."""
        try:
            return msgspec.json.decode((self._struck / f"{fault}{BECAME}").read_bytes(), type=Became)
        except FileNotFoundError:
            return None

    def wait_for_gate(self) -> None:
        """After everybody was disarmed: once this returns no further process will strike itself."""
        with self._through_gate(fcntl.LOCK_EX):
            pass

    @contextmanager
    def _through_gate(self, how: int) -> Iterator[None]:
        descriptor = os.open(self._gate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


_SLOT: Final = struct.Struct("=56sQ")
_SLOTS: Final = 256


class PointCounter:
    """Counts by name in a mapped file: exact up to the instant in which its process is killed."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(_SLOT.size * _SLOTS)
            self._map = mmap.mmap(file.fileno(), 0)
        self._places: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        """One more."""
        with self._lock:
            place = self._places.setdefault(name, len(self._places))
            if place < _SLOTS:
                self._counts[name] = self._counts.get(name, 0) + 1
                _SLOT.pack_into(self._map, place * _SLOT.size, name.encode()[:56], self._counts[name])


def read_counts(path: Path) -> dict[str, int]:
    """What a process has counted so far, whether it lives or not."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    counts = {}
    for name, count in _SLOT.iter_unpack(data[: len(data) - len(data) % _SLOT.size]):
        if count:
            counts[name.rstrip(b"\0").decode(errors="replace")] = count
    return counts
