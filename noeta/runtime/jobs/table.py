"""The background jobs of one worker process: a table of claims, and the ``Jobs`` of each.

A claim is known by the key of its handle, so that the next claim of the same task in this process is another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from signal import valid_signals
from typing import Final
from weakref import WeakValueDictionary

from noeta.core.errors import BadInput
from noeta.core.jobs import JOBS_MAX, JobEnd, JobOutput, Jobs, JobSpec
from noeta.core.runner.lease import Held
from noeta.core.world import Event, World
from noeta.runtime.jobs import supervisor
from noeta.runtime.jobs.link import WITHHELD
from noeta.runtime.jobs.minder import Job, Minder

MARGIN_FRACTION: Final = 0.1
"""Of the lease: so long before its end the trees of a claim are killed."""

MARGIN_SECONDS_MIN: Final = 0.1
"""Killing fifty trees takes a few hundredths of a second on a busy machine of two cores."""

MARGIN_SECONDS_MAX: Final = 2.0
GRACE_SECONDS: Final = 2.0
"""From SIGTERM to SIGKILL, when a job is stopped."""

KILL_SECONDS_MAX: Final = 10.0
"""How long ``stop`` waits after that: a process in the middle of a slow system call ends with that."""

START_SECONDS_MAX: Final = 5.0
"""How long ``start`` waits to hear that the shell runs; a few milliseconds are usual."""

CLOSE_SECONDS_MAX: Final = 10.0

LIVE_MAX: Final = 256
"""Live jobs of a process at the most: each takes two processes or more, and a container may be allowed a thousand."""

DESCRIPTORS_PER_JOB: Final = 4
"""Of the limit of open files. A live job takes two of them in the worker, and two in its guard, which has the same
limit; as many are left to the rest of the process, its connections to the store above all."""

AT_MOST: Final = "at most {most} live jobs of a worker process"
MORE: Final = "run more workers"


class JobTable:
    """All background jobs of one process. The guard begins with the first job.

    ``lease_seconds``: how long a lease is, for the margin before its end; None: as long as it was when it was last told
    of. ``directory``: where jobs run that name no directory of their own; None: the worker's at that moment.
    ``environment``: what all jobs get; None: the worker's at that moment, without what is ``WITHHELD``.
    """

    def __init__(
        self,
        world: World,
        *,
        lease_seconds: float | None = None,
        directory: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.world = world
        self.minder = Minder(world)
        self.is_closed = False
        self._lease_seconds = lease_seconds
        self._directory = directory
        self._environment = environment
        self._numbers = count(1)
        # A claim stays as long as somebody holds its Jobs, or has yet to hear of an end.
        self._claims: WeakValueDictionary[tuple[str, str], ClaimJobs] = WeakValueDictionary()
        self._untold: dict[int, ClaimJobs] = {}
        self._live: dict[int, None] = {}

    def of(self, held: Held) -> Jobs:
        """The jobs of this claim; the same ones each time."""
        jobs = self._claims.get(held.key)
        if jobs is None:
            jobs = self._claims.setdefault(held.key, ClaimJobs(self, next(self._numbers), held))
        return jobs

    def extended(self, held: Held) -> None:
        """The lease of this claim was renewed: its trees may live longer. Never blocks."""
        if (jobs := self._claims.get(held.key)) is not None:
            jobs.extended()

    def lost(self, held: Held) -> None:
        """This claim is lost: its trees are killed now. Never blocks."""
        if (jobs := self._claims.get(held.key)) is not None:
            jobs.lost()

    def close(self) -> None:
        """Kill everything that is left, and end the guard. Blocks until that is done, or a bound has passed."""
        self.is_closed = True
        self.minder.close(CLOSE_SECONDS_MAX)

    def margin(self, lease_seconds: float) -> float:
        """How long before its end the trees of a claim are killed, in seconds."""
        lease = lease_seconds if self._lease_seconds is None else self._lease_seconds
        return min(max(MARGIN_FRACTION * lease, MARGIN_SECONDS_MIN), MARGIN_SECONDS_MAX)

    def place(self, spec: JobSpec) -> tuple[str, Mapping[str, str]]:
        """Working directory and environment of a job.

        Raises:
            OSError: the worker's own directory is gone.
        """
        base = self._environment
        if base is None:
            base = {name: value for name, value in os.environ.items() if name not in WITHHELD}
        directory = Path.cwd() / (self._directory or "") / (spec.directory or "")
        return str(directory), {**base, **spec.environment}

    def number(self) -> int:
        """A number that no other claim or job of this process has."""
        return next(self._numbers)

    def begins(self, job: Job) -> str:
        """This job counts as live from now on; why it may not be, or nothing. Exact also for several at once: who came
        first may be."""
        self._live[job.number] = None
        limit = os.sysconf("SC_OPEN_MAX")
        most = min(LIVE_MAX, limit // DESCRIPTORS_PER_JOB) if limit > 0 else LIVE_MAX
        if list(self._live).index(job.number) < most:
            return ""
        if most < LIVE_MAX:
            return f"{AT_MOST.format(most=most)} that may open {limit} files: end some, raise that limit, or {MORE}"
        return f"{AT_MOST.format(most=most)}: end some, or {MORE}"

    def is_over(self, job: Job) -> None:
        """It does not count any more."""
        self._live.pop(job.number, None)

    def hold(self, jobs: ClaimJobs) -> None:
        """Somebody has yet to hear of an end."""
        self._untold[jobs.number] = jobs

    def let_go(self, jobs: ClaimJobs) -> None:
        """All ends are told."""
        self._untold.pop(jobs.number, None)


class ClaimJobs:
    """Implements ``noeta.core.jobs.Jobs`` for one claim. Its runner, the keeper and the minder use it at once: each
    field is changed by one of them only, or in an order that the other can bear."""

    def __init__(self, table: JobTable, number: int, held: Held) -> None:
        self.number = number
        self._table = table
        self._world = table.world
        self._minder = table.minder
        self._held = held
        self._lease_seconds = max(0.0, held.seconds_left())
        self._is_lost = False
        self._live: dict[str, Job] = {}
        self._over: dict[str, Job] = {}
        self._past: set[str] = set()
        self._changed: Event = self._world.event()

    @property
    def changed(self) -> Event:
        if self._changed.is_set() and not self._over:
            self._changed = self._world.event()
            if self._over:  # it ended in between, and set the old one
                self._changed.set()
        return self._changed

    def start(self, job_id: str, spec: JobSpec) -> None:
        assert job_id not in self.known(), f"job {job_id!r} was started before"
        job = Job(self._world, self._table.number(), job_id, self.number, self._die_at, self._ended)
        reason = self._refusal() or self._table.begins(job)
        self._live[job_id] = job
        self._table.hold(self)
        try:
            directory, environment = self._table.place(spec)
        except (OSError, TypeError, ValueError) as error:
            reason = reason or f"no working directory: {error}"
        if reason:
            job.finish("not_started", detail=reason)
            return
        self._minder.start(job, spec, directory, environment)
        self._world.wait_any([job.begun, self._minder.done], START_SECONDS_MAX)
        if self._minder.done.is_set():
            job.finish("not_started", detail="this worker closes")  # unless it has ended

    def live(self) -> frozenset[str]:
        return frozenset(self._live)

    def known(self) -> frozenset[str]:
        return frozenset(self._live) | frozenset(self._over)

    def ended(self) -> Sequence[JobEnd]:
        return [job.end for job in list(self._over.values()) if job.end is not None]

    def recorded(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            if (job := self._live.get(job_id)) is not None:
                job.dropped = True
            if job is not None or job_id in self._over:
                self._past.add(job_id)
            self._over.pop(job_id, None)
        if not self._over and not self._live:
            self._table.let_go(self)

    def past(self) -> frozenset[str]:
        return frozenset(self._past)

    def output(self, job_id: str, after: int = 0, most: int | None = None) -> JobOutput | None:
        job = self._live.get(job_id) or self._over.get(job_id)
        return None if job is None else job.output(after, most)

    def signal(self, job_id: str, number: int) -> bool:
        if number not in valid_signals():
            raise BadInput("number", f"expected the number of a signal, found {number!r}")
        job = self._live.get(job_id)
        if job is None:
            return False
        self._minder.order(job, supervisor.SIGNAL + bytes([number]))
        return True

    def stop(self, job_ids: Sequence[str] | None = None) -> bool:
        jobs = [job for job in list(self._live.values()) if job_ids is None or job.job_id in job_ids]
        for job in jobs:
            self._minder.order(job, supervisor.TERMINATE)
        if not self._wait_over(jobs, GRACE_SECONDS):
            for job in jobs:
                self._minder.kill(job)
        return self._wait_over(jobs, KILL_SECONDS_MAX)

    # -- for the table and the minder ----------------------------------------------------------------------

    def extended(self) -> None:
        """The lease was renewed."""
        self._lease_seconds = max(self._lease_seconds, self._held.seconds_left())
        if self._live:  # a start that is on its way reads the new deadline itself
            self._minder.extend(self.number, self._die_at())

    def lost(self) -> None:
        """Kill everything; nobody will ask for the ends."""
        self._is_lost = True
        if self._live:
            self._minder.kill_claim(self.number)
        else:
            self._table.let_go(self)

    def _die_at(self) -> float:
        # By the table's clock, which is the kernel's: a host may have given its loop another one.
        return self._world.monotonic() + self._held.seconds_left() - self._table.margin(self._lease_seconds)

    def _refusal(self) -> str:
        if sys.platform != "linux":
            return f"background jobs need Linux, this is {sys.platform}"
        if self._table.is_closed:
            return "this worker closes"
        if self._is_lost or self._held.lost is not None:
            return "its claim is lost"
        if len(self._live) >= JOBS_MAX:
            return f"at most {JOBS_MAX} live jobs of a task"
        return ""

    def _ended(self, job: Job) -> None:
        """Called once for each job, by whoever ended it."""
        self._table.is_over(job)
        self._over[job.job_id] = job
        if job.dropped:  # looked at after that: who drops it does so before it looks there
            self._over.pop(job.job_id, None)
        self._live.pop(job.job_id, None)
        if self._over and not self._is_lost:
            self._changed.set()
        elif not self._live:
            self._table.let_go(self)

    def _wait_over(self, jobs: Sequence[Job], seconds: float) -> bool:
        until = self._world.monotonic() + seconds
        return all(job.over.wait(max(0.0, until - self._world.monotonic())) for job in jobs)
