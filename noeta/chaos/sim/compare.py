"""The same seeds over several stores: their traces must be equal, event by event.

A trace has a line for every row that a call touched, as the store shows it afterwards, so equal traces mean equal
answers. What the simulator knows of the memory store then holds for the others, for these executions.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from invariants import Verdict
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.seeded import Strategy, run_seed
from noeta.chaos.sim.server import MakeStore
from noeta.chaos.sim.stores import open_makers


@dataclass(frozen=True, slots=True)
class Different:
    """The first event in which a store goes another way than the memory store."""

    seed: int
    store: str
    expected: str
    found: str


@dataclass(slots=True)
class Compared:
    """``seconds``: what each store took. ``calls``: of each store's processes. ``bad``: what was not valid, as seed
    and store."""

    seeds: int = 0
    bad: list[tuple[int, str]] = field(default_factory=list)
    calls: int = 0
    different: list[Different] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    _hashes: dict[str, hashlib._Hash] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Nothing compared is unknown."""
        if self.different or self.bad:
            return Verdict.INVALID
        return Verdict.VALID if self.seeds else Verdict.UNKNOWN

    def hash_of(self, store: str) -> str:
        """One hash over the traces of all seeds over this store, in order."""
        return self._hashes[store].hexdigest()

    def add(self, store: str, seed: int, result: Result, seconds: float) -> None:
        """Count one execution."""
        self._hashes.setdefault(store, hashlib.sha256()).update(f"{seed} {result.trace_hash}\n".encode())
        self.seconds[store] = self.seconds.get(store, 0.0) + seconds
        if result.verdict is not Verdict.VALID:
            self.bad.append((seed, store))


def compare_stores(
    seeds: Iterable[int],
    names: Sequence[str],
    strategy: Strategy = Strategy.RANDOM,
    *,
    progress: Callable[[Compared], None] = lambda found: None,
) -> Compared:
    """Every seed over each of these stores, the memory store first.

    Raises:
        BadInput: Postgres was named, and there is no server to be had.
    """
    found = Compared()
    with open_makers(names) as makers:
        for seed in seeds:
            traces: dict[str, str] = {}
            for name, make_store in makers.items():
                began = time.monotonic()
                result = run_seed(seed, strategy=strategy, make_store=make_store)
                found.add(name, seed, result, time.monotonic() - began)
                traces[name] = result.trace_hash
            found.calls += sum(point.endswith(".after") for point in result.points)
            found.seeds += 1
            for name, trace in traces.items():
                if trace != traces[names[0]]:
                    found.different.append(_first_difference(seed, strategy, name, makers))
            progress(found)
    return found


def _first_difference(seed: int, strategy: Strategy, name: str, makers: dict[str, MakeStore]) -> Different:
    expected = run_seed(seed, strategy=strategy, keep_trace=True).trace
    found = run_seed(seed, strategy=strategy, keep_trace=True, make_store=makers[name]).trace
    for line, other in zip(expected, found, strict=False):
        if line != other:
            return Different(seed, name, line, other)
    return Different(seed, name, f"{len(expected)} lines", f"{len(found)} lines")
