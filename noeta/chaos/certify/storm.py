"""A short storm over the candidate: `noeta cluster`, as anybody would run it, and its verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from invariants import Verdict
from noeta.chaos.asked import SECONDS, SEED, TASKS
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.candidate import Places, load
from noeta.chaos.certify.card import Line
from noeta.chaos.evidence_dir import EXPLAIN, LATEST, RESULTS

STORE: Final = "NOETA_CLUSTER_STORE"
TASKS_DEFAULT: Final = 40
QUICK_TASKS: Final = 30
STORY_LINES_MAX: Final = 30


class StormFailed(RuntimeError):
    """The harness of the storm failed; the message is the end of what it said."""


def blow(order: Order) -> Iterator[Line]:
    """One line: what the laws say of what the storm left behind.

    Raises:
        StormFailed.
    """
    candidate = load(order.store)
    places = Places(candidate, Path(order.root))
    place, runs = places.fresh(), Path(order.root) / "runs"
    tasks = QUICK_TASKS if order.quick else TASKS_DEFAULT
    size = {SEED: str(order.seed), TASKS: str(tasks), SECONDS: f"{order.storm_seconds:g}"}
    began = time.monotonic()
    done = subprocess.run(
        # Kept, because what is at the place is given back here: it may be a schema on a server.
        [sys.executable, "-m", "noeta.cli", "cluster", "--keep", "--runs-dir", str(runs)],
        env=os.environ | size | {STORE: f"{candidate.address}{place}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    took = time.monotonic() - began
    places.give_back(place)
    if done.returncode not in (0, 1, 2):
        told = done.stdout.strip().splitlines()
        raise StormFailed("\n".join([line for line in told if "harness" in line] or told[-STORY_LINES_MAX:]))
    run_dir = runs / LATEST
    results = json.loads((run_dir / RESULTS).read_text())
    explained = (run_dir / EXPLAIN).read_text().strip().splitlines()
    yield _line(order.storm_seconds, results, explained, took)


def _line(seconds: float, results: Mapping[str, Any], explained: list[str], took: float) -> Line:
    storm = results["storm"]
    kills, takeovers = storm["kills"] + storm["kill_alls"], results["situations"].get("taken-over", 0)
    title = f"{seconds:g} s of storm: {kills} kills and {storm['pauses']} pauses that hurt, {takeovers} takeovers"
    verdict = Verdict(results["verdict"])
    broken = [law for law in results["laws"] if law["verdict"] == Verdict.INVALID]
    why = "; ".join(f"breaks {law['law']}: {law['anomalies_total']} anomalies" for law in broken)
    if not broken and verdict is not Verdict.VALID:
        open_laws = [law["law"] for law in results["laws"] if law["verdict"] != Verdict.VALID]
        why = "; ".join([*results["doubts"], *(f"{key} could not be judged" for key in open_laws)])
    checks = sum(law["seen"] for law in results["laws"])
    return Line("storm", "laws", title, verdict, checks, took, why, "\n".join(explained[:STORY_LINES_MAX]))
