"""Closing what a supervisor got from the guard that forked it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from noeta.core.jobs import JobSpec
from tests.unit.runtime.jobs.stage import LONG, children_named, claim_held, job_table, wait_ends, wait_until

CLOSES = """
import os, resource
from noeta.runtime.jobs import kernel
low, kept, high = os.dup(0), os.dup(0), os.dup2(0, 300)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
kernel.close_all_but({0, 1, 2, kept})
print([number for number in range(400) if os.path.exists(f"/proc/self/fd/{number}")] == [0, 1, 2, kept])
"""


def test_every_other_descriptor_is_closed_also_above_a_limit_that_was_lowered() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSES], cwd=Path(__file__).parents[4], capture_output=True, text=True, check=True
    )

    assert done.stdout == "True\n"


def test_a_guard_that_may_hold_no_more_descriptors_still_starts_the_job_that_it_has_room_for() -> None:
    """Whoever lists them, to close them, needs room for one."""
    with job_table() as (table, world):
        jobs = table.of(claim_held(world, LONG))
        jobs.start("1-0", JobSpec("sleep 600"))
        (guard,) = children_named(os.getpid(), "noeta-guard")
        folder = Path(f"/proc/{guard}/fd")
        # Two of a pipe for its children, one to the supervisor: those of the start itself are closed.
        wait_until(lambda: sum("pipe:" in str(entry.readlink()) for entry in folder.iterdir()) == 3, "it waits again")
        used = {int(entry.name) for entry in folder.iterdir()}
        of_a_start = sorted(set(range(len(used) + 100)) - used)[:5]  # three that come with it, and a pipe

        _, most = resource.prlimit(guard, resource.RLIMIT_NOFILE)
        resource.prlimit(guard, resource.RLIMIT_NOFILE, (of_a_start[-1] + 1, most))
        jobs.start("1-1", JobSpec("echo so"))

        (end,) = wait_ends(jobs, 1)
        assert (end.how, end.output.text) == ("exited", "so\n"), end.detail
