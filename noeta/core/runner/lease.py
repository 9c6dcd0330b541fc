"""The lease keeper: renews every claim of a process in one call, and says when one is lost.

It has an activity and (in the store) a connection of its own, so that nothing the work does can starve it. A
claim is lost when the store says so, or when the lease would have run out by this process's own monotonic
clock, counted from before the request was sent. Keeps: one-writer (timing only: the fence is the store's).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from noeta.core.errors import CommitUnknown, InvalidLease, StoreUnavailable
from noeta.core.ids import micros
from noeta.core.jobs import Jobs
from noeta.core.store import Appended, Claim, Commit, Renewal, Store
from noeta.core.wake import WakeCondition
from noeta.core.world import Event, World

HEARTBEAT_MAX: Final = 360
"""Renewals of one running step at the most: interval × this bounds how long a step can hold its task."""

QUOTA_EXCEEDED: Final = "lease_quota_exceeded"
ORDERED: Final = "its task is to end, and the step did not"
LEASE_OVER: Final = "its lease is over by this worker's own clock"
RETRY_SECONDS_MAX: Final = 1.0
"""The longest pause before a failed or busy renewal is tried again."""

DRAIN_SECONDS_MAX: Final = 1.0
"""The longest pause between renewals while the process stops: an order to end must be heard within the grace."""


class ClaimLost(InvalidLease):
    """This process no longer holds the claim, or may no longer act on it. Nothing more is written."""


class Held:
    """One claim in this process: its handle on the store, and the token that cancels its step.

    ``cancelled`` is set when the claim is lost, the worker stops, or an order came; ``lost`` says why it is lost. After
    ``cut`` no append leaves this process under this claim. ``ordered_at``: when the keeper heard of an order to end or
    to stop, by the monotonic clock. ``kept``: the task rests, and this process keeps the claim for the sake of its
    ``jobs``; ``rests_on``: what it waits for then; ``heard``: something came for it meanwhile.
    """

    def __init__(self, world: World, store: Store, claim: Claim, deadline: float) -> None:
        self.claim = claim
        self.deadline = deadline
        self.cancelled: Event = world.event()
        self.changed: Event = world.event()
        self.lost: str | None = None
        self.stopping = False
        self.ordered_at: float | None = None
        self.jobs: Jobs | None = None
        self.kept = False
        self.rests_on: WakeCondition | None = None
        self.heard = False
        self.inbox_seq = claim.inbox_seq
        self.last_seq = claim.last_seq
        self.renewals = 0
        self.counted_at = float("-inf")
        self._world = world
        self._store = store
        self._store_time: tuple[int, float] | None = None

    def saw_store_time(self, now: int) -> None:
        """What the store's clock said in the answer that just came, in microseconds."""
        self._store_time = now, self._world.monotonic()

    def store_now(self) -> int | None:
        """The store's time, as far as is known here, in microseconds: never ahead of it. None: nothing is known."""
        if self._store_time is None:
            return None
        now, seen_at = self._store_time
        return now + micros(self._world.monotonic() - seen_at)

    def seconds_left(self) -> float:
        """Until the lease is over, by this process's clock."""
        return self.deadline - self._world.monotonic()

    def resumed(self) -> None:
        """The task that rested with this claim kept is driven again: what was told to the step before is over."""
        self.cancelled, self.changed, self.stopping = self._world.event(), self._world.event(), False
        self.kept, self.heard, self.ordered_at, self.rests_on, self.renewals = False, False, None, None, 0

    @property
    def key(self) -> tuple[str, str]:
        """What tells this claim from every other in this process, its task's next claim included."""
        return self.claim.task_id, self.claim.lease_id

    def check(self) -> None:
        """Raise ``ClaimLost`` if the lease may be over: before an append and right before a tool's body."""
        if self.lost is None and self._world.monotonic() >= self.deadline:
            self.cut(LEASE_OVER)
        if self.lost is not None:
            raise ClaimLost(f"the claim {self.claim.lease_id} of task {self.claim.task_id!r} is lost: {self.lost}")

    def cut(self, reason: str) -> None:
        """Mark the claim lost, cancel its step, and let no further append through."""
        if self.lost is None:
            self.lost = reason
        self.cancelled.set()
        self.changed.set()

    def stop(self) -> None:
        """Ask the step to end at its next boundary; the claim stays good, so that it can be released."""
        self.stopping = True
        self.cancelled.set()

    def order(self) -> None:
        """Cancel the step, because an order to end or to stop is in the inbox: the runner takes it at its next
        boundary. The claim stays good."""
        if self.ordered_at is None:
            self.ordered_at = self._world.monotonic()
        self.cancelled.set()

    def append(self, expected_seq: int, commit: Commit) -> Appended:
        """``Store.append`` under this claim, if it is not lost."""
        self.check()
        appended = self._store.append(self.claim, expected_seq, commit)
        self.last_seq = appended.last_seq
        self.inbox_seq = max(self.inbox_seq, appended.inbox_seq)
        self.saw_store_time(appended.at)
        return appended


