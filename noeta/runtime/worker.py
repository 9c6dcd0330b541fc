"""WorkerLoop: picks up a claimable task, drives it to its next rest, and repeats.

One loop is one drain thread; you scale by running several, each with its own ``worker_id``, against one store.
A resident loop must not crash: store errors charge nobody, an error that escapes a step becomes a bounded
retry, and the loop always goes on to the next task. Not handled: interrupting a step that will not return. Its
handle is cut, so it can write nothing more, but its thread goes on until the process exits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from noeta.core.errors import BadInput, CommitUnknown, Conflict, StoreUnavailable, UnreadableLog
from noeta.core.lower import check_span
from noeta.core.runner.lease import LEASE_OVER, ORDERED, QUOTA_EXCEEDED
from noeta.core.store import Claims
from noeta.core.tool import OnUnknown
from noeta.core.world import Event, Spawned, World
from noeta.runtime.dispatcher import ClaimUnknown, Lease
from noeta.runtime.giving_back import give_back, once_more, release
from noeta.runtime.host import WorkerRuntime
from noeta.runtime.kept import RESUME_PAUSE_SECONDS
from noeta.runtime.leased import (
    WorkerOutcome,
    keep_lease_alive,
    put_back_over_quota,
    resolve_engine,
    run_leased_task,
)
from noeta.runtime.process import ABANDONED, Process
from noeta.runtime.reliability import ONCE, ReliabilityEvent, ReliabilitySink, tell
from noeta.runtime.seams import SeamWorld
from noeta.runtime.signals import install_stop_signals
from noeta.runtime.threads import ThreadWorld

DEFAULT_SHUTDOWN_GRACE_S: Final = 30.0
ORDER_GRACE_SECONDS: Final = 5.0
"""How long a step may go on after it heard that its task is to end; then it is cut off, and the task ends so."""

STORE_PAUSE_SECONDS_MAX: Final = 5.0
"""The longest pause between two tries while the store is unreachable."""

T = TypeVar("T")
_log = logging.getLogger("noeta.worker")


class WorkerLoop:
    """The loop. See the worker-loop page for every knob; an interval <= 0 disables what it paces.

    Raises:
        BadInput: a lease that is not positive, or a heartbeat interval not below the lease.
    """

    on_unknown = OnUnknown.PARK
    """What happens to a call whose outcome nobody can tell, unless the task's engine says so."""

    def __init__(
        self,
        rt: WorkerRuntime,
        *,
        worker_id: str = "noeta-worker",
        lease_seconds: float = 600.0,
        poll_interval: float = 0.5,
        heartbeat_interval: float = 30.0,
        stale_sweep_interval: float = 10.0,
        timer_poll_interval: float = 1.0,
        shutdown_grace_s: float | None = DEFAULT_SHUTDOWN_GRACE_S,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] | None = None,
        now_fn: Callable[[], float] | None = None,
        heartbeat_wait: Callable[[float], bool] | None = None,
        reliability_sink: ReliabilitySink | None = None,
        step_poll_s: float = 0.05,
        next_goal_handle: str | None = None,
    ) -> None:
        check_span("poll_interval", poll_interval, 3600.0)
        check_span("step_poll_s", step_poll_s, 3600.0)
        world: World = getattr(rt, "world", None) or ThreadWorld()
        if clock is not None or now_fn is not None:
            world = SeamWorld(world, monotonic=clock, wall=now_fn)
        self._world = world
        shared: Process | None = getattr(rt, "process", None)
        if shared is not None and (shared.lease_seconds != lease_seconds or heartbeat_wait is not None):
            raise BadInput(
                "lease_seconds",
                f"loops that share a process renew as it does, every claim for {shared.lease_seconds:g} s, found "
                f"{lease_seconds:g} s" + (" and a heartbeat_wait" if heartbeat_wait is not None else ""),
            )
        self._process = shared or Process(
            world,
            rt.dispatcher.store,
            lease_seconds=lease_seconds,
            heartbeat_interval=heartbeat_interval,
            heartbeat_wait=heartbeat_wait,
            reliability_sink=reliability_sink,
            jobs=getattr(rt, "jobs", None),
        )
        self._owns_process = shared is None
        self._rt = rt
        self._dispatcher = rt.dispatcher.over(world, self._process.store)
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._poll_interval = poll_interval
        self._sweep_interval = stale_sweep_interval
        self._timer_interval = timer_poll_interval
        self._grace = shutdown_grace_s if shutdown_grace_s and shutdown_grace_s > 0 else None
        self._sleep = sleep
        self._sink = reliability_sink
        self._step_poll = step_poll_s
        self._next_goal_handle = next_goal_handle
        self._now_fn = now_fn
        self._stop: Event = world.event()
        self._swept_at = self._polled_at = world.monotonic()
        self._failures = 0
        self._running = False
        self._abandoned = False
        self._stopped_at: float | None = None
        self._left_to_lease = False
        self._beside: list[Spawned] = []

    @property
    def running(self) -> bool:
        """Whether ``run_forever`` is running."""
        return self._running

    @property
    def abandoned(self) -> bool:
        """The grace ran out with a step still in flight: the host must exit the process."""
        return self._abandoned

    @property
    def left_to_lease(self) -> bool:
        """Some task may still be claimed by this loop though it stopped: it comes free when its lease is over."""
        return self._abandoned or self._left_to_lease

    def stop(self) -> None:
        """End after the current iteration; waits for the step in flight, at most the grace."""
        self._stop.set()

    def run_forever(self, *, install_signals: bool = False) -> None:
        """Sweep, poll timers, tick, pause when idle, until ``stop()``."""
        restore = install_stop_signals(self) if install_signals else _nothing
        self._running = True
        self._process.enter(self._stop)
        try:
            while not self._stop.is_set():
                self.maybe_sweep()
                self.maybe_poll_timers()
                if not self.tick() and not self._stop.is_set():
                    self._pause()
        finally:
            self._running = False
            for spawned in self._beside:
                spawned.done.wait(self._left_of_grace())
            if self._process.leave(self._stop):
                self._give_back_kept()
            if self._owns_process:
                self._process.stop()
            restore()

    def tick(self) -> bool:
        """Claim one task, or go on with one whose claim this process kept while it rested, and drive it to its next
        rest; False when there is none (or the store is out of reach). Never raises for an error of a step or of the
        store."""
        lease = self._resume() or self._claim()
        if lease is None:
            return False
        self._process.keep(lease.held)
        try:
            self._drive(lease)
        except Exception as error:  # no thread to be had, say: the task is tried again, the loop goes on
            self._fail(lease, error)
        finally:
            self._rests(lease)
            # A renewal whose answer was lost may still hold it.
            self._left_to_lease |= self._stop.is_set() and (lease.held.lost or "").startswith(LEASE_OVER)
        return True

    def maybe_sweep(self) -> bool:
        """Put lapsed tasks back if the interval has passed; whether it did."""
        if not self._due(self._swept_at, self._sweep_interval):
            return False
        self._swept_at = self._world.monotonic()
        ids = self._ask("the sweep", self._dispatcher.requeue_stale)
        if ids:
            self._tell("stale_requeued", None, count=len(ids), task_ids=ids)
        return ids is not None

    def maybe_poll_timers(self) -> bool:
        """Fire due timers if the interval has passed; whether it did."""
        if not self._due(self._polled_at, self._timer_interval):
            return False
        self._polled_at = self._world.monotonic()
        # By the store's clock, unless the host replaced it: this machine's may be wrong. Keeps: timers-once.
        now = None if self._now_fn is None else self._now_fn()
        ids = self._ask("the timer poll", lambda: self._dispatcher.fire_due_timers(now=now))
        if ids:
            self._tell("timers_fired", None, count=len(ids), task_ids=ids)
        return ids is not None

    # -- one iteration -------------------------------------------------------------------------------------

    def _resume(self) -> Lease | None:
        """A kept task for which something came, running again under the same epoch."""
        lease = self._process.kept.take()
        if lease is None:
            return None
        if lease.held.lost is None:
            try:
                resumed = self._dispatcher.resume(lease)
            except Conflict as error:
                lease.held.cut(str(error))
            except Exception as error:
                self._failures += 1
                self._process.trouble.failed("resuming a task", error)
                self._process.kept.put(lease, pause=RESUME_PAUSE_SECONDS)
                return None
            else:
                lease.held.resumed()
                if resumed.timer_fired:
                    self._tell("timers_fired", None, count=1, task_ids=(lease.task_id,))
                return lease
        self._process.drop(lease.held)
        return None

    def _claim(self) -> Lease | None:
        found = self._ask("claiming", self._ask_for_a_claim)
        if found is None:
            return None
        claims, lease = found
        if claims.timers_fired:
            self._tell("timers_fired", None, count=len(claims.timers_fired), task_ids=claims.timers_fired)
        if claims.stale_requeued:
            self._tell("stale_requeued", None, count=len(claims.stale_requeued), task_ids=claims.stale_requeued)
        return lease

    def _ask_for_a_claim(self) -> tuple[Claims, Lease | None]:
        try:
            return self._dispatcher.claim(worker_id=self._worker_id, lease_seconds=self._lease_seconds, stop=self._stop)
        except ClaimUnknown:
            self._left_to_lease |= self._stop.is_set()
            raise

    def _drive(self, lease: Lease) -> None:
        """Run the step on its own activity, and hear of its end, of the claim's loss, or of a stop."""
        box: list[WorkerOutcome | BaseException] = []

        def step() -> None:
            try:
                box.append(self._run(lease))
            except Exception as error:
                box.append(error)

        spawned = self._world.spawn(f"step {lease.task_id}", step)
        if self._await(spawned, lease):
            self._settle(lease, box[0] if box else None)
        else:
            self._finish_for(lease)

    def _await(self, spawned: Spawned, lease: Lease) -> bool:
        """Whether the step ended; otherwise its claim is lost, or the grace ran out."""
        held = lease.held
        self._stopped_at = None
        while not spawned.done.is_set():
            if held.lost is None and self._world.monotonic() >= held.deadline:
                held.cut(LEASE_OVER)
            if held.lost is not None:
                # The step may take long to notice; it can write nothing more, so nobody waits for it.
                return self._world.wait_any([spawned.done], self._step_poll) is not None
            if held.ordered_at is not None and self._world.monotonic() - held.ordered_at >= ORDER_GRACE_SECONDS:
                held.cut(ORDERED)
                continue
            waits = [spawned.done, held.changed]
            if self._stopped_at is None:
                waits.append(self._stop)
            self._world.wait_any(waits, self._step_poll)
            self._hear_stop(lease)
            self._attend()
            if self._grace_over() and not spawned.done.is_set():
                if held.ordered_at is not None:
                    held.cut(ORDERED)  # the task ends now, without its step
                    continue
                self._abandon(lease)
                return False
        self._hear_stop(lease)  # a step that failed with its store just now is given back, too
        return True

    def _hear_stop(self, lease: Lease) -> None:
        if not self._stop.is_set() or self._stopped_at is not None:
            return
        self._stopped_at = self._world.monotonic()
        self._process.drain()
        if self._process.is_ending:  # nobody goes on with them: they need not wait for this step
            self._do_beside("give kept tasks back", self._give_back_kept)
        self._on_stop(lease)

    def _finish_for(self, lease: Lease) -> None:
        """What is left to do under a claim that this worker itself took from its step."""
        if lease.held.lost == QUOTA_EXCEEDED and self._process.stop_jobs(lease.held):
            self._ask("putting the task back", lambda: put_back_over_quota(self._dispatcher.store, lease.held))
        elif lease.held.lost == ORDERED:
            self._obey(lease)

    def _obey(self, lease: Lease) -> None:
        """The step does not end although its task is to: end the task without it, under the same claim. The step's
        handle is cut, so that nothing it still does is recorded."""
        if not self._process.stop_jobs(lease.held):  # it keeps no claim for them: left to the lease
            return
        again = once_more(self._process, self._dispatcher, lease)
        self._process.keep(again.held)
        try:
            self._ask("ending a task whose step does not end", lambda: self._run(again, prelude=_nothing))
        finally:
            self._process.drop(again.held)

    def _run(self, lease: Lease, prelude: Callable[[], None] | None = None) -> WorkerOutcome:
        return run_leased_task(
            self._rt,
            lease,
            prelude=prelude,
            process=self._process,
            next_goal_handle=self._next_goal_handle,
            on_unknown=self.on_unknown,
            reliability_sink=self._sink,
        )

    def _on_stop(self, lease: Lease) -> None:
        """The loop was told to stop with this step in flight: let it finish. ``noeta worker`` cancels it."""

    def _grace_over(self) -> bool:
        return self._stopped_at is not None and self._left_of_grace() == 0.0

    def _left_of_grace(self) -> float | None:
        """In seconds; None: a loop without a grace, which waits as long as it takes."""
        if self._grace is None or self._stopped_at is None:
            return self._grace
        return max(0.0, self._grace - (self._world.monotonic() - self._stopped_at))

    def _abandon(self, lease: Lease) -> None:
        self._abandoned = True
        lease.held.cut(ABANDONED)
        self._tell("shutdown_abandoned", lease, grace_s=self._grace)

    def _settle(self, lease: Lease, result: WorkerOutcome | BaseException | None) -> None:
        """The exception policy: what a step's end means for its claim."""
        match result:
            case None:
                pass  # the process was cut off
            case Conflict():
                if lease.held.lost is None:  # otherwise it is said when the claim is dropped
                    _log.info("task %s: the claim %s is gone: %s", lease.task_id, lease.lease_id, result, extra=ONCE)
                self._finish_for(lease)
            case StoreUnavailable() | CommitUnknown():
                self._process.trouble.failed(f"the step of task {lease.task_id}", result)
                if lease.held.stopping:
                    self._give_back(lease)
                else:
                    self._left_to_lease |= self._stop.is_set()
            case UnreadableLog():
                pass  # said, and put back for a worker that can read it
            case BaseException():
                self._fail(lease, result)
            case "skipped":
                self._tell("suspended_without_wake", lease)
            case "stopped" if lease.held.stopping:
                self._give_back(lease)
            case _:
                settle: Callable[[str], None] | None = getattr(self._rt, "settle_subtasks_after_step", None)
                if settle is not None:
                    self._ask("settling subtasks", lambda: settle(lease.task_id))

    def _give_back(self, lease: Lease) -> None:
        """Release the task of a step that was told to stop; again, while the store is out of reach and the grace lasts.
        Jobs that would not end die with the lease."""
        is_given_back = self._process.stop_jobs(lease.held) and release(
            self._process, self._dispatcher, lease, self._left_of_grace() or 0.0
        )
        self._left_to_lease |= not is_given_back

    def _fail(self, lease: Lease, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"
        trace = error if self._process.is_new_error(error) else None
        _log.error("task %s: an error escaped the step: %s", lease.task_id, reason, exc_info=trace)
        self._tell("step_failed_retryable", lease, reason=reason)
        failed = None
        if self._process.stop_jobs(lease.held):
            failed = self._ask(
                "recording a failure", lambda: self._dispatcher.fail(lease, retryable=True, reason=reason)
            )
        self._left_to_lease |= failed is None and self._stop.is_set()

    # -- kept tasks while the loop is busy -----------------------------------------------------------------

    def _attend(self) -> None:
        """See to one kept task that no loop has had time for, while this one waits for its own step."""
        lease = self._process.kept.take_unheard()
        if lease is not None and not self._do_beside(f"attend {lease.task_id}", lambda: self._see_to(lease)):
            self._process.kept.put(lease, pause=RESUME_PAUSE_SECONDS)

    def _see_to(self, lease: Lease) -> None:
        """End a kept task that is to end; release one that nothing is alive for: who has time may claim it."""
        held = lease.held
        if held.ordered_at is None or held.lost is not None:
            is_given_back = give_back(self._process, self._dispatcher, [lease], None)
            self._left_to_lease |= self._stop.is_set() and not is_given_back
            return
        outcome: WorkerOutcome | None = None
        try:
            if self._ask("resuming a task", lambda: self._dispatcher.resume(lease)) is not None:
                held.resumed()
                held.stop()  # the order is obeyed, and nothing else is begun
                outcome = self._ask("ending a kept task", lambda: self._run(lease, prelude=_nothing))
                if outcome == "stopped" and not held.kept:
                    self._give_back(lease)
        finally:
            self._rests(lease, pause=RESUME_PAUSE_SECONDS)
            self._left_to_lease |= self._stop.is_set() and outcome is None and not held.kept

    def _rests(self, lease: Lease, *, pause: float = 0.0) -> None:
        """Keep the claim of a task that rests with something alive; renew every other no longer."""
        if lease.held.kept and lease.held.lost is None:
            self._process.kept.put(lease, pause=pause)
        else:
            self._process.drop(lease.held)

    def _give_back_kept(self) -> None:
        leases = self._process.kept.take_all()
        self._left_to_lease |= not give_back(self._process, self._dispatcher, leases, self._left_of_grace() or 0.0)

    def _do_beside(self, name: str, what: Callable[[], None]) -> bool:
        """On an activity of its own, which the loop's end waits for; whether one could be had. If not, the step that
        this loop waits for is none the worse."""
        self._beside = [spawned for spawned in self._beside if not spawned.done.is_set()]
        try:
            self._beside.append(self._world.spawn(name, what))
        except Exception as error:
            self._process.trouble.failed(f"to {name}", error)
            return False
        return True

    # -- helpers -------------------------------------------------------------------------------------------

    def _ask(self, what: str, ask: Callable[[], T]) -> T | None:
        """One call to the store whose error the loop outlives; None on an error."""
        try:
            answer = ask()
        except Conflict as error:
            _log.info("%s: %s", what, error)
            return None
        except Exception as error:
            self._failures += 1
            self._process.trouble.failed(what, error)
            return None
        self._failures = 0
        self._process.trouble.worked("the store")
        return answer

    def _pause(self) -> None:
        """Until the next look; longer and longer while the store is out of reach."""
        seconds = self._poll_interval * 2 ** min(self._failures, 10)
        seconds = max(self._poll_interval, min(seconds, STORE_PAUSE_SECONDS_MAX))
        if self._sleep is not None:
            self._sleep(seconds)
        elif self._failures or not self._process.kept:
            self._stop.wait(seconds)
        else:
            kept = self._process.kept
            self._world.wait_any([self._stop, *kept.events()], kept.pause(seconds))

    def _due(self, last: float, interval: float) -> bool:
        return interval > 0 and self._world.monotonic() - last >= interval

    def _tell(self, kind: Any, lease: Lease | None, **detail: object) -> None:
        task_id, lease_id = (None, None) if lease is None else (lease.task_id, lease.lease_id)
        tell(self._sink, ReliabilityEvent(kind, task_id, lease_id, detail))


def _nothing() -> None:
    pass


__all__ = [
    "DEFAULT_SHUTDOWN_GRACE_S",
    "ReliabilityEvent",
    "WorkerLoop",
    "WorkerOutcome",
    "WorkerRuntime",
    "install_stop_signals",
    "keep_lease_alive",
    "resolve_engine",
    "run_leased_task",
]
