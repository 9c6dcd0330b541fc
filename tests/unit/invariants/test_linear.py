"""Every law is linear: twice the history, at most a little more than twice the steps.

Steps are executed lines and comprehension turns of the checkers, the fold and the evidence, counted by the
interpreter, so that a busy machine changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from invariants import LAWS, HeldInMemory, Law, Verdict, check_all
from tests.unit.invariants.history import H

TURN = (
    "{0}/{e} called; {1}/{e} replied read; {2}/{e} started {1}-0; {3}/{e} finished {1}-0; {4}/{e} called; {5}/{e} "
    "sealed {4}; {6}/{e} called r attempt=2; {7}/{e} replied; {8}/{e} suspended human; {9}/{f} woken {n} human; effect "
    "{1}-0#1 read; sent k{n} {n}; row running/{e} w{e} last={0}; row suspended/{e} last={8} on=human; w{e}:append "
    "{0}-{8}/{e} ok; w{f}:claim /{f} ok last={8} lease=99999; fault kill w{e} t@{e}"
)
COUNTED = ("/invariants/", "/noeta/core/fold.py")


def long_history(turns: int) -> HeldInMemory:
    pieces = ["1/0 created interactive"]
    for n in range(1, turns + 1):
        first = 2 + (n - 1) * 10
        pieces.append(TURN.format(*range(first, first + 10), e=n, f=n + 1, n=n))
    last = 1 + turns * 10
    pieces.append(f"{last + 1}/{turns + 1} cancelled; script cancelled calls=read:{turns}; "
                  f"end terminal/{turns + 1} last={last + 1} inbox={turns} stamped=")  # fmt: skip
    return H("; ".join(pieces), renewals_recorded=True)


def broken_history(turns: int) -> HeldInMemory:
    """Nearly every piece breaks something: explaining must be linear too."""
    whole = [f"{seq + seq % 3}/{seq % 5} called r{seq % 7}" for seq in range(1, turns * 4)]
    rows = [f"row suspended/{n % 4} w{n % 3} last={n} on=human" for n in range(turns)]
    took = [
        f"{n}/1 taken {n % 9}; sent k{n % 5} {n}; effect 3-0#1 pay; w{n}:append {n}-{n + 1}/2 ok"
        for n in range(1, turns)
    ]
    return H("; ".join([*whole, *rows, *took]), renewals_recorded=True)


def steps(run: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        name = Path(frame.f_code.co_filename).as_posix()
        if not name.endswith(COUNTED[1]) and COUNTED[0] not in name:
            return None
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("law", LAWS, ids=[law.key for law in LAWS])
@pytest.mark.parametrize("history", [long_history, broken_history])
def test_law_takes_linear_time(law: Law, history: Callable[[int], HeldInMemory]) -> None:
    short, long = history(30), history(120)

    few = steps(lambda: check_all(short, [law]))
    many = steps(lambda: check_all(long, [law]))

    assert few > 30
    assert many < 4.6 * few + 200


def test_the_long_history_is_one_that_every_law_accepts() -> None:
    report = check_all(long_history(20))

    assert [one.law.key for one in report.laws if one.verdict is not Verdict.VALID] == []
