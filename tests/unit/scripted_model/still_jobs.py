"""Background shells on a clock that stands still: a shell has ended when the clock says so, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from noeta.core.jobs import JobEnd, JobOutput, JobSpec
from noeta.core.world import Event
from scripted_model.jobs import SHELL, output_line, shell_of


@dataclass
class StillJobs:
    """Implements ``noeta.core.jobs.Jobs`` for one claim; whoever loses that forgets it. ``started``: when, and what."""

    now: Callable[[], float]
    make_event: Callable[[], Event]
    started: dict[str, tuple[float, JobSpec]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    @property
    def changed(self) -> Event:
        return self.make_event()

    def start(self, job_id: str, spec: JobSpec) -> None:
        assert job_id not in self.started
        self.started[job_id] = self.now(), spec

    def ends_at(self, job_id: str) -> float | None:
        """When it ends, or has ended, by itself."""
        since, spec = self.started[job_id]
        _, shell = shell_of(spec.command)
        return None if shell.lines is None else since + shell.lines * shell.every_seconds

    def live(self) -> frozenset[str]:
        return frozenset(job for job in self.known() if not self._is_over(job))

    def known(self) -> frozenset[str]:
        return frozenset(self.started.keys() - self.told)

    def ended(self) -> Sequence[JobEnd]:
        return [self._end(job) for job in sorted(self.known()) if self._is_over(job)]

    def recorded(self, job_ids: Sequence[str]) -> None:
        self.told.update(job_ids)

    def past(self) -> frozenset[str]:
        return frozenset(self.told)

    def output(self, job_id: str, after: int = 0, most: int | None = None) -> JobOutput | None:
        if job_id not in self.known():
            return None
        text = output_line(SHELL, 1)
        return JobOutput(text[after:], after, len(text))

    def signal(self, job_id: str, number: int) -> bool:
        raise AssertionError("no scripted tool does that")

    def stop(self, job_ids: Sequence[str] | None = None) -> bool:
        self.stopped |= {job for job in self.live() if job_ids is None or job in job_ids}
        return True

    def _is_over(self, job_id: str) -> bool:
        at = self.ends_at(job_id)
        return job_id in self.stopped or (at is not None and at <= self.now())

    def _end(self, job_id: str) -> JobEnd:
        output = self.output(job_id)
        assert output is not None
        if job_id in self.stopped:
            return JobEnd(job_id, "stopped", None, 15, output)
        _, shell = shell_of(self.started[job_id][1].command)
        return JobEnd(job_id, "exited", shell.exit_code, None, output)
