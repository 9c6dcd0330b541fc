"""RuntimeBundle: the plainest runtime a worker loop can drive, over any store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noeta.core.jobs import JobTable
from noeta.core.runner import Engine
from noeta.core.store import Store
from noeta.core.world import World
from noeta.runtime.content_store import ContentStore
from noeta.runtime.dispatcher import Dispatcher
from noeta.runtime.event_log import EventLog
from noeta.runtime.process import Process
from noeta.runtime.threads import ThreadWorld


@dataclass(frozen=True)
class RuntimeBundle:
    """Implements ``noeta.runtime.worker.WorkerRuntime``. Loops that share ``process`` renew in one call."""

    engine: Engine
    event_log: EventLog
    content_store: ContentStore
    dispatcher: Dispatcher
    world: World
    process: Process | None = None
    jobs: JobTable | None = None


def bundle(
    store: Store,
    engine: Engine,
    *,
    world: World | None = None,
    queues: Sequence[str] | None = None,
    process: Process | None = None,
    jobs: JobTable | None = None,
) -> RuntimeBundle:
    """A runtime over this store: one engine, the given queues (None: every queue). ``jobs``: what runs its background
    jobs; None: its tools can start none."""
    world = world or ThreadWorld()
    return RuntimeBundle(
        engine,
        EventLog(store),
        ContentStore(store),
        Dispatcher(store, queues=queues, world=world),
        world,
        process,
        jobs,
    )
