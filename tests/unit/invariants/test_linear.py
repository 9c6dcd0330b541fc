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

from invariants import LAWS, LAWS_BY_KEY, HeldInMemory, Law, Verdict, check_all
from tests.unit.invariants.history import H

COUNTED = ("/invariants/", "/noeta/core/fold.py")
TURN_ENTRIES = 29


def turn(n: int, at: int) -> list[str]:
    """One turn under four claims: a call that runs and leaves a job, a cron entry that is made and taken away, a timer,
    a child that ends, a call that a person approves, and a model call made again."""
    e, f, g, h = range(4 * n - 3, 4 * n + 1)
    s = 2 + (n - 1) * TURN_ENTRIES
    r, item = s + 1, 4 * n - 3
    child = f"t.{r}-2.1"
    entries = [
        f"{s}/{e} called a{n}",
        f"{r}/{e} replied read,mute,wait,breaks",
        f"{s + 2}/{e} started {r}-0 at={at + 2}",
        f"effect {r}-0#1 read",
        f"{s + 3}/{e} finished {r}-0",
        f"{s + 4}/{e} job {r}-0",
        f"line {r}-0",
        f"{s + 5}/{e} cronset 0_0_1_1_* {r}-0 since={at + 2}",
        f"{s + 6}/{e} cronremoved {r}-0",
        f"{s + 7}/{e} started {r}-1",
        f"{s + 8}/{e} parked {r}-1 timer:1",
        f"{s + 9}/{e} started {r}-2",
        f"{s + 10}/{e} parked {r}-2 child:{child} children={child}",
        f"{s + 11}/{e} asked {r}-3 human:{r}",
        f"{s + 12}/{e} suspended timer:1",
        f"on {child}",
        f"1/0 created parent=t root=t depth=1 at={at + 12}",
        "2/1 completed",
        "end terminal/1 last=2 parent=t stamped=",
        "on t",
        f"{s + 13}/{f} joblost {r}-0",
        f"{s + 14}/{f} woken {item} timer:1",
        f"{s + 15}/{f} finished {r}-1 woken",
        f"{s + 16}/{f} suspended child:{child}",
        f"{s + 17}/{g} woken {item + 1} child:{child}",
        f"{s + 18}/{g} finished {r}-2 woken",
        f"{s + 19}/{g} suspended human:{r}",
        f"{s + 20}/{h} woken {item + 2} human:{r}!approve",
        f"{s + 21}/{h} started {r}-3",
        f"effect {r}-3#1 breaks",
        f"{s + 22}/{h} finished {r}-3",
        f"{s + 23}/{h} called b{n}",
        f"{s + 24}/{h} sealed {s + 23}",
        f"{s + 25}/{h} called b{n} attempt=2",
        f"{s + 26}/{h} replied",
        f"{s + 27}/{h} suspended human",
        f"{s + 28}/{h + 1} woken {item + 3} human",
    ]
    seen = [
        f"sent k{n} {item + 3}",
        f"row running/{e} w{e} last={s}",
        f"row suspended/{e} w{e} kept last={s + 12} on=timer:1",
        f"row suspended/{f} last={s + 16} on=child:{child} inbox={item + 1}",
        f"row suspended/{h} last={s + 27} on=human inbox={item + 3}",
        f"w{e}:append {s}-{s + 12}/{e} ok",
        f"w{f}:claim /{f} ok last={s + 12} lease=99999",
        f"w{g}:claim /{g} ok last={s + 16} lease=99999",
        f"w{h}:claim /{h} ok last={s + 19} lease=99999",
        f"fault kill w{e} t@{e}",
        f"fault pause w{f} t@{f} at={at}",
        f"lock w{f} 0.1 at={at}",
    ]
    return [*entries, *seen]


def long_history(turns: int) -> HeldInMemory:
    pieces = ["1/0 created interactive"]
    for n in range(1, turns + 1):
        pieces += turn(n, len(pieces) + 1)
    last, epoch = 2 + turns * TURN_ENTRIES, 4 * turns + 1
    pieces += [
        f"{last}/{epoch} cancelled",
        f"c:post {last}-{last}/{epoch} ok last={last} outcome=cancelled",
        f"script cancelled calls=read:{turns},mute:{turns},wait:{turns},breaks:{turns}",
        f"end terminal/{epoch} last={last} inbox={4 * turns} stamped=",
    ]
    return H("; ".join(pieces), renewals_recorded=True, statement_timeout=5_000_000)


def fired_history(turns: int) -> HeldInMemory:
    """A cron table that fires once a minute, and a turn after each firing."""
    pieces = [
        "1/0 created interactive; 2/1 called; 3/1 replied mute; 4/1 started 3-0 at=4; 5/1 finished 3-0",
        "6/1 cronset *_*_*_*_* 3-0 since=4; 7/1 suspended human@60",
    ]
    for n in range(1, turns + 1):
        s, at = 3 + 5 * n, 60 * n
        pieces += [
            f"{s}/{n + 1} woken {n} human@{at} at={at}",
            f"{s + 1}/{n + 1} cronfired 3-0 {at} at={at}",
            f"{s + 2}/{n + 1} called c{n} at={at}",
            f"{s + 3}/{n + 1} replied at={at}",
            f"{s + 4}/{n + 1} suspended human@{at + 60} at={at}",
        ]
    return H("; ".join(pieces))


def broken_history(turns: int) -> HeldInMemory:
    """Nearly every piece breaks something: explaining must be linear too."""
    whole = [f"{seq + seq % 3}/{seq % 5} called r{seq % 7}" for seq in range(1, turns * 4)]
    rows = [f"row suspended/{n % 4} w{n % 3} last={n} on=human" for n in range(turns)]
    took = [
        f"{n}/1 taken {n % 9}; sent k{n % 5} {n}; effect 3-0#1 pay; w{n}:append {n}-{n + 1}/2 ok; {n}/{n % 3} job {n}; "
        f"{n}/2 suspended human:q{n}; {n}/{n % 3} jobended {n % 7}; line {n % 9}; fault pause w{n % 3} t@{n}; "
        f"lock w{n % 4} {n % 9}"
        for n in range(1, turns)
    ]
    return H("; ".join([*whole, *rows, *took]), renewals_recorded=True, statement_timeout=5_000_000)


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


def test_firings_are_judged_in_linear_time() -> None:
    law = LAWS_BY_KEY["timers-once"]
    short, long = fired_history(15), fired_history(60)

    few = steps(lambda: check_all(short, [law]))
    many = steps(lambda: check_all(long, [law]))

    assert check_all(long, [law]).verdict is Verdict.VALID
    assert many < 4.6 * few + 200


def test_the_long_history_is_one_that_every_law_accepts() -> None:
    report = check_all(long_history(20))

    assert [one.law.key for one in report.laws if one.verdict is not Verdict.VALID] == []
