"""The app of a storm's workers: scripted model and tools, a recorded store whose calls may go wrong, and crash points
with teeth.

``noeta worker --app noeta.chaos.instrument:make``; the process finds its ``WorkerConfig`` by the environment.
Everything else about the worker is the product, unchanged.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from invariants.evidence import Attempt
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.orders import (
    MUTANT_VARIABLE,
    WORKER_VARIABLE,
    Aimed,
    Became,
    Control,
    Orders,
    PointCounter,
    SelfStrike,
    WorkerConfig,
)
from noeta.chaos.recording import RecordingStore
from noeta.chaos.schedule import CALL_KINDS, Kind
from noeta.chaos.spoiled import SpoiledStore
from noeta.core import ids
from noeta.core.errors import BadInput
from noeta.core.retry import RetryPolicy
from noeta.core.tool import Tool
from noeta.plugins import waiting_tools
from noeta.plugins.cron import CronCreate, CronDelete, CronList
from noeta.plugins.shell import Bash, shell_tools
from noeta.runtime.app import WorkerApp
from noeta.runtime.threads import ThreadWorld
from scripted_model.app import engine_for, make_engine
from scripted_model.jobs import JournalledShell
from scripted_model.journal import JOBS_SUFFIX, FileJournal

PR_SET_PDEATHSIG: Final = 1
RETRY_SPREAD: Final = 16
"""The longest pause between two requests of one model call, in first pauses."""

FACT_CHARS_MAX: Final = 200


def make() -> WorkerApp:
    """The app of this process.

    Raises:
        BadInput: the environment does not say which worker this is.
    """
    config = read_config(os.environ.get(WORKER_VARIABLE, ""))
    die_with_harness(config.lifeline)
    plant(os.environ.get(MUTANT_VARIABLE, ""))
    world = ChaosWorld(config)
    first = config.retry_first_seconds
    engine = make_engine(
        FileJournal(Path(config.journal), config.process, clock=world.wall),
        retry=RetryPolicy(config.retry_attempts, first, first * RETRY_SPREAD),
        more_tools=callers_tools(config),
    )
    sink = FileSink(Path(config.attempts) / f"{config.stem}.jsonl")
    return WorkerApp(
        resolve=lambda task: engine_for(task, engine),
        world=world,
        around=lambda store: RecordingStore(
            SpoiledStore(store, world), sink, process=config.process, clock=lambda: ids.micros(world.wall())
        ),
    )


def callers_tools(config: WorkerConfig) -> Iterator[Tool]:
    """The tools that come with noeta. The shells of this process write their lines to a file of the journal."""
    lines = Path(config.journal) / f"{config.process}{JOBS_SUFFIX}"
    shells: dict[str, Tool] = dict(shell_tools())
    shells[Bash.name] = JournalledShell(shells[Bash.name], str(lines), config.process)
    yield from (*waiting_tools().values(), *shells.values(), CronCreate(), CronDelete(), CronList())


def read_config(path: str) -> WorkerConfig:
    """What this process was born with."""
    if not path:
        raise BadInput(WORKER_VARIABLE, "the storm's workers are started by the harness, which sets it")
    return msgspec.json.decode(Path(path).read_bytes(), type=WorkerConfig)


def plant(mutant: str) -> None:
    """Call ``module:function``, if one is named: it patches this process before anything is built.

    Raises:
        BadInput: there is no such function.
    """
    if mutant:
        find_mutant(mutant)()


def find_mutant(mutant: str) -> Callable[[], object]:
    """``module:function``, not called.

    Raises:
        BadInput: there is no such function.
    """
    name, _, function = mutant.partition(":")
    try:
        found = getattr(importlib.import_module(name), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput("--mutant", f"expected MODULE:FUNCTION, found {mutant!r} ({error})") from error
    if not callable(found):
        raise BadInput("--mutant", f"expected MODULE:FUNCTION, found {mutant!r}, which is no function")
    made: Callable[[], object] = found
    return made


def die_with_harness(lifeline: int) -> None:
    """Make sure that this process ends when the harness does, however that ends, and also while it is stopped.

    The kernel's parent-death signal reaches a stopped process too, and fires when the thread that started us
    ends, which the cluster keeps alive; the pipe is for systems without it, and for a harness that ended
    before we got here.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(1)

    def watch() -> None:
        os.read(lifeline, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


class FileSink:
    """Implements ``noeta.chaos.recording.Sink``: a line before it is sent, a line after the answer. Of an attempt
    the last line counts. What a killed process wrote is kept: the file belongs to the kernel by then."""

    def __init__(self, path: Path) -> None:
        self._lines = LineWriter(path)

    def sent(self, attempt: Attempt) -> None:
        self._lines.add(attempt)

    def answered(self, attempt: Attempt) -> None:
        self._lines.add(attempt)


class ChaosWorld(ThreadWorld):
    """The production world, except that its clock may be off and that its points may kill or stop the process, or
    spoil the store call that comes next in their thread. Implements ``noeta.chaos.spoiled.Spoiler``."""

    def __init__(self, config: WorkerConfig) -> None:
        super().__init__()
        self._config = config
        self._control = Control(Path(config.control))
        self._orders_path = self._control.orders_path(config.name)
        self._lock = threading.Lock()
        self._orders = Orders()
        self._version: tuple[int, int] | None = None
        self._passed: dict[str, int] = {}
        self._next_call = threading.local()
        self._counter = PointCounter(self._control.counts_path(config.stem))
        self._lines = LineWriter(self._control.points_path(config.stem))
        with self._lock:
            self._look()

    def wall(self) -> float:
        return super().wall() + self._orders.skew_seconds

    def point(self, name: str, **facts: object) -> None:
        self._counter.add(name)
        with self._lock:
            self._look()
            for aimed in self._orders.aimed:
                if aimed.point == name and self._passes(aimed, facts):
                    self._strike(aimed, facts)

    def spoils(self, verb: str) -> Aimed | None:
        aimed: Aimed | None = getattr(self._next_call, "aimed", None)
        self._next_call.aimed = None
        return aimed if aimed is not None and aimed.point == f"{verb}.before" else None

    def spoiled(self, aimed: Aimed, became: str, *, hurt: bool) -> None:
        self._control.tell(aimed.id, Became(became, hurt))

    def _look(self) -> None:
        """Read the orders if they have changed; what is ordered anew is counted from now."""
        try:
            stat = self._orders_path.stat()
        except FileNotFoundError:
            return
        version = (stat.st_ino, stat.st_mtime_ns)
        if version != self._version:
            self._version = version
            self._orders = self._control.orders(self._config.name)

    def _passes(self, aimed: Aimed, facts: dict[str, object]) -> bool:
        if not aimed.counts(self._config.incarnation, facts):
            return False
        passed = self._passed[aimed.id] = self._passed.get(aimed.id, 0) + 1
        return passed == aimed.n

    def _strike(self, aimed: Aimed, facts: dict[str, object]) -> None:
        if aimed.kind in CALL_KINDS and getattr(self._next_call, "aimed", None) is not None:
            return  # one call goes wrong in one way: the other fault is nobody's, and is told as unfired
        strike = SelfStrike(
            aimed.id,
            aimed.kind,
            aimed.point,
            aimed.n,
            self._config.process,
            os.getpid(),
            ids.micros(self.wall()),
            {name: str(value)[:FACT_CHARS_MAX] for name, value in facts.items()},
        )
        if self._control.take(self._config.name, strike):
            self._lines.add(strike)
            if aimed.kind in CALL_KINDS:
                self._next_call.aimed = aimed
                return
            # To this very thread, so that it takes not one step more. A signal to the process may be taken by another
            # thread, and until that has stopped the others, this one would go on: long enough to send its append.
            signal.pthread_kill(threading.get_ident(), signal.SIGKILL if aimed.kind == Kind.KILL else signal.SIGSTOP)
