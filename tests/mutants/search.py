"""``python -m tests.mutants.search``: how soon the simulator finds each planted bug, and how small it makes it.

Per bug the number of schedules and seconds that exhaustion, random seeds and PCT need until a law convicts it; then
what shrinking makes of a failing random seed, and whether the test it prints is red on the bug and green on the true
code.
Bugs that live in SQL or in a server alone are not asked about. Writes ``search.json`` beside this file.

Exit code 0: every bug is found by some strategy, the medians hold (200 schedules; three faults and three tasks), and
every printed test tells the bug from the true code; 1: not so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from noeta.chaos.versions import commit
from tests.mutants.catalogue import MUTANTS
from tests.mutants.detectors import probe_json

RESULTS: Final = Path(__file__).with_name("search.json")
BY: Final = ("exhaustion", "random", "pct")
SECONDS: Final = 60.0
EXHAUSTION_SECONDS: Final = 300.0
"""The set is played in one order, and the scripts that wait and delegate come last."""
SCHEDULES_MEDIAN_MAX: Final = 200
SMALL_MEDIAN_MAX: Final = 3

EXCEPTIONS: Final = {
    "claim-without-row-lock": "the memory store has one lock and the simulator one thread: a race for the race matrix",
    "token-not-checked": "no behaviour of its own: the epoch, which is compared, differs whenever the token does",
    "repeated-wake-stored": "clients post under keys of their own; the key that a store derives is for the contract",
    "order-not-heard": "no law says how soon a step must hear: it ends by itself, only later; for the tests of workers",
    "resume-ignores-epoch": "its successor resumes anyway, and its own next append is refused; for the contract",
    "recovered-call-gated-again": "gates of scripts decide alike each time and allow again; for the tests of approvals",
    "rewritten-input-not-recorded": "the journal knows calls by their tags, which no gate changes; for the same tests",
    "job-ends-with-its-shell": "a simulated shell has no supervisor: planted in the real one; for the tests of jobs",
    "jobs-outlive-their-worker": "a simulation has no guard process, only what is promised of it; for the same tests",
    "frozen-worker-keeps-its-jobs": "the same; for the tests of jobs, and for what a storm's shells write",
    "released-before-the-tool-stopped": "no law says what a tool may not do after its claim was given back, which only "
    "the worker's clock could tell; for the tests of shutdown",
    "no-expected-seq": "two appends under one claim: no worker of this version makes them; for the contract",
}
"""Planted in Python, and not to be seen from above the store: why, and who sees them instead."""

SEEN: Final = [one for one in MUTANTS if one.python and one.where != "server" and one.name not in EXCEPTIONS]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.search", description=__doc__)
    parser.add_argument("--only", action="append", choices=[one.name for one in SEEN], help="one bug; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="bugs looked for at the same time")
    parser.add_argument("--show", action="store_true", help="print the table of search.json and look for nothing")
    asked = parser.parse_args(arguments)
    names = asked.only or [one.name for one in SEEN]
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"bugs": {}}
    print(head(), flush=True)
    if not asked.show:
        with ThreadPoolExecutor(asked.jobs) as pool:
            for name, cells in zip(names, pool.map(look, names), strict=True):
                found["bugs"][name] = cells
                found |= {"commit": commit(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
                RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
                print(line(name, cells), flush=True)
    else:
        missing = [name for name in names if name not in found["bugs"]]
        names = [name for name in names if name in found["bugs"]]
        print("\n".join([line(name, found["bugs"][name]) for name in names] + [f"{name}: no row" for name in missing]))
    told = list(judged({name: found["bugs"][name] for name in names}))
    print("\n".join(told))
    return 1 if any(text.startswith("NOT") for text in told) else 0


def look(name: str) -> dict[str, Any]:
    """Everything about one bug."""
    cells: dict[str, Any] = {}
    for by in BY:
        seconds = EXHAUSTION_SECONDS if by == "exhaustion" else SECONDS
        cells[by] = probe_json("sim_probe", [name, str(seconds), by], seconds + 60)
    shrunk = probe_json("shrink_probe", [name, str(SECONDS)], 4 * SECONDS)
    shrunk["holds"] = all(
        (
            shrunk.get("smaller"),
            shrunk.get("repeats"),
            shrunk.get("under_bug") == "failed",
            shrunk.get("on_true_code") == "passed",
        )
    )
    return {**cells, "shrunk": shrunk}


def line(name: str, cells: dict[str, Any]) -> str:
    """One bug as a line of the table."""
    found = [
        f"{one['runs']:>5} {one['took']:>5.1f} s" if (one := cells[by]).get("verdict") == "invalid" else f"{'-':>13}"
        for by in BY
    ]
    shrunk = cells["shrunk"]
    if "after" not in shrunk:
        return f"{name:<30} {'  '.join(found)}  not shrunk"
    sizes = (f"{one['faults']:>2} {one['tasks']:>2} {one['turns']:>4}" for one in (shrunk["before"], shrunk["after"]))
    told = "red/green" if shrunk["holds"] else f"{shrunk['under_bug']}/{shrunk['on_true_code']}"
    return f"{name:<30} {'  '.join(found)}  {' -> '.join(sizes)}  {shrunk['seconds']:>5.1f} s  {told}"


def head() -> str:
    """Over the table: schedules until it is found, and seconds; faults, tasks and turns before and after shrinking."""
    found = "  ".join(f"{by:>13}" for by in BY)
    return f"{'planted bug':<30} {found}  faults tasks turns    shrunk in  test"


def judged(bugs: dict[str, Any]) -> Iterator[str]:
    """What holds, and what does not."""
    for by in BY:
        runs = [one[by]["runs"] for one in bugs.values() if one[by].get("verdict") == "invalid"]
        median = statistics.median(runs) if runs else 0
        word = "" if median <= SCHEDULES_MEDIAN_MAX else "NOT WITHIN THE BOUND: "
        bound = f"(at most {SCHEDULES_MEDIAN_MAX})"
        yield f"{word}{by}: {len(runs)} of {len(bugs)} found, median {median:g} schedules {bound}"
    for name, one in bugs.items():
        if not any(one[by].get("verdict") == "invalid" for by in BY):
            yield f"NOT FOUND: {name}"
        if not one["shrunk"]["holds"]:
            yield f"NOT SHRUNK, or its test does not tell: {name}"
    for what in ("faults", "tasks"):
        sizes = [one["shrunk"]["after"][what] for one in bugs.values() if "after" in one["shrunk"]]
        median = statistics.median(sizes) if sizes else 0
        word = "" if median <= SMALL_MEDIAN_MAX else "NOT WITHIN THE BOUND: "
        yield f"{word}shrunk: median {median:g} {what} (at most {SMALL_MEDIAN_MAX})"
    for name, why in EXCEPTIONS.items():
        yield f"not asked about: {name}: {why}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
