"""Whole executions drawn from seeds, over the candidate and the memory store: their traces must be equal.

A line of a trace is a row as the store shows it after a call, so that this compares the stores below several workers,
clients and strikes at once, where the model-based test compares them below one caller. One freedom of the contract is
granted: whether a claim that took all it asked for looks at lapsed leases, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

from invariants import Verdict
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.candidate import Places, SimulatedStores, load
from noeta.chaos.certify.card import Line
from noeta.chaos.sim.result import Result
from noeta.chaos.sim.seeded import run_seed

SEEDS: Final = 20
QUICK_SEEDS: Final = 3
LINES_BEFORE: Final = 6


def compare_traces(order: Order) -> Iterator[Line]:
    """One line over all seeds; it ends with the first that differs or is invalid."""
    candidate = load(order.store)
    stores = SimulatedStores(candidate, Places(candidate, Path(order.root)))
    began = time.monotonic()
    lines = 0
    count = QUICK_SEEDS if order.quick else SEEDS
    title = f"{count} seeded executions leave the trace of the memory store"
    verdict, why, detail = Verdict.VALID, "", ""
    for seed in range(order.seed, order.seed + count):
        mine = run_seed(seed, keep_trace=True, make_store=stores)
        reference = _reference(seed, mine.trace_hash)
        lines += len(reference.trace)
        if mine.trace_hash != reference.trace_hash or mine.verdict is not Verdict.VALID:
            verdict = Verdict.INVALID
            why = f"seed {seed}: {_difference(mine, reference)}"
            detail = "\n".join([*_last_common(mine, reference), *mine.why()])
            break
    stores.close()
    yield Line("traces", "seeds", title, verdict, lines, time.monotonic() - began, why, detail)


def _reference(seed: int, wanted: str) -> Result:
    """The execution over the memory store: of the two that the contract allows the one with this trace, if one has."""
    sweeping = run_seed(seed, keep_trace=True)
    if sweeping.trace_hash == wanted:
        return sweeping
    other = run_seed(seed, keep_trace=True, make_store=lambda clock: MemoryStore(clock, sweeps_when_full=False))
    return other if other.trace_hash == wanted else sweeping


def _difference(mine: Result, reference: Result) -> str:
    if mine.trace_hash == reference.trace_hash:
        return f"breaks {', '.join(sorted(mine.convicted)) or mine.verdict}, on both stores: a fault of the harness"
    return f"the traces differ from line {_place(mine, reference) + 1} on"


def _place(mine: Result, reference: Result) -> int:
    pairs = zip_longest(mine.trace, reference.trace)
    return next(place for place, (one, other) in enumerate(pairs) if one != other)


def _last_common(mine: Result, reference: Result) -> list[str]:
    if mine.trace_hash == reference.trace_hash:
        return []
    place = _place(mine, reference)
    told = [f"  {line}" for line in reference.trace[max(0, place - LINES_BEFORE) : place]]
    for name, trace in (("reference", reference.trace), ("candidate", mine.trace)):
        told.append(f"{name}: {trace[place] if place < len(trace) else '(its end)'}")
    return told
