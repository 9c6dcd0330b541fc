"""A storm whose workers reach their server over the wire: what was cut, what became of it, and who is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noeta.chaos.campaign import Row, verdict_of
from noeta.chaos.evidence_dir import CUTS
from noeta.chaos.proxy import CutLine, Outcome, read_cuts
from noeta.chaos.report import summary, write_report
from noeta.chaos.schedule import After, AtPoint, Fault, Kind, Quotas, Schedule, to_json
from noeta.chaos.verdicts import judge
from noeta.testing.postgres import PostgresSource
from tests.cluster.runs import AT, QUIET_RUN, TASK, hand_made

BEFORE, AFTER = Kind.CUT_BEFORE_COMMIT, Kind.CUT_AFTER_COMMIT
SIZE = {"NOETA_CLUSTER_TASKS": "40", "NOETA_CLUSTER_SECONDS": "10"}


def short_schedule() -> Schedule:
    """A few kills, and four commits cut on each side."""
    down = {"respawn_seconds": 0.3}
    kills = [Fault(f"k{n}", Kind.KILL, f"w{n}", After(2.0 * n), down) for n in (1, 2, 3)]
    cuts = [
        Fault(f"x{n}", (BEFORE, AFTER)[n % 2], f"w{n % 4 + 1}", AtPoint("append.sent", 1, f"w{n % 4 + 1}", 0.8 * n))
        for n in range(8)
    ]
    spares = tuple(Fault(f"s{n}", Kind.KILL, f"w{n % 4 + 1}", After(0.0), down) for n in range(12))
    return Schedule("short", (*kills, *cuts), spares, Quotas(kills=2))


@pytest.mark.slow
@pytest.mark.cluster
def test_a_short_storm_over_the_wire_breaks_no_law_and_says_what_became_of_each_cut(
    tmp_path: Path, postgres_source: PostgresSource
) -> None:
    (tmp_path / "short.json").write_text(to_json(short_schedule()))
    done = subprocess.run(
        [sys.executable, "-m", "noeta", "cluster", "--seed", "51", "--schedule", "short.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **SIZE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=200,
    )
    latest = tmp_path / "runs" / "latest"
    results, run = json.loads((latest / "results.json").read_text()), json.loads((latest / "run.json").read_text())
    cuts = read_cuts(latest / CUTS)
    found = Counter(cut.outcome for cut in cuts)

    assert not [law for law in results["laws"] if law["verdict"] == "invalid"], done.stdout
    assert not [doubt for doubt in results["doubts"] if not doubt.startswith("law ")], done.stdout
    assert {cut.fault for cut in cuts} <= {f"x{n}" for n in range(8)}
    assert found[Outcome.LANDED] >= 2
    assert found[Outcome.NOT_LANDED] >= 2
    assert run["storm"]["cuts"] == {str(outcome): count for outcome, count in sorted(found.items())}
    situations = results["situations"]
    assert situations["commit-cut-landed"] == found[Outcome.LANDED]
    assert situations["commit-cut-not-landed"] == found[Outcome.NOT_LANDED]
    # What the proxy read off the server's answers is what the logs say.
    assert situations["commit-unknown-landed"] == found[Outcome.LANDED]
    assert situations["commit-unknown-not-landed"] == found[Outcome.NOT_LANDED]
    words = f"wire:   commits cut and landed {found[Outcome.LANDED]}, cut and not landed {found[Outcome.NOT_LANDED]}"
    assert words in done.stdout
    assert "Commits cut on the wire" in (latest / "report.html").read_text()
    assert (latest / "wire.log").read_text() == ""


def cut_line(kind: Kind, outcome: Outcome, **more: Any) -> CutLine:
    said = {Outcome.LANDED: "it answered 'landed'", Outcome.NOT_LANDED: "never sent", Outcome.UNKNOWN: "no answer"}
    line = CutLine(
        fault=f"{kind}-{outcome}",
        kind=kind,
        at=AT,
        ended_at=AT + 1,
        process="w1#1",
        verb="append",
        outcome=outcome,
        why=said[outcome],
        facts={"task": TASK},
    )
    return msgspec.structs.replace(line, **more)


def wired_run(planned: tuple[Kind, ...], cuts: dict[str, int], **storm: Any) -> dict[str, Any]:
    """The quiet run, of which both situations of the wire are required."""
    required = {"commit-cut-landed": 1, "commit-cut-not-landed": 1}
    told = {**QUIET_RUN["storm"], "planned": ["kill", *planned], "fired": {"kill": 1, **dict.fromkeys(planned, 1)}}
    return {**QUIET_RUN, "required": required, "storm": {**told, "cuts": cuts, **storm}}


def test_cuts_are_counted_from_the_record_and_told(tmp_path: Path) -> None:
    lines = [
        cut_line(BEFORE, Outcome.NOT_LANDED),
        cut_line(AFTER, Outcome.LANDED),
        cut_line(AFTER, Outcome.UNKNOWN),
        cut_line(AFTER, Outcome.UNKNOWN, is_cut=False),
    ]
    made = hand_made(tmp_path, run=wired_run((BEFORE, AFTER), {"landed": 1, "not-landed": 1, "unknown": 1}))
    made.path(CUTS).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    judgement = judge(made)
    write_report(made, judgement)

    assert (judgement.situations["commit-cut-landed"], judgement.situations["commit-cut-not-landed"]) == (1, 1)
    assert not any("commit-cut" in doubt for doubt in judgement.doubts)
    told = "wire:   commits cut and landed 1, cut and not landed 1, cut with no answer of the server 1"
    assert told in list(summary(judgement))
    page = made.path("report.html").read_text()
    assert "it answered &#x27;landed&#x27;" in page
    assert TASK in page


@pytest.mark.parametrize(
    ("planned", "refused", "doubted"),
    [
        ((BEFORE, AFTER), {}, {"landed", "not-landed"}),
        ((AFTER,), {}, {"landed"}),
        ((BEFORE, AFTER), {"cut_before_commit": "no wire", "cut_after_commit": "no wire"}, set()),
        ((), {}, set()),
    ],
)
def test_cuts_are_asked_of_a_run_that_planned_them_and_has_a_wire(
    tmp_path: Path, planned: tuple[Kind, ...], refused: dict[str, str], doubted: set[str]
) -> None:
    judgement = judge(hand_made(tmp_path, run=wired_run(planned, {}, refused=refused)))

    doubts = " ".join(judgement.doubts)
    assert {name for name in ("landed", "not-landed") if f"required situation commit-cut-{name}:" in doubts} == doubted


def test_a_campaign_asks_for_cuts_where_there_is_a_wire() -> None:
    row = Row(("1", "valid"), 0, {"commit-cut-landed": 1}, frozenset({BEFORE, AFTER}))
    required = {"commit-cut-landed": 1, "commit-cut-not-landed": 1}

    assert verdict_of([row, row], required)[0] == 2
    assert verdict_of([row, replace(row, situations={"commit-cut-not-landed": 1})], required)[0] == 0
    assert verdict_of([replace(row, situations={}, possible=frozenset())], required)[0] == 0
