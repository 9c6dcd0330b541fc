"""Every yield point of every script is struck, one execution each, and every promise holds."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from invariants import Verdict
from noeta.chaos.profiles import SWEEP_REQUIRED
from noeta.chaos.schedule import Kind
from noeta.chaos.sim import render
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.exhaustive import NotRepeated, Search, required_at, search, strikes_of
from noeta.chaos.sim.modes import CALM, KILLS, MODES
from noeta.chaos.sim.points import CODE_POINTS, REGISTERED, STORE_POINTS, UNUSED
from noeta.chaos.sim.run import Execution
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.strikes import Strike, in_order
from noeta.chaos.situations import SITUATIONS

ROOT = Path(__file__).parents[2]


def stories(found: Search) -> str:
    return "\n".join(line for row, bad in found.bad for line in render.story(row, bad, None))


HERE = ("kill", "freeze", "unknown_landed", "say")
"""The modes that are searched here; CI searches all of them, with `noeta sim --exhaustive`."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_strike_at_every_point_is_survived(name: str) -> None:
    found = search([CASES[name]], [MODES[mode] for mode in HERE])

    assert not found.bad, stories(found)
    for row in found.rows:
        assert row.valid == row.strikes
        assert row.strikes > 0 or row.mode == CALM
        if row.mode in ("kill", "lapse", "freeze", "terminate"):
            # A strike at every point: each is reached, because until it strikes an execution is the one without.
            assert row.strikes == row.points


def test_every_law_has_something_to_see_in_the_set() -> None:
    cases = [CASES[name] for name in ("plain", "interactive", "timer", "agent", "job-ends")]
    found = search(cases, [MODES["say"], MODES["unknown_landed"]])

    assert found.unseen_laws == []
    assert found.verdict() is Verdict.VALID


def test_a_required_situation_that_never_occurred_leaves_the_whole_set_unknown() -> None:
    cases = [CASES[name] for name in ("plain", "interactive", "timer", "agent", "job-ends")]
    found = search(cases, [MODES["say"], MODES["unknown_landed"]])

    assert found.unseen_laws == []
    assert "claim-released" in found.missing(required_at(1))
    assert found.verdict(required=required_at(1)) is Verdict.UNKNOWN
    assert found.verdict(required={"message-taken-waiting": 1}) is Verdict.VALID


def test_nothing_searched_is_unknown() -> None:
    assert search([]).verdict() is Verdict.UNKNOWN


def test_a_part_in_which_nothing_was_struck_is_unknown() -> None:
    found = search([CASES["plain"]], [MODES["say"]])

    assert (found.executions, found.bad) == (1, [])
    assert found.verdict() is Verdict.UNKNOWN


def test_an_execution_that_does_not_repeat_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(SimProcess, "random", lambda self, name: Random(next(numbers)))

    with pytest.raises(NotRepeated, match=r"errors-refused, kill at .*: another execution when it was replayed"):
        search([CASES["errors-refused"]], [MODES["kill"]])


def test_the_set_kills_at_every_point_that_a_process_of_this_version_passes() -> None:
    names = ("plain", "slow", "unresolved", "killer-plain-after", "noted-late", "interactive-short", "kept-timer")
    found = search([CASES[name] for name in names], [MODES[mode] for mode in KILLS])

    never = {point for point in REGISTERED if point not in found.killed_at}

    assert never == set(UNUSED)


def test_two_kills_in_a_row_are_survived_at_every_pair_of_points() -> None:
    found = search([CASES["errors-refused"]], [MODES["kill"]], depth=2)

    assert not found.bad, stories(found)
    assert found.rows[1].strikes > 15 * 15


@pytest.mark.parametrize("point", ["append.before", "append.after"])
def test_the_two_crash_points_of_a_commit_leave_two_different_logs(point: str) -> None:
    """Not sent, and landed with its reply lost: the log of the second shows what the first one lost."""
    calm = Execution(CASES["plain"]).run()
    tool_ran = next(n for n, name in enumerate(calm.points, 1) if name == "tool.after_journal")
    n = calm.points.index(point, tool_ran) + 1

    result = Execution(CASES["plain"], in_order([Strike(Kind.KILL, n)])).run()

    assert result.struck == (point,)
    assert result.situations.get("recovered-as-unknown", 0) == (1 if point == "append.before" else 0)
    assert result.situations.get("model-called-again", 0) == (0 if point == "append.before" else 1)


def test_the_list_of_points_is_the_one_in_the_source() -> None:
    found: set[str] = set()
    for folder in ("noeta/core", "noeta/runtime", "scripted_model"):
        for path in (ROOT / folder).rglob("*.py"):
            found.update(point_names(path))

    assert found == set(CODE_POINTS)
    assert len(set(REGISTERED)) == len(REGISTERED) > len(STORE_POINTS)


def point_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "point":
            if node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def test_strikes_are_spelled_and_read_alike() -> None:
    assert strikes_of("kill@5,kill@9") == (Strike(Kind.KILL, 5), Strike(Kind.KILL, 9))
    for text in ("kill", "kill@0", "murder@1", "kill@1,", "kill_client@1"):
        with pytest.raises(ValueError, match="MODE@POINT"):
            strikes_of(text)


def test_whatever_is_required_is_a_situation_that_is_counted() -> None:
    """A name that nobody counts would leave every search unknown."""
    for required in (required_at(1), required_at(2), SWEEP_REQUIRED):
        assert required
        assert set(required) <= set(SITUATIONS)
    assert set(required_at(2)) < set(required_at(1))
