"""The four detectors, each in a process of its own with a deadline: what does it say of this bug?

``contract``: the store contract on both stores; of what stands above them the tests that the catalogue names, then all
tests of recovery. ``race``: the race matrix. ``sim``: the strikes that the catalogue names, then every strike of every
case, then seeds. ``storm``: real workers, real Postgres, and only the laws to judge. A bug is caught when the answer is
``invalid`` for the right reason: a law that the catalogue names for it, a pair that no order explains, a test that the
sound code passes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.mutants.answer import Answer, heard
from tests.mutants.catalogue import Detector, Mutant
from tests.mutants.mutant import MEMORY
from tests.mutants.plant import VARIABLE

ROOT: Final = Path(__file__).parents[2]

MEMORY_TESTS: Final = ("tests/contract/test_memory_contract.py",)
POSTGRES_TESTS: Final = ("tests/contract/test_postgres_contract.py",)
SESSION_TESTS: Final = ("tests/contract/test_postgres_sessions.py",)
RECOVERY_TESTS: Final = (
    "tests/contract/test_recovery.py",
    "tests/contract/test_lost_claims.py",
    "tests/unit/core",
    "tests/unit/plugins",
    "tests/unit/runtime",
    "tests/unit/scripted_model/test_on_the_runner.py",
)
FAILURES_MAX: Final = 3
CONTRACT_SECONDS: Final = 300.0
RACE_SECONDS: Final = 400.0
SIM_SECONDS: Final = 60.0
"""How long the simulator looks for one bug; its process gets a little more."""

STORM_TRIES: Final = ((1, 20, 40), (2, 45, 60))
"""Seed, seconds and tasks of the storms a bug may take; a caught one takes no more."""

STORM_SECONDS: Final = 300.0
"""What one storm may take with its drain and its check."""

_FAILED: Final = re.compile(r"^(FAILED|ERROR) (.+?)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Look:
    """One detector's word on one bug."""

    mutant: str
    detector: Detector
    answer: Answer
    seconds: float


def look(mutant: Mutant, detector: Detector) -> Look:
    """Ask one detector."""
    began = time.monotonic()
    match detector:
        case "contract":
            answer = _contract(mutant)
        case "race":
            answer = _race(mutant)
        case "sim":
            answer = _sim(mutant)
        case "storm":
            answer = _storm(mutant)
    return Look(mutant.name, detector, answer, round(time.monotonic() - began, 1))


def failing(tests: Iterable[str], mutant: str = "", *, seconds: float, failures_max: int = 1) -> tuple[str, list[str]]:
    """Run these tests under a bug (none: the sound code). What came of it, and the ids that failed.

    The word is ``passed``, ``failed``, or why it is neither: an error outside a test proves nothing about the bug.
    """
    environ = {**os.environ, VARIABLE: mutant}
    arguments = ["-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", f"--maxfail={failures_max}", "--timeout=60"]
    output, code = _run([sys.executable, "-m", "pytest", *arguments, *tests], environ, seconds)
    found = _FAILED.findall(output)
    failed = [test for word, test, _ in found if word == "FAILED"]
    if code == 0:
        return "passed", []
    if code == 1 and failed and len(failed) == len(found):
        return "failed", failed
    return f"exit code {code}: {_last_line(output)}", failed


def _contract(mutant: Mutant) -> Answer:
    suites: list[tuple[str, ...]] = []
    if mutant.where in ("store", "server"):
        suites.append(MEMORY_TESTS)
        if mutant.sql:
            suites.append(POSTGRES_TESTS)
        if mutant.where == "server":
            suites.append(SESSION_TESTS)
    else:
        named = next((test for test in mutant.quick.tests if _tells(test, mutant)), None)
        if named is not None:
            return Answer("invalid", short(named), f"recovery: {short(named)}", 1)
        suites.append(RECOVERY_TESTS)
    caught: list[str] = []
    doubts: list[str] = []
    for suite in suites:
        tests = [test for test in suite if (ROOT / test).exists()]
        word, failed = failing(tests, mutant.name, seconds=CONTRACT_SECONDS, failures_max=FAILURES_MAX)
        tells = next((test for test in failed if _tells(test, mutant)), None)
        caught += [] if tells is None else [tells]
        if word not in ("passed", "failed") and tells is None:
            doubts.append(word)
    if caught:
        names = [
            f"{'postgres' if 'ostgres' in test else 'memory' if 'emory' in test else 'recovery'}: {short(test)}"
            for test in caught
        ]
        return Answer("invalid", short(caught[0]), "; ".join(names), len(suites))
    return Answer("unknown" if doubts else "valid", what="; ".join(doubts), runs=len(suites))


