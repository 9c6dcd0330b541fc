"""The suite itself: no part hides another's test, every promise it speaks of exists, and names are sentences."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest

from noeta.testing.store_contract import DIFFERENCES, ContractTests, StoreContract

PROMISES = {
    "one-writer",
    "epochs-rise",
    "gapless-log",
    "acked-stays",
    "terminal-is-final",
    "row-agrees",
    "taken-once",
    "wake-once",
    "children-once",
    "timers-once",
    "bounded",
    "never-stuck",
    "waiting-is-free",
}
"""The promises a store has a part in; the others are kept by the runner."""

PARTS = [part for part in StoreContract.__mro__ if part not in (object, ContractTests, StoreContract)]
TESTS = [(name, test) for part in PARTS for name, test in vars(part).items() if name.startswith("test_")]


@pytest.mark.holds("writer/contract")
def test_no_part_hides_a_test_of_another() -> None:
    names = Counter(name for name, _ in TESTS)

    assert len(names) > 150
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.holds("writer/contract")
def test_every_promise_of_the_store_is_tested_and_no_other_is_named() -> None:
    named: set[str] = set()
    for _, test in TESTS:
        for keys in re.findall(r"Keeps: ([a-z, -]+)", test.__doc__ or ""):
            named |= {key.strip() for key in keys.split(",")}

    assert named == PROMISES


def test_names_are_sentences() -> None:
    assert [name for name, _ in TESTS if name.count("_") < 4] == []


def test_every_difference_has_its_reason() -> None:
    assert all(difference.there and difference.here and difference.why for difference in DIFFERENCES)
    assert all(one != other for one, other in pairwise(DIFFERENCES))
