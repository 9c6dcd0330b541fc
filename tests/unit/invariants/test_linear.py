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

COUNTED = ("/invariants/", "/noeta/core/fold.py")
TURN_ENTRIES = 20


def turn(n: int, at: int) -> list[str]:
    """One turn under three claims: a call that runs, a timer, a child that ends, and a model call made again."""
    e, f, g = 3 * n - 2, 3 * n - 1, 3 * n
    s = 2 + (n - 1) * TURN_ENTRIES
    r, item = s + 1, 3 * n - 2
    child = f"t.{r}-2.1"
    entries = [
        f"{s}/{e} called",
        f"{r}/{e} replied read,mute,wait",
        f"{s + 2}/{e} started {r}-0",
        f"effect {r}-0#1 read",
        f"{s + 3}/{e} finished {r}-0",
        f"{s + 4}/{e} started {r}-1",
        f"{s + 5}/{e} parked {r}-1 timer:1",
        f"{s + 6}/{e} started {r}-2",
        f"{s + 7}/{e} parked {r}-2 child:{child} children={child}",
        f"{s + 8}/{e} suspended timer:1",
        f"on {child}",
        f"1/0 created parent=t root=t depth=1 at={at + 8}",
        "2/1 completed",
        "end terminal/1 last=2 parent=t stamped=",
        "on t",
        f"{s + 9}/{f} woken {item} timer:1",
        f"{s + 10}/{f} finished {r}-1 woken",
        f"{s + 11}/{f} suspended child:{child}",
        f"{s + 12}/{g} woken {item + 1} child:{child}",
        f"{s + 13}/{g} finished {r}-2 woken",
        f"{s + 14}/{g} called",
        f"{s + 15}/{g} sealed {s + 14}",
        f"{s + 16}/{g} called r attempt=2",
        f"{s + 17}/{g} replied",
        f"{s + 18}/{g} suspended human",
        f"{s + 19}/{g + 1} woken {item + 2} human",
    ]
    seen = [
        f"sent k{n} {item + 2}",
        f"row running/{e} w{e} last={s}",
        f"row suspended/{e} last={s + 8} on=timer:1",
        f"row suspended/{f} last={s + 11} on=child:{child} inbox={item + 1}",
        f"row suspended/{g} last={s + 18} on=human inbox={item + 2}",
        f"w{e}:append {s}-{s + 8}/{e} ok",
        f"w{f}:claim /{f} ok last={s + 8} lease=99999",
        f"w{g}:claim /{g} ok last={s + 11} lease=99999",
        f"fault kill w{e} t@{e}",
    ]
    return [*entries, *seen]


def long_history(turns: int) -> HeldInMemory:
    pieces = ["1/0 created interactive"]
    for n in range(1, turns + 1):
        pieces += turn(n, len(pieces) + 1)
    last, epoch = 2 + turns * TURN_ENTRIES, 3 * turns + 1
    pieces += [
        f"{last}/{epoch} cancelled",
        f"c:post {last}-{last}/{epoch} ok last={last} outcome=cancelled",
        f"script cancelled calls=read:{turns},mute:{turns},wait:{turns}",
        f"end terminal/{epoch} last={last} inbox={3 * turns} stamped=",
    ]
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
@pytest.mark.parametrize(("history", "turns"), [(long_history, 15), (broken_history, 30)])
def test_law_takes_linear_time(law: Law, history: Callable[[int], HeldInMemory], turns: int) -> None:
    short, long = history(turns), history(4 * turns)

    few = steps(lambda: check_all(short, [law]))
    many = steps(lambda: check_all(long, [law]))

    assert few > 30
    assert many < 4.6 * few + 200


def test_the_long_history_is_one_that_every_law_accepts() -> None:
    report = check_all(long_history(20))

    assert [one.law.key for one in report.laws if one.verdict is not Verdict.VALID] == []
