"""One bug, or none, under the simulator, by one strategy, until a law convicts.

``python -m tests.mutants.sim_probe NAME SECONDS STRATEGY [CASE/MODE …]``; one line of JSON. NAME ``true`` is the true
code. STRATEGY: ``exhaustion`` (every case without a strike, then with every strike), ``random`` or ``pct`` (seeds from
1 on), ``all`` (exhaustion, then random seeds), ``replay`` (the schedules in the files named instead of pairs).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noeta.chaos.sim.silence import silence
from tests.mutants.answer import Answer, say
from tests.mutants.catalogue import Mutant
from tests.mutants.plant import plant

SEEDS_MAX = 2_000
STRATEGIES = ("exhaustion", "random", "pct", "all", "replay")


def main(name: str, seconds: float, strategy: str, *only: str) -> Answer:
    mutant = None if name == "true" else plant(name)
    # Not before the bug is planted: the simulator takes the store by name.
    from noeta.chaos.sim.result import Result

    silence()
    began = time.monotonic()
    count, others = 0, Counter[str]()
    for where, result in executions(strategy, *only):
        count += 1
        assert isinstance(result, Result)
        convicted = result.convicted
        guilty = sorted(convicted if mutant is None else convicted & mutant.convicting, key=_rank(mutant))
        if guilty:
            return Answer("invalid", guilty[0], f"{where}: {_text(result, guilty[0])}", count)
        others.update(convicted)
        if time.monotonic() - began > seconds:
            break
    return Answer("valid" if count else "unknown", "", f"{count} executions; other laws: {dict(others)}")


def executions(strategy: str, *only: str) -> Iterator[tuple[str, Any]]:
    """The executions of a strategy, in order, each with words for where it stands."""
    from noeta.chaos.schedule import from_json
    from noeta.chaos.sim.cases import CASES
    from noeta.chaos.sim.modes import MODES
    from noeta.chaos.sim.replay import replay
    from noeta.chaos.sim.seeded import Strategy, run_seed

    assert strategy in STRATEGIES, strategy
    if strategy == "replay":
        for file in only:
            yield Path(file).name, replay(from_json(Path(file).read_bytes()))
        return
    for pair in only:
        case, _, mode = pair.partition("/")
        yield from _strikes(case)
        yield from _strikes(case, mode)
    if only:
        return
    if strategy in ("exhaustion", "all"):
        for case in CASES:
            yield from _strikes(case)
        for case in CASES:
            yield from _strikes(case, *MODES)
    if strategy != "exhaustion":
        by = Strategy.PCT if strategy == "pct" else Strategy.RANDOM
        for seed in range(1, SEEDS_MAX + 1):
            yield f"seed {seed}", run_seed(seed, strategy=by)


def _strikes(case: str, *modes: str) -> Iterator[tuple[str, object]]:
    """The case without a strike, and with every strike of these modes."""
    from noeta.chaos.sim.cases import CASES
    from noeta.chaos.sim.exhaustive import SKEWS, mode_executions
    from noeta.chaos.sim.modes import MODES
    from noeta.chaos.sim.run import Execution

    one = CASES[case]
    calm = Execution(one, skews=SKEWS).run()
    if not modes:
        yield f"{one.name}, no strike", calm
    for mode in (MODES[name] for name in modes):
        if mode.fits(one):
            for bad in mode_executions(one, mode, 1, calm):
                yield f"{one.name}, {mode.title} at {', '.join(bad.result.struck)}", bad.result


def _rank(mutant: Mutant | None):  # type: ignore[no-untyped-def]
    return lambda law: (mutant is None or law != mutant.promise, law)


def _text(result: object, law: str) -> str:
    from noeta.chaos.sim.result import Result

    assert isinstance(result, Result)
    found = [f"{anomaly.code}: {anomaly.text}" for anomaly in result.report.anomalies() if anomaly.law == law]
    found += [finding for finding in result.findings if finding.startswith(law)]
    return found[0] if found else law


if __name__ == "__main__":
    say(main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:]))
