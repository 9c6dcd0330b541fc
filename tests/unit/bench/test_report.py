"""The form of the results: what holds, what the table says, and what a line of the file says."""

from __future__ import annotations

import json

import pytest

from bench import report
from bench.__main__ import BENCHES, describe, parse
from bench.report import Run, Target, figure, json_line, ratios, table, verdicts

RUN = Run("2026-01-02T03:04:05+00:00", "abc1234", "3.11.0", "15.18", 2, quick=True)


def test_a_figure_is_the_median_with_its_range() -> None:
    found = figure("rates", "append / insert", "ratio", [0.5, 0.9, 0.4], Target("at least", 0.4))

    assert (found.median, found.low, found.high, found.samples) == (0.5, 0.4, 0.9, 3)
    assert found.holds


@pytest.mark.parametrize(
    ("side", "found", "holds"), [("at most", 40, True), ("at most", 40.1, False), ("at least", 39.9, False)]
)
def test_a_target_has_a_side(side: report.Side, found: float, holds: bool) -> None:
    assert Target(side, 40).holds(found) is holds


def test_a_figure_without_a_target_is_only_told() -> None:
    told = figure("buffers", "claim from the beginning", "buffers", [2_106])

    assert told.holds
    assert verdicts([told]) == []


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        figure("hot", "share", "share", [], Target("at least", 0.6))


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios([100, 10], [200, 20]) == [0.5, 0.5]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1, 2], [1])


def test_the_verdict_names_what_fails() -> None:
    found = [
        figure("buffers", "claim", "buffers", [379], Target("at most", 40)),
        figure("round_trips", "append", "round trips", [1], Target("at most", 1)),
    ]

    assert verdicts(found) == [
        "FAILS  buffers/claim: 379 buffers, target at most 40",
        "holds  round_trips/append: 1 round trips, target at most 1",
    ]


def test_the_table_has_a_row_a_figure_with_its_range() -> None:
    lines = table([figure("rates", "append / insert", "ratio", [0.5, 0.75])]).splitlines()

    assert lines[0].split() == ["bench", "figure", "median", "range", "unit", "n"]
    assert lines[1].split() == ["rates", "append", "/", "insert", "0.62", "0.50..0.75", "ratio", "2"]


def test_a_run_is_one_line_of_json() -> None:
    failing = figure("buffers", "claim", "buffers", [379], Target("at most", 40))

    line = json_line(RUN, [failing])

    assert "\n" not in line
    read = json.loads(line)
    assert {name: read[name] for name in ("date", "commit", "python", "postgres", "cpus", "quick", "holds")} == {
        "date": "2026-01-02T03:04:05+00:00",
        "commit": "abc1234",
        "python": "3.11.0",
        "postgres": "15.18",
        "cpus": 2,
        "quick": True,
        "holds": False,
    }
    assert read["figures"] == [
        {
            "bench": "buffers",
            "name": "claim",
            "unit": "buffers",
            "median": 379,
            "low": 379,
            "high": 379,
            "samples": 1,
            "target": "at most 40",
            "holds": False,
        }
    ]


def test_the_command_line_names_the_benches() -> None:
    asked = parse(["--quick", "--only", "hot", "--only", "rates"])

    assert (asked.quick, asked.only, asked.json) == (True, ["hot", "rates"], False)
    assert list(BENCHES) == [
        *("round_trips", "buffers", "hot", "late_row", "rates"),
        *("waiting", "timers", "fan_in", "family", "family_cost", "jobs", "jobs_cost", "old_plans"),
    ]
    with pytest.raises(SystemExit):
        parse(["--only", "nothing"])


def test_a_run_says_where_it_was_taken() -> None:
    run = describe("15.18", quick=False)

    assert run.postgres == "15.18"
    assert run.cpus >= 1
    assert run.commit
    assert run.date.endswith("+00:00")
