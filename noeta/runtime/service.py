"""Several worker loops in one process, as `noeta worker` runs them.

All claims of the process are renewed in one call. Told to stop, it cancels the steps in flight, waits for them
(bounded), and gives their tasks back at once; a step that will not end is left to its lease.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from noeta.core.fold import TaskState
from noeta.core.lower import check_claim_input, check_count, check_span
from noeta.core.runner import Engine
from noeta.core.store import Store
from noeta.core.tool import OnUnknown
from noeta.core.world import World
from noeta.runtime.app import WorkerApp
from noeta.runtime.content_store import ContentStore
from noeta.runtime.dispatcher import Dispatcher, Lease
from noeta.runtime.event_log import EventLog
from noeta.runtime.giving_back import give_back, put_back_without_step
from noeta.runtime.jobs.table import JobTable
from noeta.runtime.process import ABANDONED, Process
from noeta.runtime.threads import ThreadWorld
from noeta.runtime.worker import WorkerLoop

_log = logging.getLogger("noeta.worker")

DEFAULT_LEASE_SECONDS: Final = 30.0
RENEWALS_PER_LEASE: Final = 3
STOP_GRACE_SECONDS: Final = 10.0
CONCURRENCY_MAX: Final = 256
POLL_SECONDS_MAX: Final = 3600.0
GRACE_SECONDS_MAX: Final = 3600.0
EXIT_SLACK_SECONDS: Final = 10.0
"""What the loops may need beyond the grace: one store call with its deadline. Half a lease at the most: a step that was
left must be gone with its process before others take its task."""


class ReleasingLoop(WorkerLoop):
    """A loop that cancels its step when it is told to stop, and releases the task: also one whose step hangs in a model
    call when the grace is over."""

    on_unknown = OnUnknown.TELL

    def _on_stop(self, lease: Lease) -> None:
        lease.held.stop()

    def _abandon(self, lease: Lease) -> None:
        lease.held.cut(ABANDONED)
        put_back = self._ask(
            "putting a task back whose step does not end",
            lambda: put_back_without_step(self._process, self._dispatcher, lease),
        )
        if not put_back:
            super()._abandon(lease)


@dataclass(frozen=True)
class ServiceRuntime:
    """Implements ``noeta.runtime.worker.WorkerRuntime`` for the loops of one service."""

    app: WorkerApp
    dispatcher: Dispatcher
    world: World
    process: Process
    event_log: EventLog
    content_store: ContentStore

    @property
    def engine(self) -> Engine:
        """There is no single engine: ``resolve_engine`` names one for each task."""
        raise AssertionError("the service resolves its engines")

    def resolve_engine(self, task: TaskState) -> Engine:
        """The app's engine for this task."""
        return self.app.resolve(task)


class WorkerService:
    """``concurrency`` loops over one store; worker ids are ``<name>-1`` … ``<name>-N``.

    Raises:
        BadInput: names, lease or concurrency out of their bounds.
    """

    def __init__(
        self,
        store: Store,
        app: WorkerApp,
        *,
        name: str,
        queues: Sequence[str] | None = None,
        concurrency: int = 1,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        poll_interval: float = 0.5,
        stop_grace_s: float = STOP_GRACE_SECONDS,
    ) -> None:
        check_claim_input(name, queues, lease_seconds, None, 1)
        check_count("concurrency", concurrency, CONCURRENCY_MAX)
        check_span("poll", poll_interval, POLL_SECONDS_MAX)
        check_span("grace", stop_grace_s, GRACE_SECONDS_MAX)
        self._world = app.world or ThreadWorld()
        self._stop_seconds = stop_grace_s + min(EXIT_SLACK_SECONDS, lease_seconds / 2)
        store = app.around(store) if app.around else store
        heartbeat = lease_seconds / RENEWALS_PER_LEASE
        self._jobs = JobTable(self._world, lease_seconds=lease_seconds)
        self._process = Process(
            self._world,
            store,
            lease_seconds=lease_seconds,
            heartbeat_interval=heartbeat,
            jobs=self._jobs,
        )
        self._dispatcher = Dispatcher(self._process.store, queues=queues, world=self._world)
        runtime = ServiceRuntime(
            app,
            self._dispatcher,
            self._world,
            self._process,
            EventLog(store),
            ContentStore(store),
        )
        self._loops = [
            ReleasingLoop(
                runtime,
                worker_id=f"{name}-{number}",
                lease_seconds=lease_seconds,
                heartbeat_interval=heartbeat,
                poll_interval=poll_interval,
                shutdown_grace_s=stop_grace_s,
                # Claims take due and lapsed rows themselves: the sweeps are for queues nobody claims from.
                stale_sweep_interval=10.0,
                timer_poll_interval=1.0,
            )
            for number in range(1, concurrency + 1)
        ]
        self._stop = self._world.event()
        self._broken = False

    def stop(self) -> None:
        """Cancel the steps in flight, release their tasks, and end."""
        self._stop.set()
        for loop in self._loops:
            loop.stop()

    def run(self) -> bool:
        """Run until ``stop()``; whether every step ended and every task was given back.

        A loop does not end by itself. Should one do so all the same, the rest is stopped too: a process that is alive
        and does nothing would be worse than one that ended and is started again.
        """
        self._process.start()
        running = [self._world.spawn(f"loop-{i}", loop.run_forever) for i, loop in enumerate(self._loops, start=1)]
        self._world.wait_any([self._stop, *(loop.done for loop in running)], None)
        if not self._stop.is_set():
            _log.error("a worker loop ended by itself: stopping")
            self.stop()
            self._broken = True
        deadline = self._world.monotonic() + self._stop_seconds
        for loop in running:
            loop.done.wait(max(0.0, deadline - self._world.monotonic()))
        left = max(0.0, deadline - self._world.monotonic())
        kept_given_back = give_back(self._process, self._dispatcher, self._process.kept.take_all(), left)
        self._process.stop()
        self._jobs.close()
        ended = all(loop.done.is_set() for loop in running)
        return ended and kept_given_back and not self._broken and not any(loop.left_to_lease for loop in self._loops)
