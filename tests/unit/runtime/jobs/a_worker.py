"""A worker process that only has background jobs: reads what to do from its standard input, a JSON line each."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from dataclasses import asdict
from typing import Any

from noeta.core.jobs import JobSpec
from noeta.runtime.jobs.table import JobTable
from noeta.runtime.threads import ThreadWorld
from tests.unit.runtime.jobs.stage import claim_held


def main() -> None:
    """Do what each line says, and answer it with one."""
    if os.environ.get("NOETA_MUTANT"):  # a planted bug: see tests/mutants/
        from tests.mutants.plant import plant_here

        plant_here()
    world = ThreadWorld(seed=1)
    table = JobTable(world)
    held = claim_held(world, 600.0)
    jobs = table.of(held)
    beside = table.of(claim_held(world, 600.0, task="beside", token="beside"))
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        match asked["do"]:
            case "start":
                jobs.start(asked["job"], JobSpec(asked["command"], environment=asked["environment"]))
            case "extend":
                held.deadline = answer = world.monotonic() + asked["seconds"]
                table.extended(held)
                # The guard hears in order: what it is told after that has reached it, so has this. A lease that gets
                # shorter, as only a test has it, must have arrived before the worker is frozen.
                beside.start(f"after {answer}", JobSpec("true"))
            case "lost":
                held.cut("somebody took it over")
                table.lost(held)
            case "stop":
                answer = jobs.stop()
            case "close":
                table.close()
            case "fork":
                answer = os.fork()
                if answer == 0:
                    signal.pause()
            case "limit":
                _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (asked["files"], most))
            case "ended":
                answer = [asdict(end) for end in jobs.ended()]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
