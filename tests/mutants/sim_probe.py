"""One bug, or none, under the simulator: every strike of every case until a law convicts, then seeds.

``python -m tests.mutants.sim_probe NAME SECONDS [CASE/MODE …]``; one line of JSON. NAME ``true`` is the true code.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.mutants.answer import Answer, say
from tests.mutants.catalogue import Mutant
from tests.mutants.plant import plant

SEEDS_MAX = 2_000
SUCCESSOR_POINTS = 50
"""Within so many points a successor has waited for the lease to lapse, claimed, read, and not yet written."""


def main(name: str, seconds: float, *only: str) -> Answer:
    mutant = None if name == "true" else plant(name)
    # Not before the bug is planted: the simulator takes the store by name.
    from noeta.chaos.sim.run import Result

    logging.getLogger("noeta").setLevel(logging.CRITICAL + 1)
    began = time.monotonic()
    executions, others = 0, Counter[str]()
    for where, result in _executions(*only):
        executions += 1
        assert isinstance(result, Result)
        convicted = _laws(result)
        guilty = sorted(convicted if mutant is None else convicted & mutant.convicting, key=_rank(mutant))
        if guilty:
            return Answer("invalid", guilty[0], f"{where}: {_text(result, guilty[0])}", executions)
        others.update(convicted)
        if time.monotonic() - began > seconds:
            break
    return Answer("valid" if executions else "unknown", "", f"{executions} executions; other laws: {dict(others)}")


def _executions(*only: str) -> Iterator[tuple[str, object]]:
    from noeta.chaos.sim.exhaustive import MODES
    from noeta.chaos.sim.scripts import CASES
    from noeta.chaos.sim.seeded import run_seed

    for pair in only:
        case, _, mode = pair.partition("/")
        yield from _strikes(case, mode)
    if not only:
        for case in CASES:
            yield from _strikes(case, *MODES)
        yield from _replaced_twice()
        for seed in range(1, SEEDS_MAX + 1):
            yield f"seed {seed}", run_seed(seed)


def _strikes(case: str, *modes: str) -> Iterator[tuple[str, object]]:
    """The case without a strike, and with every strike of these modes."""
    from noeta.chaos.sim.exhaustive import MODES, struck_everywhere
    from noeta.chaos.sim.run import Execution, strike_at
    from noeta.chaos.sim.scripts import CASES

    one = CASES[case]
    calm = Execution(one).run()
    yield f"{one.name}, no strike", calm
    for mode in (MODES[name] for name in modes):
        if not mode.fits(one):
            continue
        begun = Execution(one, strike_at(mode.after)).run() if mode.after else calm
        points = begun.points[sum(strike.after for strike in mode.after) :]
        for bad in struck_everywhere(one, mode, 1, points, mode.after):
            yield f"{one.name}, {mode.title} at {', '.join(bad.result.struck)}", bad.result


def _replaced_twice() -> Iterator[tuple[str, object]]:
    """A worker frozen right before an append comes back while its successor, dead before it wrote anything, still
    holds the lease: nothing but the fence is in its way, the log has not moved."""
    from noeta.chaos.sim.run import Execution, Strike, strike_at
    from noeta.chaos.sim.scripts import CASES, LEASE_SECONDS

    for case in (CASES["plain"], CASES["retry-safe"]):
        points = Execution(case).run().points
        for n in (place for place, point in enumerate(points, start=1) if point == "append.before"):
            for m in range(1, SUCCESSOR_POINTS + 1):
                strikes = (Strike("freeze", n, 1.7 * LEASE_SECONDS), Strike("kill", m))
                result = Execution(case, strike_at(strikes)).run()
                yield f"{case.name}, SIGSTOP and SIGKILL of the successor at {', '.join(result.struck)}", result


def _laws(result: object) -> set[str]:
    from invariants import Verdict
    from noeta.chaos.sim.run import Result

    assert isinstance(result, Result)
    laws = {one.law.key for one in result.report.laws if one.verdict is Verdict.INVALID}
    return laws | {finding.partition(":")[0] for finding in result.findings}


def _rank(mutant: Mutant | None):  # type: ignore[no-untyped-def]
    return lambda law: (mutant is None or law != mutant.promise, law)


def _text(result: object, law: str) -> str:
    from noeta.chaos.sim.run import Result

    assert isinstance(result, Result)
    found = [f"{anomaly.code}: {anomaly.text}" for anomaly in result.report.anomalies() if anomaly.law == law]
    found += [finding for finding in result.findings if finding.startswith(law)]
    return found[0] if found else law


if __name__ == "__main__":
    say(main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:]))
