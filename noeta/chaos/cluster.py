"""The worker processes of a storm: started, watched, struck, and never left behind.

A worker is hit only by process id *and* start time. Every process is registered with the reapers before it can
do anything, and ends with the harness in any case (`instrument.die_with_harness`). All are started by one
thread that lives as long as the cluster, because a parent-death signal fires when the *thread* that started
the child ends.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

import noeta
from noeta.chaos.config import Config
from noeta.chaos.orders import MUTANT_VARIABLE, WORKER_VARIABLE, Control, WorkerConfig, read_counts
from noeta.chaos.reaper import Reapers, kill_processes
from noeta.testing.postgres.guard import is_alive, started_at

T = TypeVar("T")
APP: Final = "noeta.chaos.instrument:make"
EXIT_SECONDS: Final = 6.0
"""How long a worker may take to exit after SIGTERM, beyond its grace: one store call with its deadline."""

LOOK_SECONDS: Final = 0.02
STARTER_LOOK_SECONDS: Final = 0.2


class ClusterClosed(RuntimeError):
    """The workers are being ended: no new one is started."""


@dataclass(slots=True)
class Worker:
    """One incarnation of a worker name."""

    name: str
    incarnation: int
    child: subprocess.Popen[bytes]
    start: int | None
    log: Path
    number: int

    @property
    def process(self) -> str:
        """Name and incarnation, as evidence names a process."""
        return f"{self.name}#{self.incarnation}"

    @property
    def stem(self) -> str:
        """Name and incarnation, as files are named."""
        return f"{self.name}.{self.incarnation}"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; it may be stopped."""
        return self.child.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether the kernel has it stopped (SIGSTOP)."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal if this very process still lives; whether it did."""
        if self.start is None or not self.is_running or not is_alive(self.pid, self.start):
            return False
        os.kill(self.pid, number)
        return True

    def log_tail(self, characters: int = 2_000) -> str:
        """The end of what it said."""
        try:
            return self.log.read_text(errors="replace")[-characters:].strip()
        except OSError:
            return "(no log)"


