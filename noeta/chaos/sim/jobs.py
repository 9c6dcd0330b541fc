"""The background jobs of one simulated worker process, in virtual time: what guard, supervisors and shells come to.

A shell is no activity of its worker's: it goes on while that is frozen. So it lives on the scheduler's clock, and is
the script that its command was made from: it writes a line at its pace, and ends. The guard's part is what is promised
of it (`noeta.runtime.jobs`): a tree is killed when the worker is gone, when the claim is lost, and a margin before the
end of the lease that the guard was last told of, whoever is frozen then. Killing takes a while, in which a tree may
write once more: whoever declares it gone too soon is found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from noeta.chaos.sim.points import JOB_STARTED, JOB_STARTING
from noeta.chaos.sim.scheduler import Scheduler, SimProcess
from noeta.chaos.sim.world import SimEvent, SimWorld
from noeta.core.ids import MICROS_PER_SECOND, micros
from noeta.core.jobs import How, JobEnd, JobOutput, JobSpec
from noeta.core.runner.lease import Held
from noeta.runtime.jobs.table import MARGIN_FRACTION, MARGIN_SECONDS_MAX, MARGIN_SECONDS_MIN
from scripted_model.jobs import GRANDCHILD, SHELL, output_line, shell_of
from scripted_model.journal import JobLine, JournalBook
from scripted_model.script import BadScript, Shell

DYING_SECONDS: Final = 0.05
"""From a signal until nothing is left of a tree: its shell ends, and its supervisor kills the rest. A successor that is
there at once has claimed, read and written by then."""

LEASE_OVER: Final = "killed because the lease of its claim was about to be over"
CLAIM_LOST: Final = "killed because its claim was lost"
WORKER_CLOSED: Final = "killed because its worker closed"
WORKER_GONE: Final = "killed because its worker was gone"
NOT_SCRIPTED: Final = "a simulation runs no shells but scripted ones"

SIGTERM: Final = 15
SIGKILL: Final = 9


class SimJobTable:
    """Implements ``noeta.core.jobs.JobTable`` for one simulated process. ``book``: where shells write."""

    def __init__(self, process: SimProcess, world: SimWorld, book: JournalBook, *, lease_seconds: float) -> None:
        self.process = process
        self.world = world
        self.book = book
        self.margin = min(max(MARGIN_FRACTION * lease_seconds, MARGIN_SECONDS_MIN), MARGIN_SECONDS_MAX)
        """How long before the end of its lease a tree is killed, in seconds."""
        self.is_closed = False
        process.at_death.append(lambda: self._kill_all(WORKER_GONE))
        self._claims: dict[tuple[str, str], SimJobs] = {}

    def of(self, held: Held) -> SimJobs:
        """The jobs of this claim; the same ones each time."""
        return self._claims.setdefault(held.key, SimJobs(self, held))

    def extended(self, held: Held) -> None:
        """The guard is told how long the lease is now."""
        if (jobs := self._claims.get(held.key)) is not None:
            jobs.extend(held.deadline)

    def lost(self, held: Held) -> None:
        """The trees of this claim are killed."""
        if (jobs := self._claims.get(held.key)) is not None:
            jobs.kill(CLAIM_LOST)

    def close(self) -> None:
        """All trees are killed, and no job is started any more."""
        self.is_closed = True
        self._kill_all(WORKER_CLOSED)

    def last_lines(self) -> None:
        """The simulation is over: whatever still lives could write at this very moment, and does."""
        for jobs in self._claims.values():
            jobs.last_lines()

    def _kill_all(self, why: str) -> None:
        for jobs in self._claims.values():
            jobs.kill(why)


class SimJobs:
    """Implements ``noeta.core.jobs.Jobs`` for one claim of a simulated process."""

    def __init__(self, table: SimJobTable, held: Held) -> None:
        self._table = table
        self._held = held
        self._process = table.process
        self._scheduler = table.process.scheduler
        self._die_at = held.deadline - table.margin
        self._is_lost = False
        self._live: dict[str, _Tree] = {}
        self._over: dict[str, _Tree] = {}
        self._dropped: set[str] = set()
        self._past: set[str] = set()
        self._changed = SimEvent(table.process)

    @property
    def changed(self) -> SimEvent:
        if self._changed.flag and not self._over:
            self._changed = SimEvent(self._process)
        return self._changed

    def start(self, job_id: str, spec: JobSpec) -> None:
        task = self._held.claim.task_id
        self._table.world.point(JOB_STARTING, task=task, job=job_id)
        tree = _Tree(self, self._process, self._table.book, task, job_id)
        self._live[job_id] = tree
        refusal = self._refusal()
        try:
            tag, shell = shell_of(spec.command)
        except BadScript:
            refusal = refusal or NOT_SCRIPTED
        if refusal:
            tree.end("not_started", detail=refusal)
        else:
            tree.begin(tag, shell)
            self._watch()
        self._table.world.point(JOB_STARTED, task=task, job=job_id)

    def live(self) -> frozenset[str]:
        return frozenset(self._live)

    def known(self) -> frozenset[str]:
        return frozenset({*self._live, *self._over})

    def ended(self) -> Sequence[JobEnd]:
        return [tree.ended for tree in self._over.values() if tree.ended is not None]

    def recorded(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            if job_id in self._live:
                self._dropped.add(job_id)
            if job_id in self.known():
                self._past.add(job_id)
            self._over.pop(job_id, None)

    def past(self) -> frozenset[str]:
        return frozenset(self._past)

    def output(self, job_id: str, after: int = 0, most: int | None = None) -> JobOutput | None:
        tree = self._live.get(job_id) or self._over.get(job_id)
        if tree is None:
            return None
        start = min(after, len(tree.output))
        text = tree.output[start:][:most]
        return JobOutput(text, start, len(tree.output), len(tree.output) - start - len(text))

    def signal(self, job_id: str, number: int) -> bool:
        tree = self._live.get(job_id)
        if tree is None:
            return False
        tree.dies("killed", number)
        return True

    def stop(self, job_ids: Sequence[str] | None = None) -> bool:
        trees = [tree for job_id, tree in self._live.items() if job_ids is None or job_id in job_ids]
        for tree in trees:
            tree.dies("stopped", SIGTERM)
        for tree in trees:
            tree.over.wait()
        return True

    # -- for the table and the trees -----------------------------------------------------------------------

    def extend(self, deadline: float) -> None:
        """The guard hears of a new end of the lease."""
        self._die_at = deadline - self._table.margin

    def kill(self, why: str) -> None:
        """Everything of this claim dies, and nobody will ask for the ends."""
        self._is_lost = True
        for tree in self._live.values():
            tree.dies("killed", SIGKILL, why)

    def last_lines(self) -> None:
        """Each tree that still lives writes a line."""
        for tree in self._live.values():
            tree.write_now()

    def told(self, tree: _Tree) -> None:
        """A tree has ended."""
        del self._live[tree.job_id]
        if tree.job_id in self._dropped:
            return
        self._over[tree.job_id] = tree
        if not self._is_lost:
            self._changed.fire()

    def _refusal(self) -> str:
        if self._table.is_closed:
            return "this worker closes"
        if self._is_lost or self._held.lost is not None:
            return "its claim is lost"
        # The guard's word, which is told of every start when it comes to it.
        return "the lease of its claim is about to be over" if self._scheduler.now >= micros(self._die_at) else ""

    def _watch(self) -> None:
        """The guard looks again when the lease that it knows of is nearly over; it stands still for nobody."""
        self._scheduler.at((micros(self._die_at) - self._scheduler.now) / MICROS_PER_SECOND, self._judge)

    def _judge(self) -> None:
        if not self._live:
            return
        if self._scheduler.now < micros(self._die_at):
            self._watch()
            return
        for tree in self._live.values():
            tree.dies("killed", SIGKILL, LEASE_OVER)


@dataclass(slots=True)
class _Tree:
    """The processes of one job, while they live. ``over``: nothing is left of them, and ``ended`` says how."""

    jobs: SimJobs
    process: SimProcess
    book: JournalBook
    task: str
    job_id: str
    output: str = ""
    ended: JobEnd | None = None
    over: SimEvent = field(init=False)
    _tag: str = ""
    _is_stubborn: bool = False
    _is_dying: bool = False
    _lines: int = 0

    def __post_init__(self) -> None:
        self.over = SimEvent(self.process)

    @property
    def _scheduler(self) -> Scheduler:
        return self.process.scheduler

    def begin(self, tag: str, shell: Shell) -> None:
        """The shell runs."""
        self._tag, self._is_stubborn = tag, shell.stubborn
        self._write(shell, SHELL, 1)
        if shell.stubborn:
            self._write(shell, GRANDCHILD, 1)

    def end(self, how: How, *, exit_code: int | None = None, signal: int | None = None, detail: str = "") -> None:
        """Nothing is left of it."""
        if self.ended is not None:
            return
        output = JobOutput(self.output, 0, len(self.output))
        self.ended = JobEnd(self.job_id, how, exit_code, signal, output, detail)
        self._note("ends", how)
        self.jobs.told(self)
        self.over.fire()

    def dies(self, how: How, signal: int, why: str = "") -> None:
        """It was sent this signal; the first one counts. Its last line comes as late as it can."""
        if not self._is_dying:
            self._is_dying = True
            self._scheduler.at(DYING_SECONDS, lambda: self._last_line(how, signal, why))

    def _last_line(self, how: How, signal: int, why: str) -> None:
        if self.ended is None:
            self.write_now()
            self.end(how, signal=signal, detail=why)

    def write_now(self) -> None:
        """One more line, whenever that is."""
        self._line(GRANDCHILD if self._is_stubborn else SHELL, self._lines + 1)

    def _write(self, shell: Shell, by: str, number: int) -> None:
        """The next line, if the tree still lives, and the one after it when it is due."""
        if self.ended is not None:
            return
        if by == SHELL and shell.lines is not None and number > shell.lines:
            self.end("exited", exit_code=shell.exit_code)
            return
        self._line(by, number)
        self._scheduler.at(shell.every_seconds, lambda: self._write(shell, by, number + 1))

    def _line(self, by: str, number: int) -> None:
        self._lines = number
        time = self._scheduler.now / MICROS_PER_SECOND
        line = JobLine(self.task, self.job_id, self._tag, by, number, self.process.name, self.process.number, time)
        self.book.jobs.append(line)
        self.output += output_line(by, number)
        self._note(f"{by} writes", str(number))

    def _note(self, what: str, which: str) -> None:
        self._scheduler.note(self.process.name, f"job {what}", {"task": self.task, "job": self.job_id, "which": which})
