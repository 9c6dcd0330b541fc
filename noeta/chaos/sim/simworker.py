"""One simulated worker process: the production loop, over handles that can be cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from invariants.evidence import Attempt
from noeta.chaos.recording import MemorySink, RecordingStore
from noeta.chaos.sim.cast import Cast
from noeta.chaos.sim.jobs import SimJobTable
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.scripts import LEASE_SECONDS
from noeta.chaos.sim.server import Server
from noeta.chaos.sim.world import SimWorld
from noeta.core.fold import TaskState
from noeta.core.ids import micros
from noeta.core.runner import Engine
from noeta.core.store import Store
from noeta.runtime.app import WorkerApp
from noeta.runtime.content_store import ContentStore
from noeta.runtime.dispatcher import Dispatcher
from noeta.runtime.event_log import EventLog
from noeta.runtime.reliability import ReliabilityEvent
from noeta.runtime.service import ReleasingLoop

POLL_SECONDS: Final = LEASE_SECONDS / 2
"""Virtual time is free, yield points are not: an idle worker looks twice a lease."""

HEARTBEAT_SECONDS: Final = LEASE_SECONDS / 3
GRACE_SECONDS: Final = LEASE_SECONDS


@dataclass(frozen=True)
class SimRuntime:
    """Implements ``noeta.runtime.worker.WorkerRuntime`` for one simulated process."""

    app: WorkerApp
    store: Store
    world: SimWorld
    jobs: SimJobTable

    @property
    def engine(self) -> Engine:
        """There is no single engine: ``resolve_engine`` names one for each task."""
        raise AssertionError("a simulated worker resolves its engines")

    @property
    def event_log(self) -> EventLog:
        """The log of the store."""
        return EventLog(self.store)

    @property
    def content_store(self) -> ContentStore:
        """The contents of the store."""
        return ContentStore(self.store)

    @property
    def dispatcher(self) -> Dispatcher:
        """Claims over every queue."""
        return Dispatcher(self.store, queues=None, world=self.world)

    def resolve_engine(self, task: TaskState) -> Engine:
        """The app's engine for this task."""
        return self.app.resolve(task)


@dataclass(frozen=True, slots=True)
class SimWorker:
    """A started worker. ``attempts``: what it asked of its store so far, also after its death. ``stop``: SIGTERM.
    ``jobs``: its background jobs, some of which may outlive it for a moment."""

    attempts: Callable[[], tuple[Attempt, ...]]
    stop: Callable[[], None]
    jobs: SimJobTable


def start_worker(process: SimProcess, server: Server, cast: Cast, *, die: Callable[[], None]) -> SimWorker:
    """Start a worker in this process: a loop that gives its task back when it is told to stop, as `noeta worker`
    runs it. ``die`` is how its scripts kill it. The process ends with its loop."""
    world = SimWorld(process)
    sink = MemorySink()
    store = RecordingStore(
        server.handle(process), sink, process=process.name, clock=lambda: micros(process.scheduler.now / 1e6)
    )

    def told(event: ReliabilityEvent) -> None:
        process.scheduler.note(process.name, f"tells {event.kind}", {"task": event.task_id})

    jobs = SimJobTable(process, world, cast.book, lease_seconds=LEASE_SECONDS)
    loop = ReleasingLoop(
        SimRuntime(cast.app(process, world, die), store, world, jobs),
        worker_id=process.slot,
        lease_seconds=LEASE_SECONDS,
        poll_interval=POLL_SECONDS,
        heartbeat_interval=HEARTBEAT_SECONDS,
        stale_sweep_interval=LEASE_SECONDS,
        timer_poll_interval=LEASE_SECONDS,
        shutdown_grace_s=GRACE_SECONDS,
        step_poll_s=LEASE_SECONDS,
        reliability_sink=told,
    )

    def run() -> None:
        loop.run_forever()
        process.scheduler.note(process.name, "exits", {})
        process.kill()

    process.start("loop", run)
    return SimWorker(lambda: sink.attempts, loop.stop, jobs)