class Cluster:
    """Worker processes by name. ``mutant``: ``module:function`` that plants a bug in each of them; ``address_of``: the
    address of the store for one process, where they differ.

    ``spawn`` is for one thread at a time; once ``stop_all`` or ``kill_all_now`` was called, by whomever, it refuses.
    """

    def __init__(
        self,
        config: Config,
        reapers: Reapers,
        *,
        app: str = APP,
        mutant: str | None = None,
        address_of: Callable[[str], str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.control = Control(config.run_dir / "control")
        self.workers: dict[str, Worker] = {}
        self.all: list[Worker] = []
        """Every incarnation there ever was."""
        self._reapers = reapers
        self._app = app
        self._address_of = address_of or (lambda process: config.address)
        self._environ = dict(os.environ if environ is None else environ)
        if mutant is not None:
            self._environ[MUTANT_VARIABLE] = mutant
        self._lifeline, self._held_end = os.pipe()
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._starter = threading.Thread(target=self._start_what_is_asked, name="cluster-starter", daemon=True)
        self._starter.start()
        self._closing = False
        self._closed = False

    def start(self) -> None:
        """Start every worker."""
        self.control.make()
        for folder in ("workers", "attempts", "journal"):
            (self.config.run_dir / folder).mkdir(parents=True, exist_ok=True)
        for name in self.config.worker_names:
            self.spawn(name)

    def spawn(self, name: str) -> Worker:
        """Start a new incarnation of this name; it does not wait for the one before.

        Raises:
            ClusterClosed.
        """
        before = self.workers.get(name)
        incarnation = 1 if before is None else before.incarnation + 1
        return self._in_starter(lambda: self._launch(name, incarnation))

    def alive(self) -> list[str]:
        """Names whose newest process runs; it may be stopped."""
        return [name for name, worker in self.workers.items() if worker.is_running]

    def answers(self, worker: Worker) -> int:
        """How many calls to the store this process has had answered."""
        counts = read_counts(self.control.counts_path(worker.stem))
        return sum(count for point, count in counts.items() if point.endswith(".after") and point != "model.after")

    def reap(self, worker: Worker) -> None:
        """It has ended: forget it, so that nobody ever kills what has its id by then."""
        assert not worker.is_running
        self._reapers.withdraw(worker.number)

    def resume_all(self) -> None:
        """SIGCONT to everybody."""
        for worker in self.workers.values():
            worker.signal(signal.SIGCONT)

    def stop_all(self) -> None:
        """Resume and end every worker: SIGTERM, and after a bound SIGKILL. Twice does no harm.

        An interrupt meanwhile (Ctrl-C again) kills the rest at once and is raised then.
        """
        if self._closed:
            return
        self._close_gate()
        try:
            self.resume_all()
            for worker in self.workers.values():
                worker.signal(signal.SIGTERM)
            deadline = time.monotonic() + self.config.grace_seconds + EXIT_SECONDS
            while self.alive() and time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)
        finally:
            self.kill_all_now()  # the starter's gate is closed: nobody is born meanwhile
            self._closed = True
            self._asked.put(None)
            self._starter.join()
            os.close(self._held_end)
            os.close(self._lifeline)

    def kill_all_now(self) -> None:
        """SIGKILL to every worker and its descendants, and wait until they are gone."""
        self._close_gate()
        left = [worker for worker in self.all if worker.is_running]
        kill_processes([(worker.pid, worker.start) for worker in left])
        for worker in left:
            worker.child.wait()
            self._reapers.withdraw(worker.number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()

    def _close_gate(self) -> None:
        """Once this returns every worker there will ever be is in ``all``."""
        if not self._closed and not self._closing:
            self._closing = True
            self._in_starter(lambda: None)

    def _launch(self, name: str, incarnation: int) -> Worker:
        """In the starter's thread, one at a time."""
        if self._closing:
            raise ClusterClosed(f"{name} is not started: the workers are being ended")
        config = self.config
        born = WorkerConfig(
            name=name,
            incarnation=incarnation,
            control=str(self.control.root.absolute()),
            attempts=str((config.run_dir / "attempts").absolute()),
            journal=str((config.run_dir / "journal").absolute()),
            lifeline=self._lifeline,
            retry_attempts=config.retry_attempts,
            retry_first_seconds=config.retry_first_seconds,
        )
        born_path = self.control.root / f"{born.stem}.json"
        born_path.write_bytes(msgspec.json.encode(born))
        log = config.run_dir / "workers" / f"{born.stem}.log"
        with log.open("ab") as out:
            child = subprocess.Popen(
                self._arguments(name),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=(self._lifeline,),
                start_new_session=True,  # Ctrl-C is for us: we end them in our own time
                env=self._environ
                | {
                    # Not among the arguments, which everybody on the machine can read.
                    "NOETA_STORE": self._address_of(f"{name}#{incarnation}"),
                    WORKER_VARIABLE: str(born_path.absolute()),
                    "PYTHONPATH": _search_path(self._environ),
                },
            )
        worker = Worker(name, incarnation, child, started_at(child.pid), log, self._reapers.process(child.pid))
        self.all.append(worker)
        self.workers[name] = worker
        return worker

    def _arguments(self, name: str) -> list[str]:
        config = self.config
        options: dict[str, Any] = {
            **({} if config.schema is None else {"schema": config.schema}),
            "app": self._app,
            "lease": config.lease_seconds,
            "queue": config.queue,
            "concurrency": config.concurrency,
            "name": name,
            "poll": config.poll_seconds,
            "grace": config.grace_seconds,
        }
        return [
            *(sys.executable, "-m", "noeta.cli", "worker"),
            *(f"--{option}={value}" for option, value in options.items()),
        ]

    def _in_starter(self, launch: Callable[[], T]) -> T:
        answers: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

        def run() -> None:
            try:
                answers.put(launch())
            except BaseException as error:
                answers.put(error)

        self._asked.put(run)
        while True:
            # Asked only after the starter took its leave: nobody would ever answer.
            is_over = not self._starter.is_alive()
            try:
                answer = answers.get(timeout=0.0 if is_over else STARTER_LOOK_SECONDS)
            except queue.Empty:
                if is_over:
                    raise ClusterClosed("the workers have been ended") from None
                continue
            if isinstance(answer, BaseException):
                raise answer
            return answer

    def _start_what_is_asked(self) -> None:
        while (launch := self._asked.get()) is not None:
            launch()


def _search_path(environ: Mapping[str, str]) -> str:
    """The workers must run the code that we are, wherever they are started."""
    here = str(Path(noeta.__file__).absolute().parents[1])
    return os.pathsep.join(part for part in (here, environ.get("PYTHONPATH", "")) if part)
