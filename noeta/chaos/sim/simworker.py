"""One simulated worker process: the production loop, over handles that can be cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from invariants.evidence import Attempt
from noeta.chaos.recording import MemorySink, RecordingStore
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.scripts import LEASE_SECONDS, RETRY_ATTEMPTS
from noeta.chaos.sim.server import Server
from noeta.chaos.sim.world import SimWorld
from noeta.core.ids import micros
from noeta.core.retry import RetryPolicy
from noeta.runtime.reliability import ReliabilityEvent
from noeta.runtime.worker import WorkerLoop
from noeta.testing.profile import bundle
from scripted_model.app import make_engine
from scripted_model.journal import Effect, JournalBook, MemoryJournal

POLL_SECONDS: Final = LEASE_SECONDS / 2
"""Virtual time is free, yield points are not: an idle worker looks twice a lease."""

HEARTBEAT_SECONDS: Final = LEASE_SECONDS / 3


@dataclass(frozen=True, slots=True)
class CutJournal:
    """Implements ``scripted_model.journal.Journal``: a process's journal, which is as dead as its process."""

    inner: MemoryJournal
    process: SimProcess

    def effect(self, *, task: str, call: str, tool: str, tag: str, start: int) -> None:
        self.process.check()
        self.inner.effect(task=task, call=call, tool=tool, tag=tag, start=start)

    def death(self, *, task: str, call: str, start: int) -> None:
        self.process.check()
        self.inner.death(task=task, call=call, start=start)

    def find(self, task: str, call: str) -> Effect | None:
        self.process.check()
        return self.inner.find(task, call)


def start_worker(
    process: SimProcess, server: Server, book: JournalBook, *, die: Callable[[], None]
) -> Callable[[], tuple[Attempt, ...]]:
    """Start a worker loop in this process; what it asked of its store can be read at any time, also after its
    death. ``die`` is how its scripts kill it."""
    world = SimWorld(process)
    sink = MemorySink()
    store = RecordingStore(
        server.handle(process), sink, process=process.name, clock=lambda: micros(process.scheduler.now / 1e6)
    )
    journal = CutJournal(
        MemoryJournal(book, process.name, lambda: process.scheduler.now / 1e6, process.number), process
    )
    engine = make_engine(
        journal,
        retry=RetryPolicy(max_attempts=RETRY_ATTEMPTS),
        die=die,
        pause=lambda seconds: world.event().wait(seconds),
    )

    def told(event: ReliabilityEvent) -> None:
        process.scheduler.note(process.name, f"tells {event.kind}", {"task": event.task_id})

    loop = WorkerLoop(
        bundle(store, engine, world=world),
        worker_id=process.name,
        lease_seconds=LEASE_SECONDS,
        poll_interval=POLL_SECONDS,
        heartbeat_interval=HEARTBEAT_SECONDS,
        stale_sweep_interval=LEASE_SECONDS,
        timer_poll_interval=LEASE_SECONDS,
        step_poll_s=LEASE_SECONDS,
        reliability_sink=told,
    )
    process.start("loop", loop.run_forever)
    return lambda: sink.attempts
