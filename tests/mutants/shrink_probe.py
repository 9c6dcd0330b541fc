"""One bug under the simulator's random seeds, and what becomes of the failure when it is shrunk.

``python -m tests.mutants.shrink_probe NAME SECONDS [FILE]``; one line of JSON, see ``main``. The printed test is run in
processes of its own: it must be red under the bug and green without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.mutants.mutant import Mutant
from tests.mutants.plant import VARIABLE, plant
from tests.mutants.sim_probe import executions

ROOT: Final = Path(__file__).parents[2]
PYTEST_SECONDS: Final = 120.0


def main(name: str, seconds: float, save: Path | None = None) -> dict[str, Any]:
    """What a bug shrinks to.

    ``found``: the first execution that shows it by a law that the catalogue names, of random seeds or, where none of
    them does in time, of the strikes that the catalogue names, then of the exhaustive set; None: none did, and the
    rest is not there.
    ``before``, ``after``: faults, tasks, messages, workers, turns, steps. ``repeats``: two replays of the result gave
    the same trace and broke the law. ``smaller``: by the shrinker's order. ``under_bug``, ``on_true_code``: how pytest
    ended on the printed test, ``passed`` or ``failed``. ``story``: its lines.

    Args:
        seconds: how long to shrink; the search for a seed comes on top.
        save: the file that the small schedule is written to.
    """
    mutant = plant(name)
    # Not before the bug is planted: the simulator takes the store by name.
    from noeta.chaos.schedule import to_json
    from noeta.chaos.sim.as_pytest import as_pytest
    from noeta.chaos.sim.replay import replay
    from noeta.chaos.sim.shrink import shrink
    from noeta.chaos.sim.shrink_order import Size
    from noeta.chaos.sim.silence import silence
    from noeta.chaos.sim.story import story

    def counts(size: Size) -> dict[str, int]:
        bulk = size.bulk
        names = ("faults", "tasks", "messages", "workers", "turns", "steps")
        return {one: getattr(bulk, one) for one in names}

    silence()
    failing = _first(mutant, seconds)
    if failing is None:
        return {"mutant": name, "found": None}
    found, result, guilty = failing
    shrunk = shrink(result.schedule, guilty[0], seconds=seconds)
    if save is not None:
        save.write_text(to_json(shrunk.schedule))
    first, second = replay(shrunk.schedule), replay(shrunk.schedule)
    text = as_pytest(shrunk.schedule, shrunk.law)
    return {
        "mutant": name,
        "found": found,
        "law": shrunk.law,
        "before": counts(shrunk.before),
        "after": counts(shrunk.after),
        "smaller": shrunk.after < shrunk.before,
        "executions": shrunk.executions,
        "seconds": shrunk.seconds,
        "is_fixed_point": shrunk.is_fixed_point,
        "repeats": first.trace_hash == second.trace_hash and shrunk.law in first.convicted & second.convicted,
        "under_bug": pytest_says(text, name),
        "on_true_code": pytest_says(text, ""),
        "story": story(first, shrunk.law),
    }


def _first(mutant: Mutant, seconds: float) -> tuple[str, Any, list[str]] | None:
    """The first execution that breaks what the bug is known to break: where, its result, the laws."""
    quick = () if mutant.quick.sim is None else ("/".join(mutant.quick.sim),)
    for strategy, only in (("random", ()), ("exhaustion", quick), ("exhaustion", ())):
        began = time.monotonic()
        for where, result in executions(strategy, *only):
            guilty = sorted(result.convicted & mutant.convicting, key=lambda law: (law != mutant.promise, law))
            if guilty:
                return where, result, guilty
            if time.monotonic() - began > seconds:
                break
    return None


def pytest_says(text: str, mutant: str) -> str:
    """How a test file ends under a bug (none: the true code): ``passed``, ``failed``, or exit code and last line."""
    with tempfile.TemporaryDirectory(prefix="noeta-shrunk-") as place:
        file = Path(place) / "test_shrunk.py"
        file.write_text(text, encoding="ascii")
        # The hook that plants bugs stands in the suite's conftest, beside which this file does not lie.
        options = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(file)],
            cwd=ROOT,
            env={**os.environ, VARIABLE: mutant, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PYTEST_SECONDS,
            check=False,
        )
    if done.returncode in (0, 1):
        return ("passed", "failed")[done.returncode]
    return f"exit code {done.returncode}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}"


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], float(sys.argv[2]), *map(Path, sys.argv[3:]))), flush=True)