class LeaseKeeper:
    """Renews all held claims every ``interval`` seconds, in one round trip.

    ``wait`` replaces the beat's pause (returns True to end the keeper); ``on_lost`` hears of each claim that the
    store or the clock took away, ``on_extended`` of each that is held longer, ``on_heard`` of each kept one for which
    something came.
    """

    def __init__(
        self,
        world: World,
        store: Store,
        *,
        lease_seconds: float,
        interval: float,
        heartbeat_max: int = HEARTBEAT_MAX,
        wait: Callable[[float], bool] | None = None,
        on_lost: Callable[[Held], None] | None = None,
        on_extended: Callable[[Held], None] | None = None,
        on_heard: Callable[[Held], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        on_renewed: Callable[[], None] | None = None,
    ) -> None:
        self._world = world
        self._store = store
        self._lease_seconds = lease_seconds
        self._interval = interval
        self._heartbeat_max = heartbeat_max
        self._on_lost = on_lost or (lambda held: None)
        self._on_extended = on_extended or (lambda held: None)
        self._on_heard = on_heard or (lambda held: None)
        self._on_error = on_error or (lambda error: None)
        self._on_renewed = on_renewed or (lambda: None)
        self._held: dict[tuple[str, str], Held] = {}
        self._stopped = world.event()
        self._draining = world.event()
        self._wait = wait or self._pause
        self._running = False

    def keep(self, held: Held) -> None:
        """Keep this claim alive from now on."""
        self._held[held.key] = held
        self.start()

    def start(self) -> None:
        """Begin to beat, if it has not begun. Loops that share a keeper start it before they run."""
        if not self._running:
            self._running = True
            self._world.spawn("lease-keeper", self._run)

    def drop(self, held: Held) -> None:
        """Renew this claim no longer; its lease runs out unless it was released."""
        self._held.pop(held.key, None)

    def drain(self) -> None:
        """The process stops: renew more often, so that an order is heard while steps are waited for."""
        self._draining.set()

    def stop(self) -> None:
        """End the keeper; claims still held run out."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._interval
        while not self._wait(pause) and not self._stopped.is_set():
            try:
                pause = self.beat()
            except Exception as error:  # whatever it was, the claims of the whole process hang on the next beat
                self._on_error(error)
                self._expire(list(self._held.values()))
                pause = self._retry_pause()
        self._running = False

    def _pause(self, seconds: float) -> bool:
        if self._draining.is_set():
            return self._stopped.wait(min(seconds, DRAIN_SECONDS_MAX))
        self._world.wait_any([self._stopped, self._draining], seconds)
        return self._stopped.is_set()

    def beat(self) -> float:
        """Renew everything once; how long to wait before the next beat."""
        holders = [held for held in list(self._held.values()) if held.lost is None]
        if not holders:
            return self._interval
        asked_at = self._world.monotonic()
        try:
            renewals = self._store.renew([held.claim for held in holders], self._lease_seconds)
        except (StoreUnavailable, CommitUnknown) as error:
            self._on_error(error)
            self._expire(holders)
            return self._retry_pause()
        self._on_renewed()
        busy = False
        for held, renewal in zip(holders, renewals, strict=True):
            busy |= self._renewed(held, renewal, asked_at)
        self._expire(holders)
        return self._retry_pause() if busy else self._interval

    def _renewed(self, held: Held, renewal: Renewal, asked_at: float) -> bool:
        """Apply one answer; whether it must be asked for again at once."""
        if renewal.outcome == "busy":
            return True
        if renewal.outcome == "lost":
            if held.key in self._held:  # not released meanwhile
                held.cut("the store says that it was taken over or has lapsed")
                self._on_lost(held)
            return False
        held.deadline = asked_at + self._lease_seconds
        held.saw_store_time(renewal.now)
        self._on_extended(held)
        # A step is bounded so; a task that rests is not. What is renewed early while the process drains is not counted.
        if not held.kept and (not self._draining.is_set() or asked_at - held.counted_at >= self._interval):
            held.renewals += 1
            held.counted_at = asked_at
        if held.renewals >= self._heartbeat_max:
            held.cut(QUOTA_EXCEEDED)
            self._on_lost(held)
            return False
        heard = renewal.timer_due or renewal.ordered or renewal.inbox_seq > held.inbox_seq
        held.inbox_seq = max(held.inbox_seq, renewal.inbox_seq)
        if renewal.ordered:
            held.order()
        if held.kept and heard:
            held.heard = True
            self._on_heard(held)
        return False

    def _expire(self, holders: list[Held]) -> None:
        now = self._world.monotonic()
        for held in holders:
            if held.lost is None and now >= held.deadline:
                held.cut(f"{LEASE_OVER}: renewals kept failing")
                self._on_lost(held)

    def _retry_pause(self) -> float:
        return min(self._interval / 4, RETRY_SECONDS_MAX)
