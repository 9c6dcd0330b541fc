"""One bug, or none, under the real storm, with the contract switched off: nothing but the laws may convict.

``python -m tests.mutants.storm_probe NAME SEED SECONDS TASKS [RUNS_DIR]``; the last line is JSON. The harness's own
process migrates the schema with the bug and stays sound itself; its workers plant the rest by the harness's hook.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from noeta.cli import run
from tests.mutants.answer import Answer, say
from tests.mutants.catalogue import BY_NAME
from tests.mutants.plant import VARIABLE, plant


def main(name: str, seed: str, seconds: str, tasks: str, runs_dir: str) -> Answer:
    arguments = ["cluster", "--seed", seed, "--seconds", seconds, "--tasks", tasks, "--runs-dir", runs_dir]
    if name != "true":
        plant(name, python=False)
        os.environ[VARIABLE] = name
        arguments += ["--mutant", "tests.mutants.plant:plant_here"]
    code = run(arguments)
    found = sorted(Path(runs_dir).glob("*/results.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        return Answer("unknown", what=f"no results, exit code {code}")
    return judged(name, json.loads(found[-1].read_text()))


def judged(name: str, results: dict) -> Answer:  # type: ignore[type-arg]
    """Whether a law convicts for the right reason."""
    guilty = {law["law"]: law for law in results["laws"] if law["verdict"] == "invalid"}
    if name == "true":
        return Answer(results["verdict"], ", ".join(guilty), "; ".join(results["doubts"][:3]), 1)
    mutant = BY_NAME[name]
    right = sorted(mutant.convicting & guilty.keys(), key=lambda law: (law != mutant.promise, law))
    others = sorted(guilty.keys() - set(right))
    if not right:
        doubts = "; ".join(results["doubts"][:2])
        return Answer("unknown" if others or doubts else "valid", what=f"other laws: {others}; {doubts}", runs=1)
    law = guilty[right[0]]
    text = law["anomalies"][0]["text"] if law["anomalies"] else str(law["codes"])
    code = law["anomalies"][0]["code"] if law["anomalies"] else ""
    also = f" (also {', '.join([*right[1:], *others])})" if len(guilty) > 1 else ""
    return Answer("invalid", right[0], f"{code}: {text}{also}", 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="noeta-mutant-") as place:
        name, seed, seconds, tasks, *runs_dir = sys.argv[1:]
        say(main(name, seed, seconds, tasks, runs_dir[0] if runs_dir else place))
