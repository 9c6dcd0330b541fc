"""A worker with a task whose jobs are stubborn trees, another worker beside it, and what becomes of them when the first
is struck.

Three ways to strike: killed (also with its guard), frozen for three leases and resumed, told to end. Each is followed
until the other worker has taken the task over and has answered under its own claim; then the log is compared with what
the trees did. Times are microseconds of the wall clock of this machine, which is the clock of both stores, too.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from bench.job_agent import APP, goal
from bench.job_trees import Trees, Watch
from bench.workers import END_SECONDS_MAX, WorkerFailed, WorkerProcess, worker_process
from noeta.backends.open import open_store
from noeta.chaos.sites.file_locks import FileLocks
from noeta.core import codec, texts
from noeta.core.errors import StoreUnavailable
from noeta.core.events import Event, JobEnded, JobLost, JobStarted, ModelReplied
from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import NewTask, Store
from noeta.core.task import Status, TaskRow
from noeta.runtime.jobs import tree

TASK: Final = "t"
FIRST_QUEUE: Final = "first"
SECOND_QUEUE: Final = "second"
"""Only that worker serves it, besides the queue that both do."""

FROZEN_LEASES: Final = 3
WAIT_SECONDS_MAX: Final = 120.0
LOOK_SECONDS: Final = 0.02
GUARD: Final = "noeta-guard"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the tasks are: what `noeta worker` takes for ``--store`` and ``--schema``; of a file, the files that it
    locks."""

    store: str
    schema: str = "noeta"
    files: tuple[Path, ...] = ()

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """A SQLite file."""
        return cls(f"sqlite:{path}", files=(path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))))


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log, with its instant and the epoch under which it was written."""

    epoch: int
    at: int
    event: Event


@dataclass(frozen=True, slots=True)
class Struck:
    """What came of it.

    Attributes:
        at, gone_at: when the worker was struck, and when the last process of all trees had ended.
        lease_until: the end of the lease that its claim had then.
        lost_at: when the log says of each job that it is lost, in the order of the jobs.
        lines_after: lines that say that they were written after that, of all jobs.
        changed_after: journals that were changed after that, by the kernel's word.
        left: processes that were alive then, of all jobs; those that are still alive are counted at the end, too.
        told: how often the next owner's model was told of each job's loss.
        ended: entries that say of a job that it ended (there should be none: it is lost).
        late_writes: entries under the struck worker's epoch that are younger than ``at``.
        went_on: the next owner's model has answered.
        was_claimed_at: when the next owner's first entry was written.
        released_at: when a worker that was told to end gave the task back.
        lines_after_release: lines that say that they were written after that.
        exit_code: of a worker that ended by itself.
    """

    at: int
    gone_at: int
    lease_until: int
    lost_at: tuple[int, ...]
    lines_after: int
    changed_after: int
    left: int
    told: tuple[int, ...]
    ended: int
    late_writes: int
    went_on: bool
    was_claimed_at: int
    released_at: int | None = None
    lines_after_release: int = 0
    exit_code: int | None = None


class JobStage:
    """One task, its trees, and the workers. ``first`` runs the task; ``second`` begins once the trees have grown."""

    def __init__(self, address: Address, store: Store, folder: Path, *, jobs: int, lease_seconds: float) -> None:
        self.trees = Trees(folder, jobs)
        self._address, self._store = address, store
        self._lease = lease_seconds
        self._stack = ExitStack()
        self._jobs = jobs

    def grow(self) -> None:
        """Start the first worker, with the task and its jobs; then the second.

        Raises:
            WorkerFailed: the trees did not grow in time.
        """
        self._store.create(NewTask(TASK, "bench", goal(self.trees.commands), interactive=True))
        self.first = self._start("first", "--queue", "default", "--queue", FIRST_QUEUE)
        self._wait("the task rests, its claim kept", lambda: self._row().kept)
        self._wait("the trees have grown", lambda: self.trees.have_grown)
        self._grown = self.trees.alive()
        self._watch = Watch(self._grown)
        self._stack.callback(self._watch.close)
        self.second = self._start("second", "--queue", "default", "--queue", SECOND_QUEUE)
        self._wait_works(self.second, SECOND_QUEUE)

    # -- the three ways ------------------------------------------------------------------------------------

    def kill(self, *, guard_too: bool = False) -> Struck:
        """SIGKILL."""
        guard = self.guard() if guard_too else None
        at, lease_until = _now(), self._lease_until()
        if guard is not None:
            os.kill(guard, signal.SIGKILL)
        self.first.signal(signal.SIGKILL)
        self._wait_taken_over()
        return self._compare(at, lease_until)

    def freeze(self) -> Struck:
        """SIGSTOP for three leases, then SIGCONT; it still does what is asked of it then, until it is told to end."""
        at = self._stop(self.first)
        lease_until = self._lease_until()
        self._watch.wait_gone(FROZEN_LEASES * self._lease)
        if (row := self._row()).epoch == 1 and row.lease_until is not None:
            lease_until = row.lease_until  # a renewal may have been on its way
        time.sleep(max(0.0, FROZEN_LEASES * self._lease - (_now() - at) / MICROS_PER_SECOND))
        self.first.signal(signal.SIGCONT)
        self._wait_works(self.first, FIRST_QUEUE)
        self._wait_taken_over()
        self.first.signal(signal.SIGTERM)
        exit_code = self.first.wait_ended(END_SECONDS_MAX)  # also what it does at its end counts
        return replace(self._compare(at, lease_until), exit_code=exit_code)

    def terminate(self) -> Struck:
        """SIGTERM. The other worker sleeps until the task is given back, so that nobody misses when that was."""
        self._stop(self.second)
        at, lease_until = _now(), self._lease_until()
        self.first.signal(signal.SIGTERM)
        self._wait("the task is given back", lambda: self._row().token is None, self.second)
        released_at = self._row().ready_at
        assert released_at is not None
        self.second.signal(signal.SIGCONT)
        exit_code = self.first.wait_ended(END_SECONDS_MAX)
        self._wait_taken_over()
        return replace(
            self._compare(at, lease_until),
            released_at=released_at,
            lines_after_release=sum(self.trees.lines_after(number, released_at) for number in range(self._jobs)),
            exit_code=exit_code,
        )

    # -- what is seen --------------------------------------------------------------------------------------

    def guard(self) -> int:
        """The process that watches over the first worker's jobs."""
        for process in tree.everyone().values():
            if process.parent == self.first.pid and _name(process.pid) == GUARD:
                return process.pid
        raise WorkerFailed("the worker has no guard")

    def entries(self) -> list[Entry]:
        """The log of the task."""
        page = self._store.read(TASK)
        return [Entry(one.epoch, one.at, codec.decode_event(one.body)) for one in page.entries]

    def close(self) -> None:
        """End the workers, and whatever they left behind."""
        self._stack.close()
        self.trees.kill()

    def _wait_works(self, worker: WorkerProcess, queue: str) -> None:
        """Until it has done something that only it can do."""
        id = f"asked-of-{queue}"
        self._store.create(NewTask(id, "bench", goal([]), queue=queue))
        self._wait(f"{id} ends", lambda: self._store.task(id).status is Status.TERMINAL, worker)

    def _wait_taken_over(self) -> None:
        def is_so() -> bool:
            row = self._row()
            return row.epoch > 1 and row.status is Status.SUSPENDED

        self._watch.wait_gone(WAIT_SECONDS_MAX)  # what is left then is counted
        self._wait("the next owner has taken the task over and rests", is_so, self.second)

    def _compare(self, at: int, lease_until: int) -> Struck:
        log, jobs, now = self.entries(), range(self._jobs), _now()
        gone = [self._watch.ended_at.get(pid, now) for pid in self._grown]
        ids = [self._job_id(log, command) for command in self.trees.commands]
        lost = {one.event.job_id: one.at for one in log if isinstance(one.event, JobLost)}
        lost_at = tuple(lost[id] for id in ids)
        next_owner = [one for one in log if one.epoch > 1]
        said = "\n".join(one.event.text for one in next_owner if isinstance(one.event, ModelReplied))
        return Struck(
            at=at,
            gone_at=max(gone),
            lease_until=lease_until,
            lost_at=lost_at,
            lines_after=sum(self.trees.lines_after(number, lost_at[number]) for number in jobs),
            changed_after=sum(self.trees.changed_after(number, lost_at[number]) for number in jobs),
            left=max(sum(one > min(lost_at) for one in gone), len(self.trees.alive())),
            told=tuple(said.count(texts.JOB_LOST.format(job=id)) for id in ids),
            ended=sum(isinstance(one.event, JobEnded) for one in log),
            late_writes=sum(one.epoch == 1 and one.at > at for one in log),
            went_on=bool(said),
            was_claimed_at=next_owner[0].at,
        )

    def _job_id(self, log: list[Entry], command: str) -> str:
        (found,) = [
            one.event.job_id for one in log if isinstance(one.event, JobStarted) and one.event.command == command
        ]
        return found

    # -- helpers -------------------------------------------------------------------------------------------

    def _start(self, name: str, *options: str) -> WorkerProcess:
        given = ("--app", APP, "--name", name, "--lease", f"{self._lease:g}", "--poll", "0.1")
        timeout = f"{min(5.0, self._lease / 2):g}"
        return self._stack.enter_context(
            worker_process(self._address.store, self._address.schema, *given, "--statement-timeout", timeout, *options)
        )

    def _stop(self, worker: WorkerProcess) -> int:
        """SIGSTOP, in effect; when it was sent. Not in the middle of a commit to a file, whose lock would keep
        everybody out: then it goes on, and is stopped again."""
        locks = FileLocks()
        self._stack.callback(locks.close)
        while True:
            at = _now()
            worker.signal(signal.SIGSTOP)
            self._wait("the worker is stopped", lambda: _is_stopped(worker.pid), worker)
            if not locks.holds(worker.pid, self._address.files):
                return at
            worker.signal(signal.SIGCONT)

    def _row(self) -> TaskRow:
        return self._store.task(TASK)

    def _lease_until(self) -> int:
        row = self._row()
        assert row.epoch == 1 and row.lease_until is not None, row
        return row.lease_until

    def _wait(self, what: str, is_so: Callable[[], bool], worker: WorkerProcess | None = None) -> None:
        def look() -> bool:
            try:
                return is_so()
            except StoreUnavailable:
                return False  # a file that is locked at this moment

        (worker or self.first).wait_until(look, what, WAIT_SECONDS_MAX)


@contextmanager
def job_stage(address: Address, folder: Path, *, jobs: int, lease_seconds: float) -> Iterator[JobStage]:
    """A stage with its trees grown, in an empty store. Nothing of it is left afterwards."""
    store = open_store(address.store, schema=address.schema, max_connections=2)
    try:
        stage = JobStage(address, store, folder, jobs=jobs, lease_seconds=lease_seconds)
        try:
            stage.grow()
            yield stage
        finally:
            stage.close()
    finally:
        store.close()


def _now() -> int:
    return round(time.time() * MICROS_PER_SECOND)


def _is_stopped(pid: int) -> bool:
    process = tree.look(pid)
    return process is not None and process.state in (b"T", b"t")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""  # it has ended
