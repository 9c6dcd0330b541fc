"""Background jobs of one claim: shells that go on while the task rests, and end with the claim.

A job is asked for as data (`tool.ToolResult.job`), recorded with its call's result, and started only once that is
durable, so that no process runs that the log does not know. Its job id is the id of the call. The claim owns it:
whoever loses the claim stops it, and its whole process tree is gone before the lease is over (`noeta.runtime.jobs` says
how). What the next owner of the task finds in the log and not in its own hands is lost. Keeps: jobs-told-once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol

from noeta.core.world import Event

if TYPE_CHECKING:
    from noeta.core.runner.lease import Held

OUTPUT_BYTES_KEPT: Final = 256 * 1024
"""How much of a job's output is kept, in bytes: the newest."""

OUTPUT_CHARS_TOLD: Final = 16 * 1024
"""How many characters of it the entry of its end holds, and the model is told of: the newest."""

JOBS_MAX: Final = 50
"""Live jobs of one task. Each has a process that watches over it."""

How = Literal["exited", "killed", "stopped", "not_started"]
"""How a job ended: by itself (with an exit code); by a signal from outside; because its owner stopped it (a tool asked
for it, or its task ended); or it could not be started."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job runs: ``command`` for a shell, in a working directory (None: the worker's), with these variables
    besides the worker's own."""

    command: str
    directory: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobOutput:
    """What a job has written so far. ``total``: bytes in all; ``text``: some of them, undecodable bytes replaced, from
    byte ``start`` up to ``end``: to all that is there, but for the ``left`` newest bytes."""

    text: str
    start: int
    total: int
    left: int = 0

    @property
    def end(self) -> int:
        """The byte behind the text: whoever reads on from there misses nothing, and gets nothing twice."""
        return self.total - self.left


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that has ended: nothing of its process tree is left. ``exit_code`` of one that exited, ``signal`` of one
    that was killed or stopped; ``output``: at most ``OUTPUT_CHARS_TOLD`` characters of it, the newest; ``detail``: why
    it could not be started."""

    job_id: str
    how: How
    exit_code: int | None
    signal: int | None
    output: JobOutput
    detail: str = ""


class Jobs(Protocol):
    """The jobs of one claim, as its runner and its tools see them."""

    @property
    def changed(self) -> Event:
        """Set whenever a job has ended and is not recorded yet; a new event each time it is asked for after that."""
        ...

    def start(self, job_id: str, spec: JobSpec) -> None:
        """Start a job. One that cannot be started has ended at once (``not_started``); never raises for that."""
        ...

    def live(self) -> frozenset[str]:
        """Jobs that were started here and have not ended."""
        ...

    def known(self) -> frozenset[str]:
        """Jobs that were started here and whose end is not recorded: live ones, and those of ``ended``."""
        ...

    def ended(self) -> Sequence[JobEnd]:
        """Those that have ended and are not recorded, in the order of their ends."""
        ...

    def recorded(self, job_ids: Sequence[str]) -> None:
        """The ends of these are durable: forget them. Of a live one: nobody will ask for its end."""
        ...

    def past(self) -> frozenset[str]:
        """Jobs that were started here and whose end is recorded."""
        ...

    def output(self, job_id: str, after: int = 0, most: int | None = None) -> JobOutput | None:
        """What it has written so far, from byte ``after`` on, as far as that is kept; of that the oldest ``most`` bytes
        (None: all). A character at the end that is not whole yet is left. None if the job is not known here."""
        ...

    def signal(self, job_id: str, number: int) -> bool:
        """Send a signal to the job's shell and its process group; whether it was live."""
        ...

    def stop(self, job_ids: Sequence[str] | None = None) -> bool:
        """End these jobs (None: all), whole trees: SIGTERM, and after a short grace SIGKILL. Blocks until nothing is
        left of them, or a bound has passed; whether nothing is left. Their ends are then in ``ended``."""
        ...


class JobTable(Protocol):
    """All background jobs of one worker process."""

    def of(self, held: Held) -> Jobs:
        """Those of one claim; the same each time, for ``held.key``."""
        ...

    def extended(self, held: Held) -> None:
        """The claim is held until ``held.deadline`` now, by this machine's monotonic clock."""
        ...

    def lost(self, held: Held) -> None:
        """The claim is gone or given up: its trees are killed. Does not wait for that."""
        ...

    def close(self) -> None:
        """End everything, and wait for that, within a bound."""
        ...
