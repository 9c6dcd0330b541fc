"""``python -m tests.mutants``: plant every known bug, one at a time; each must be caught.

Prints the table (bug by detector: what caught it, and the seconds it took) and writes ``results.json`` beside this
file. Exit code 0: each bug asked about is caught by a detector asked, and, if the storm was asked about all of the
fourteen, it caught at least eight alone; 1: not so; 64: bad usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from noeta.chaos.versions import commit
from tests.mutants.catalogue import BY_NAME, DETECTORS, MUTANTS, Detector, Mutant
from tests.mutants.detectors import Look, look

RESULTS: Final = Path(__file__).with_name("results.json")
STORM_ALONE_MIN: Final = 8
"""Of the fourteen, this many the storm must find with the contract switched off."""

NAME_WIDTH: Final = max(len(mutant.name) for mutant in MUTANTS)
CELL_WIDTH: Final = 30


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(BY_NAME), help="one bug; repeatable")
    parser.add_argument("--detector", action="append", choices=DETECTORS, help="one detector; repeatable")
    parser.add_argument("--list", action="store_true", help="name the bugs and the promises they break")
    parser.add_argument("--show", action="store_true", help="print the table of results.json and ask nobody")
    try:
        asked = parser.parse_args(arguments)
    except SystemExit as error:
        return 64 if error.code else 0
    if asked.list:
        for mutant in MUTANTS:
            print(f"{mutant.name:<{NAME_WIDTH}}  {mutant.promise:<20}  {mutant.where:<6}  {mutant.title}")
        return 0
    mutants = [BY_NAME[name] for name in asked.only] if asked.only else list(MUTANTS)
    detectors: list[Detector] = asked.detector or list(DETECTORS)
    results = read()
    if asked.show:
        print_table(mutants, detectors, results)
        return verdict(mutants, detectors, results)
    head(detectors)
    for mutant in mutants:
        print(f"{mutant.name:<{NAME_WIDTH}}", end="", flush=True)
        for detector in detectors:
            found = cell(look(mutant, detector))
            results = record(mutant, detector, found)
            print(f"  {shown(found):<{CELL_WIDTH}}", end="", flush=True)
        print(flush=True)
    return verdict(mutants, detectors, results)


def read() -> dict[str, Any]:
    """What earlier runs found; bugs that no longer exist are dropped."""
    if not RESULTS.is_file():
        return {}
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    results["bugs"] = {name: cells for name, cells in results.get("bugs", {}).items() if name in BY_NAME}
    return results


def record(mutant: Mutant, detector: Detector, found: dict[str, Any]) -> dict[str, Any]:
    """Put one field on disk at once; the file is read again first, so that two commands may fill one table."""
    results = read()
    results.setdefault("bugs", {}).setdefault(mutant.name, {})[detector] = found
    results["commit"], results["date"] = commit(), datetime.now(UTC).isoformat(timespec="seconds")
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return results


def cell(found: Look) -> dict[str, Any]:
    """One field of the table, with the day and the commit it was found at."""
    return {
        "verdict": found.answer.verdict,
        "by": found.answer.by,
        "what": found.answer.what,
        "runs": found.answer.runs,
        "seconds": found.seconds,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def shown(field: dict[str, Any] | None) -> str:
    """A field as the table shows it."""
    if field is None:
        return "?"
    if not field["verdict"]:
        return "-"
    what = field["by"] if field["verdict"] == "invalid" else f"not caught ({field['verdict']})"
    seconds = f" {field['seconds']:.0f} s"
    room = CELL_WIDTH - len(seconds)
    return (what if len(what) <= room else what[: room - 1] + "…") + seconds


def head(detectors: Sequence[Detector]) -> None:
    print(
        f"{'planted bug':<{NAME_WIDTH}}" + "".join(f"  {detector:<{CELL_WIDTH}}" for detector in detectors), flush=True
    )


def print_table(mutants: Sequence[Mutant], detectors: Sequence[Detector], results: dict[str, Any]) -> None:
    """What is known, and when it was found."""
    head(detectors)
    for mutant in mutants:
        cells = results.get("bugs", {}).get(mutant.name, {})
        row = "".join(f"  {shown(cells.get(detector)):<{CELL_WIDTH}}" for detector in detectors)
        print(f"{mutant.name:<{NAME_WIDTH}}{row}".rstrip())


def verdict(mutants: Sequence[Mutant], detectors: Sequence[Detector], results: dict[str, Any]) -> int:
    """Say what was caught by whom; the exit code."""
    bugs = results.get("bugs", {})

    def caught(mutant: Mutant, detector: Detector) -> bool:
        return bool(bugs.get(mutant.name, {}).get(detector, {}).get("verdict") == "invalid")

    missed = [mutant.name for mutant in mutants if not any(caught(mutant, detector) for detector in detectors)]
    counts = ", ".join(f"{one} {sum(caught(mutant, one) for mutant in mutants)}" for one in detectors)
    print(f"{len(mutants) - len(missed)} of {len(mutants)} planted bugs are caught ({counts})")
    for name in missed:
        print(f"NOT CAUGHT: {name}: {BY_NAME[name].title}")
    required = [mutant for mutant in MUTANTS if not mutant.extra]
    alone = sum(caught(mutant, "storm") for mutant in required)
    too_few = "storm" in detectors and set(required) <= set(mutants) and alone < STORM_ALONE_MIN
    if "storm" in detectors:
        print(f"by the storm alone: {alone} of {len(required)} required bugs (at least {STORM_ALONE_MIN})")
    print(f"commit {results.get('commit', 'unknown')}, {results.get('date', 'never')}")
    return 1 if missed or too_few else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
