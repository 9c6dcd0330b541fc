"""The public face of claims and wakes: what a worker loop asks of a store, in the words of the worker-loop page."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from noeta.core.errors import CommitUnknown, StoreUnavailable
from noeta.core.events import TaskSuspended
from noeta.core.runner.lease import Held
from noeta.core.store import Claim, Claims, Failed, Posted, Store, claim_from_row
from noeta.core.task import Status
from noeta.core.wake import Item, WakeEvent, find_wake
from noeta.core.world import Event, World
from noeta.runtime.threads import ThreadWorld

ADOPT_PAUSE_SECONDS = 6.0
"""Above the store's statement timeout: a claim still under way has ended by then."""


class Lease:
    """A claim of this process, with the wake it was claimed for (the page's name for a ``Claim``)."""

    def __init__(self, store: Store, held: Held) -> None:
        self.claim: Claim = held.claim
        self.held = held
        self._store = store

    @property
    def task_id(self) -> str:
        """The claimed task."""
        return self.claim.task_id

    @property
    def lease_id(self) -> str:
        """The fence as text."""
        return self.claim.lease_id

    @property
    def wake_event(self) -> Item | None:
        """What ends the task's wait, byte for byte as it was posted; None once ``TaskWoken`` took it, or if nothing
        has come. Asks the store. Keeps: wake-once."""
        page = self._store.read(self.task_id, self.claim.last_seq - 1)
        last = page.entries[-1].event if page.entries else None
        if not isinstance(last, TaskSuspended):
            return None
        found = find_wake(last.wake_on, [(item.number, item.item) for item in page.unread])
        return None if found is None else found[1]


class Dispatcher:
    """Claims, wakes, sweeps and timers over one store.

    ``queues`` None takes every queue. A call whose outcome is unknown is never repeated blindly: the claims of
    an unknown claim call are found by its token and adopted.
    """

    def __init__(self, store: Store, *, queues: Sequence[str] | None = None, world: World | None = None) -> None:
        self.store = store
        self.queues = queues
        self.world: World = world or ThreadWorld()
        self._tokens: dict[str, Random] = {}

    def over(self, world: World, store: Store) -> Dispatcher:
        """The same queues, through another handle on the store."""
        return Dispatcher(store, queues=self.queues, world=world)

    def claim(self, *, worker_id: str, lease_seconds: float, stop: Event | None = None) -> tuple[Claims, Lease | None]:
        """Claim one task; what the call did, and the lease if there is one. ``stop`` ends the wait for the outcome
        of an unknown claim.

        Raises:
            StoreUnavailable: nothing was claimed, or nobody can tell: such a claim just runs out.
        """
        if worker_id not in self._tokens:
            self._tokens[worker_id] = self.world.random(f"claim-tokens/{worker_id}")
        token = f"{self._tokens[worker_id].getrandbits(128):032x}"
        asked_at = self.world.monotonic()
        try:
            claims = self.store.claim(worker_id, self.queues, lease_seconds, token=token)
        except CommitUnknown as error:
            claims = self._adopt(token, error, lease_seconds, stop or self.world.event())
        if not claims.claims:
            return claims, None
        held = Held(self.world, self.store, claims.claims[0], asked_at + lease_seconds)
        return claims, Lease(self.store, held)

    def lease(self, *, worker_id: str, lease_seconds: float = 30.0) -> Lease | None:
        """Claim one task, or None when nothing is claimable."""
        return self.claim(worker_id=worker_id, lease_seconds=lease_seconds)[1]

    def _adopt(self, token: str, error: CommitUnknown, lease_seconds: float, stop: Event) -> Claims:
        """What an unknown claim call took, found by its token: a worker never leaves it until it runs out.

        Looked up at once, and again when the call must have ended, if its lease could outlive that.
        """
        while True:
            try:
                rows = self.store.tasks(token=token)
            except StoreUnavailable:
                rows = ()
            if rows:
                self.world.point("claim.adopted", task=rows[0].id)
                return Claims(tuple(claim_from_row(row) for row in rows), (), (), 0)
            if lease_seconds <= ADOPT_PAUSE_SECONDS or stop.wait(ADOPT_PAUSE_SECONDS):
                break
            lease_seconds = 0.0
        raise StoreUnavailable(f"the outcome of a claim is unknown, and nothing holds its token: {error}")

    def heartbeat(self, lease: Lease, *, lease_seconds: float = 30.0) -> int:
        """Extend one lease; its new end, in microseconds since the epoch.

        Raises:
            InvalidLease: it was lost, or the store says that it is over.
        """
        lease.held.check()
        asked_at = self.world.monotonic()
        (renewal,) = self.store.renew(lease.claim, lease_seconds)
        if renewal.outcome == "busy":
            raise StoreUnavailable(f"the row of task {lease.task_id!r} is locked; try again")
        if renewal.outcome == "lost":
            lease.held.cut("the store says that it was taken over or has lapsed")
        lease.held.check()
        lease.held.deadline = asked_at + lease_seconds
        return renewal.lease_until

    def release(self, lease: Lease) -> Status:
        """Give the task back at once; it becomes pending."""
        return self.store.release(lease.claim)

    def fail(self, lease: Lease, *, retryable: bool = True, reason: str | None = None) -> Failed:
        """An error escaped the step: bounded retry, then terminal with the reason in the log. Keeps: bounded."""
        return self.store.fail(lease.claim, reason or "no reason given", retryable=retryable)

    def wake(self, task_id: str, event: WakeEvent) -> bool:
        """Deliver a wake; whether it made the task claimable now. Early wakes are kept, repeats dropped."""
        return self.store.wake(task_id, event).made_ready

    def post(self, task_id: str, event: WakeEvent, key: str | None = None) -> Posted:
        """Deliver an item under a key of its own: a repeat is harmless."""
        return self.store.post(task_id, event, key)

    def requeue_stale(self) -> tuple[str, ...]:
        """Put tasks whose lease has lapsed back. Their ids."""
        return self.store.requeue_stale()

    def fire_due_timers(self, *, now: float | None = None) -> tuple[str, ...]:
        """Wake tasks whose timer is due, by the store's clock; by ``now`` where the store has no clock of its own.
        Their ids."""
        return self.store.fire_due_timers(now=now)
