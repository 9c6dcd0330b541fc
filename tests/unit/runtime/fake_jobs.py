"""Background jobs without processes: what they do is said by the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from noeta.core.jobs import JobEnd, JobOutput, Jobs, JobSpec
from noeta.core.runner import Held
from noeta.core.tool import ToolContext, ToolFlags, ToolResult
from noeta.core.world import Event, World

SOME_JOB = JobSpec("make it so")


class FakeJobs:
    """Implements ``noeta.core.jobs.Jobs``. ``ends_when_stopped`` False: nothing ends it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.changed: Event = world.event()
        self.started: dict[str, JobSpec] = {}
        self.running: set[str] = set()
        self.over: dict[str, JobEnd] = {}
        self.gone: set[str] = set()
        self.ends_when_stopped = True

    def start(self, job_id: str, spec: JobSpec) -> None:
        assert job_id not in self.started, "a job is started once"
        self.started[job_id] = spec
        self.running.add(job_id)

    def finish(self, job_id: str, how: Literal["exited", "killed", "stopped"] = "exited", code: int | None = 0) -> None:
        """The job ends."""
        self.running.remove(job_id)
        output = JobOutput("a line\n", 0, 7)
        self.over[job_id] = JobEnd(job_id, how, code, None, output)
        self.changed.set()

    def live(self) -> frozenset[str]:
        return frozenset(self.running)

    def known(self) -> frozenset[str]:
        return frozenset(self.running | self.over.keys())

    def ended(self) -> Sequence[JobEnd]:
        return tuple(self.over.values())

    def recorded(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.over.pop(job_id, None)
            self.gone.add(job_id)
        if not self.over:
            self.changed = self._world.event()

    def past(self) -> frozenset[str]:
        return frozenset(self.gone)

    def output(self, job_id: str, after: int = 0, most: int | None = None) -> JobOutput | None:
        return JobOutput("so far", 0, 6) if job_id in self.known() else None

    def signal(self, job_id: str, number: int) -> bool:
        return job_id in self.running

    def stop(self, job_ids: Sequence[str] | None = None) -> bool:
        if not self.ends_when_stopped:
            return False
        for job_id in sorted(self.running if job_ids is None else self.running & set(job_ids)):
            self.finish(job_id, "stopped", None)
        return True


class FakeTable:
    """Implements ``noeta.core.jobs.JobTable``: ``by_claim`` holds every claim's jobs, of this kind, and ``gone`` the
    claims it lost."""

    def __init__(self, world: World, kind: Callable[[World], FakeJobs] = FakeJobs) -> None:
        self._world = world
        self._kind = kind
        self.by_claim: dict[tuple[str, str], FakeJobs] = {}
        self.gone: list[tuple[str, str]] = []
        self.deadlines: list[float] = []
        self.closed = False
        self.end_when_stopped = True

    def of(self, held: Held) -> Jobs:
        return self.jobs_of(held)

    def jobs_of(self, held: Held) -> FakeJobs:
        jobs = self.by_claim.setdefault(held.key, self._kind(self._world))
        jobs.ends_when_stopped = self.end_when_stopped
        return jobs

    def extended(self, held: Held) -> None:
        self.deadlines.append(held.deadline)

    def lost(self, held: Held) -> None:
        self.gone.append(held.key)
        self.by_claim[held.key].running.clear()

    def close(self) -> None:
        self.closed = True


class StartsJob:
    """Implements ``noeta.core.tool.Tool``: starts a background job that runs this."""

    name = "background"
    flags = ToolFlags(retry_safe=True)

    def __init__(self, spec: JobSpec = SOME_JOB) -> None:
        self._spec = spec

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        return ToolResult("started", job=self._spec)
