"""What one worker process knows: its world, its store handle, its lease keeper. Nothing hangs on a module.

Several loops of one process share one ``Process``, so that all their claims are renewed in one call. The store
handle passes every call through two crash points, ``<verb>.before`` and ``<verb>.after``: "not sent" and
"landed, reply lost".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from noeta.backends.stores.around import AroundStore, Call
from noeta.core.errors import BadInput
from noeta.core.jobs import JobTable
from noeta.core.lower import check_lease
from noeta.core.runner import LeaseKeeper
from noeta.core.runner.lease import HEARTBEAT_MAX, ORDERED, Held
from noeta.core.store import Commit, End, Store
from noeta.core.world import Event, World
from noeta.runtime.kept import KeptTasks
from noeta.runtime.reliability import ReliabilityEvent, ReliabilitySink, log_reliability, tell

T = TypeVar("T")
_log = logging.getLogger("noeta.worker")
ABANDONED: Final = "the worker shut down without waiting for the step"
LOG_SECONDS: Final = 10.0
"""A trouble that lasts is logged once per this many seconds, with how often it came."""

LINE_SECONDS: Final = 1.0
"""Two lines about trouble are at least this far apart, however often it comes and goes."""


class PointStore(AroundStore):
    """A store whose every call is a pair of crash points of this world."""

    def __init__(self, inner: Store, world: World) -> None:
        super().__init__(inner)
        self._world = world

    def around(self, call: Call, do: Callable[[], T]) -> T:
        facts: dict[str, object] = {"task": call.task_id}
        if call.verb == "append":
            commit: Commit = call.args["commit"]
            ending = [commit.next.entry] if isinstance(commit.next, End) else []
            kinds = [type(entry).__name__ for entry in [*commit.entries, *ending]]
            facts |= {"seq": call.args["expected_seq"] + 1, "events": ",".join(kinds)}
        self._world.point(f"{call.verb}.before", **facts)
        answer = do()
        self._world.point(f"{call.verb}.after", **facts)
        return answer


class Trouble:
    """Logs a trouble that lasts without flooding: when it begins, once per ``LOG_SECONDS``, and when it is over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: float | None = None
        self._said_at: float | None = None
        self._failures = 0

    def failed(self, what: str, error: BaseException) -> None:
        """Count one failure."""
        begins = self._since is None
        if self._since is None:
            self._since = self._world.monotonic()
        self._failures += 1
        if self._may_say(LINE_SECONDS if begins else LOG_SECONDS):
            _log.warning("%s failed (failure %d): %s: %s", what, self._failures, type(error).__name__, error)

    def worked(self, what: str) -> None:
        """The trouble, if there was one, is over."""
        if self._since is not None:
            seconds = self._world.monotonic() - self._since
            if self._may_say(LINE_SECONDS):
                _log.warning("%s works again after %.1f s and %d failures", what, seconds, self._failures)
            self._since, self._failures = None, 0

    def _may_say(self, pause: float) -> bool:
        now = self._world.monotonic()
        if self._said_at is not None and now - self._said_at < pause:
            return False
        self._said_at = now
        return True


