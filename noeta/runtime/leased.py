"""One leased task, driven to its next rest; for the worker loop and for callers that have no loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from noeta.core import codec, texts
from noeta.core.errors import UnreadableLog
from noeta.core.events import StepAttemptAbandoned, TaskFailed
from noeta.core.fold import TaskState
from noeta.core.limits import REASON_CHARS_MAX
from noeta.core.runner import Engine, Held, Outcome, Runner
from noeta.core.runner.lease import QUOTA_EXCEEDED
from noeta.core.store import Commit, End, PutBack, Store
from noeta.core.task import LOAD_ATTEMPTS, TAKEOVERS_MAX
from noeta.core.tool import OnUnknown
from noeta.core.world import World
from noeta.runtime.dispatcher import Dispatcher, Lease
from noeta.runtime.host import WorkerRuntime
from noeta.runtime.process import Process
from noeta.runtime.reliability import Kind, ReliabilityEvent, ReliabilitySink, tell
from noeta.runtime.threads import ThreadWorld

WorkerOutcome = Outcome

UNREADABLE_REST_SECONDS: Final = 30.0
TAKEN_OVER_TOO_OFTEN: Final = "its workers died {count} times in a row before they could write anything"
_log = logging.getLogger("noeta.worker")


def resolve_engine(rt: WorkerRuntime, task: TaskState) -> Engine:
    """The engine for this task: the host's resolver if it has one, otherwise the runtime's single engine."""
    resolve: Callable[[TaskState], Engine] | None = getattr(rt, "resolve_engine", None)
    return rt.engine if resolve is None else resolve(task)


def run_leased_task(
    rt: WorkerRuntime,
    lease: Lease,
    *,
    prelude: Callable[[], None] | None = None,
    next_goal_handle: str | None = None,
    on_unknown: OnUnknown = OnUnknown.PARK,
    reliability_sink: ReliabilitySink | None = None,
    engine: Engine | None = None,
    process: Process | None = None,
) -> WorkerOutcome:
    """Drive a leased task until it waits, ends, or is told to stop.

    A task at the bound of takeovers is ended without being loaded. Keeps: bounded. A log that cannot be read is left
    as it is, and the task rests for a lease: that is no takeover. A damaged one ends the task after ``LOAD_ATTEMPTS``
    claims in a row in this process; one that a newer version wrote waits for a newer worker.

    ``prelude`` runs once before the drive (default: the host's ``take_pending_prelude``). The lease is neither renewed
    nor released here.

    Raises:
        Conflict, StoreUnavailable, CommitUnknown: stop; report no failure upward.
        UnreadableLog: the task was put back.
    """
    world: World = process.world if process else getattr(rt, "world", None) or ThreadWorld()
    store: Store = process.store if process else rt.dispatcher.store
    if lease.claim.takeovers >= TAKEOVERS_MAX:
        message = TAKEN_OVER_TOO_OFTEN.format(count=lease.claim.takeovers)
        return _end_failed(lease, texts.TOO_MANY_TAKEOVERS, message)
    take: Callable[[str], Callable[[], None] | None] | None = getattr(rt, "take_pending_prelude", None)
    prelude = prelude or (take(lease.task_id) if take is not None else None)
    if prelude is not None:
        prelude()

    def on_seal(reason: str, seq: int) -> None:
        detail: dict[str, Any] = {"reason": reason, "abandoned_from_seq": seq}
        kind: Kind = "attempt_parked" if reason == texts.ATTEMPT_PARKED else "attempt_abandoned"
        tell(reliability_sink, ReliabilityEvent(kind, lease.task_id, lease.lease_id, detail))

    runner = Runner(
        lambda task: engine or resolve_engine(rt, task),
        world,
        store,
        lease.held,
        next_goal_handle=next_goal_handle,
        on_unknown=on_unknown,
        on_seal=on_seal,
    )
    try:
        outcome = runner.drive()
    except UnreadableLog as error:
        return _unreadable(lease, process, error)
    if process is not None:
        process.load_failures.pop(lease.task_id, None)
    return outcome


@contextmanager
def keep_lease_alive(
    dispatcher: Dispatcher,
    lease: Lease,
    *,
    interval: float = 30.0,
    lease_seconds: float = 600.0,
    reliability_sink: ReliabilitySink | None = None,
) -> Iterator[Held]:
    """Renew one lease while the block runs, for callers that drive a leased task with no loop around it.

    Raises:
        BadInput: the interval is not below the lease.
    """
    process = Process(
        dispatcher.world,
        dispatcher.store,
        lease_seconds=lease_seconds,
        heartbeat_interval=interval,
        reliability_sink=reliability_sink,
    )
    process.keep(lease.held)
    try:
        yield lease.held
    finally:
        process.drop(lease.held)
        process.stop()


def put_back_over_quota(store: Store, held: Held) -> None:
    """A step held its task for more renewals than allowed: it goes back to pending, and the log says why."""
    seal = StepAttemptAbandoned(held.last_seq, QUOTA_EXCEEDED)
    store.append(held.claim, held.last_seq, Commit((seal,), PutBack()))


def _unreadable(lease: Lease, process: Process | None, error: UnreadableLog) -> WorkerOutcome:
    """Leave it to a worker that can read it; at the bound, end it."""
    failures = _count_failure(lease, process) if process is not None else 1
    if process is not None and not process.stop_jobs(lease.held):
        lease.held.cut("a background job would not end")
    _log.error("task %s: %s (claim %d in a row)", lease.task_id, error, failures)
    if error.newer or failures < LOAD_ATTEMPTS:
        # Not by letting the lease lapse: a takeover counts as the death of a worker, and nobody died.
        rest = process.lease_seconds if process is not None else UNREADABLE_REST_SECONDS
        lease.held.append(lease.held.last_seq, Commit(next=PutBack(rest)))
        raise error
    if process is not None:
        process.load_failures.pop(lease.task_id, None)
    return _end_failed(lease, texts.UNREADABLE_LOG, str(error))


def _count_failure(lease: Lease, process: Process) -> int:
    """How many claims in a row of this process could not read the log as it is."""
    seq, failures = process.load_failures.get(lease.task_id, (lease.claim.last_seq, 0))
    failures = failures + 1 if seq == lease.claim.last_seq else 1
    process.load_failures[lease.task_id] = (lease.claim.last_seq, failures)
    return failures


def _end_failed(lease: Lease, reason: str, message: str) -> WorkerOutcome:
    ending = TaskFailed(reason, codec.escape_text(message)[:REASON_CHARS_MAX])
    lease.held.append(lease.held.last_seq, Commit(next=End(ending)))
    return "drained"
