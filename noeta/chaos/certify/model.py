"""The candidate and the reference, driven by the same random steps, until every situation has been met."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from invariants import Verdict
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.candidate import CandidateFactory, Places, load
from noeta.chaos.certify.card import Line
from noeta.chaos.seeds import SEED_MAX, stream
from noeta.testing.model_based import Comparison, compare
from noeta.testing.model_based.situations import REQUIRED

EXAMPLES: Final = 40
"""Of one round; every round has a seed of its own."""

STEPS: Final = 40
ROUNDS_MIN: Final = 2
SECONDS: Final = 120.0
QUICK_EXAMPLES: Final = 15
QUICK_SECONDS: Final = 10.0
NAMED_MAX: Final = 5


def compare_with_model(order: Order) -> Iterator[Line]:
    """Two lines: that every answer was the same, and that what matters occurred."""
    candidate = load(order.store)
    factory = CandidateFactory(candidate, Places(candidate, Path(order.root)))
    began = time.monotonic()
    rounds: list[Comparison] = []
    for number, seconds in _rounds(order, began):
        seed = stream(order.seed, f"model/{number}").between(0, SEED_MAX)
        examples = QUICK_EXAMPLES if order.quick else EXAMPLES
        rounds.append(compare(factory, examples=examples, steps=STEPS, seed=seed, seconds=seconds))
        if rounds[-1].failure is not None or (len(rounds) >= ROUNDS_MIN and not _missing(rounds)):
            break
    factory.close()
    took = time.monotonic() - began
    if order.wants("answers"):
        yield _answers(rounds, took)
    if order.wants("situations"):
        yield _situations(order, rounds)


def _rounds(order: Order, began: float) -> Iterator[tuple[int, float]]:
    """Numbers of rounds, each with the seconds that are left for it."""
    if order.quick:
        yield 1, QUICK_SECONDS
        return
    number = 0
    while (left := began + SECONDS - time.monotonic()) > 0:
        number += 1
        yield number, left


def _answers(rounds: list[Comparison], took: float) -> Line:
    steps = sum(one.steps for one in rounds)
    examples = sum(one.examples for one in rounds)
    title = f"{examples} examples answered as the reference does"
    failure = rounds[-1].failure
    if failure is not None:
        why = failure.difference
        if not failure.repeats:
            why += "\nit does not repeat: the store decides by something that its calls and its clock do not hold"
        return Line("model", "answers", title, Verdict.INVALID, steps, took, why, failure.script)
    verdict, why = (Verdict.VALID, "") if steps else (Verdict.UNKNOWN, "no step was compared in the time there was")
    return Line("model", "answers", title, verdict, steps, took, why)


def _situations(order: Order, rounds: list[Comparison]) -> Line:
    met = len(REQUIRED) - len(_missing(rounds))
    title = f"{met} of {len(REQUIRED)} situations that matter occurred"
    missing = _missing(rounds)
    if not missing or order.quick:
        return Line("model", "situations", title, Verdict.VALID, met)
    named = ", ".join(missing[:NAMED_MAX]) + (" …" if len(missing) > NAMED_MAX else "")
    return Line("model", "situations", title, Verdict.UNKNOWN, met, why=f"never occurred: {named}")


def _missing(rounds: list[Comparison]) -> list[str]:
    counts: Counter[str] = Counter()
    for one in rounds:
        counts.update(one.situations)
    return [name for name in REQUIRED if not counts[name]]