class Process:
    """One process of workers. ``heartbeat_interval`` <= 0 disables renewals.

    Raises:
        BadInput: a lease that is not positive, or an interval not below the lease: a healthy step would lose
            its claim every time.
    """

    def __init__(
        self,
        world: World,
        store: Store,
        *,
        lease_seconds: float,
        heartbeat_interval: float,
        heartbeat_max: int = HEARTBEAT_MAX,
        heartbeat_wait: Callable[[float], bool] | None = None,
        reliability_sink: ReliabilitySink | None = None,
        jobs: JobTable | None = None,
    ) -> None:
        check_lease(lease_seconds)
        if not heartbeat_interval < lease_seconds:  # NaN too
            raise BadInput(
                "heartbeat_interval",
                f"must be below the lease of {lease_seconds:g} s, found {heartbeat_interval:g} s",
            )
        self.world = world
        self.store: Store = PointStore(store, world)
        self.lease_seconds = lease_seconds
        self.load_failures: dict[str, tuple[int, int]] = {}
        """Per task: the last seq at which its log could not be read, and how many claims in a row."""
        self.kept = KeptTasks(world)
        self._jobs = jobs
        self._loops: list[Event] = []
        self._told_lost: set[tuple[str, str]] = set()
        self._told_errors: set[tuple[type[BaseException], str, int]] = set()
        self._renewing = heartbeat_interval > 0
        self._sink = reliability_sink
        self.trouble = Trouble(world)
        self._keeper = LeaseKeeper(
            world,
            self.store,
            lease_seconds=lease_seconds,
            interval=heartbeat_interval,
            heartbeat_max=heartbeat_max,
            wait=heartbeat_wait,
            on_lost=self._lost,
            on_extended=self._extended,
            on_heard=lambda held: self.kept.heard(),
            on_error=lambda error: self.trouble.failed("renewing the leases", error),
            on_renewed=lambda: self.trouble.worked("renewing the leases"),
        )

    def start(self) -> None:
        """Begin to renew. Loops that share this process start it before they run."""
        if self._renewing:
            self._keeper.start()

    def enter(self, stop: Event) -> None:
        """A loop runs, until this event."""
        self._loops.append(stop)

    def leave(self, stop: Event) -> bool:
        """That loop has ended; whether it was the last."""
        self._loops.remove(stop)
        return not self._loops

    @property
    def is_ending(self) -> bool:
        """Whether every loop that runs was told to stop."""
        return all(stop.is_set() for stop in list(self._loops))

    def keep(self, held: Held) -> None:
        """Renew this claim until it is dropped. Without renewals it can have no jobs: nobody would hear of anything
        that comes for a task whose claim is kept for them."""
        if self._jobs is not None and self._renewing and held.jobs is None:
            held.jobs = self._jobs.of(held)
        if self._renewing:
            self._keeper.keep(held)

    def drop(self, held: Held) -> None:
        """Renew this claim no longer; whatever it held alive ends. Says so if the claim is lost, and that was not said:
        a step may find it out before the keeper does."""
        if held.lost not in (None, ORDERED, ABANDONED) and held.key not in self._told_lost:
            log_reliability(_lost_event(held))
        self._told_lost.discard(held.key)
        if self._jobs is not None and held.jobs is not None:
            self._jobs.lost(held)
        self._keeper.drop(held)

    def stop_jobs(self, held: Held) -> bool:
        """End whatever this claim holds alive, before the claim is given up; whether nothing is left."""
        return held.jobs is None or not held.jobs.live() or held.jobs.stop()

    def drain(self) -> None:
        """Some loop was told to stop: hear of orders soon. Renewals go on until ``stop``."""
        self._keeper.drain()

    def stop(self) -> None:
        """End the keeper. Jobs end with their claims; the table of them is closed by whoever made it: other loops may
        use it, too."""
        self._keeper.stop()

    def is_new_error(self, error: BaseException) -> bool:
        """Whether no error of this type came from this place before: only then its traceback tells anything new."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        kind = (type(error), *place)
        is_new = kind not in self._told_errors
        self._told_errors.add(kind)
        return is_new

    def _extended(self, held: Held) -> None:
        if self._jobs is not None and held.jobs is not None:
            self._jobs.extended(held)

    def _lost(self, held: Held) -> None:
        event = _lost_event(held)
        if self._jobs is not None and held.jobs is not None:
            self._jobs.lost(held)
        self._told_lost.add(held.key)
        self.kept.heard()
        tell(self._sink, event)


def _lost_event(held: Held) -> ReliabilityEvent:
    """That this claim is lost, and which of its jobs end with it or were killed in time before."""
    claim, detail = held.claim, {"reason": held.lost or ""}
    if held.jobs is None:
        return ReliabilityEvent("heartbeat_invalid_lease", claim.task_id, claim.lease_id, detail)
    killed = held.jobs.live() | {end.job_id for end in held.jobs.ended() if end.how == "killed"}
    jobs = {"jobs": tuple(sorted(killed))} if killed else {}
    return ReliabilityEvent("heartbeat_invalid_lease", claim.task_id, claim.lease_id, {**detail, **jobs})