def _tells(test: str, mutant: Mutant) -> bool:
    """Whether this test, run by itself, fails again under the bug and passes without: not so by chance."""
    return (
        failing([test], mutant.name, seconds=CONTRACT_SECONDS)[0] == "failed"
        and failing([test], seconds=CONTRACT_SECONDS)[0] == "passed"
    )


def _race(mutant: Mutant) -> Answer:
    if not mutant.sql:
        return Answer("", what="no SQL of its own")
    return _probe("race_probe", [mutant.name], RACE_SECONDS)


def _sim(mutant: Mutant) -> Answer:
    if mutant.where == "server" or not mutant.python:
        return Answer("", what="needs a real server")
    if mutant.quick.sim is not None:
        answer = _probe(
            "sim_probe", [mutant.name, str(SIM_SECONDS), "exhaustion", "/".join(mutant.quick.sim)], SIM_SECONDS + 30
        )
        if answer.caught:
            return answer
    return _probe("sim_probe", [mutant.name, str(SIM_SECONDS), "all"], SIM_SECONDS + 30)


def _storm(mutant: Mutant) -> Answer:
    if not mutant.sql and all(patch.module == MEMORY for patch in mutant.python):
        return Answer("", what="planted in the memory store alone")
    said: list[str] = []
    answer = Answer("unknown")
    for number, (seed, seconds, tasks) in enumerate(STORM_TRIES, start=1):
        answer = _probe("storm_probe", [mutant.name, str(seed), str(seconds), str(tasks)], STORM_SECONDS)
        if answer.caught:
            return Answer("invalid", answer.by, f"seed {seed}: {answer.what}", number)
        said.append(f"seed {seed}: {answer.verdict} {answer.what}".strip())
    return Answer(answer.verdict, what="; ".join(said), runs=len(said))


def short(test: str) -> str:
    """A node id without its file and class."""
    return test.rpartition("::")[2]


def _probe(module: str, arguments: Sequence[str], seconds: float) -> Answer:
    output, code = _ask(module, arguments, seconds)
    return heard(output) or Answer("unknown", what=f"{module} said nothing, exit code {code}: {_last_line(output)}")


def probe_json(module: str, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """What a probe says as its last line, and ``took``: the seconds of its process, start included."""
    began = time.monotonic()
    output, code = _ask(module, arguments, seconds)
    try:
        said: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        said = {"error": f"{module} said nothing, exit code {code}: {_last_line(output)}"}
    return {**said, "took": round(time.monotonic() - began, 1)}


def _ask(module: str, arguments: Sequence[str], seconds: float) -> tuple[str, int | str]:
    with tempfile.TemporaryDirectory(prefix="noeta-mutant-") as place:
        environ = {**os.environ, "TMPDIR": place}
        return _run([sys.executable, "-m", f"tests.mutants.{module}", *arguments], environ, seconds)


def _run(command: Sequence[str], environ: dict[str, str], seconds: float) -> tuple[str, int | str]:
    """Output and exit code; past the deadline the whole group is told to end, then killed."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for number, patience in ((signal.SIGINT, 15.0), (signal.SIGKILL, None)):
            os.killpg(process.pid, number)
            try:
                output, _ = process.communicate(timeout=patience)
                break
            except subprocess.TimeoutExpired:
                continue
        return output, "none: out of time"
    return output, process.returncode


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1][:200] if lines else "(no output)"
