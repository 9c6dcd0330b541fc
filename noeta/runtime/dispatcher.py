"""The public face of claims and wakes: what a worker loop asks of a store, in the words of the worker-loop page."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from noeta.core.errors import BadInput, CommitUnknown, InvalidLease, StoreUnavailable
from noeta.core.events import TaskWoken
from noeta.core.runner.desk import Desk
from noeta.core.runner.lease import Held
from noeta.core.store import Claim, Claims, Failed, Posted, Resumed, Store, claim_from_row
from noeta.core.task import Status
from noeta.core.wake import (
    CANCEL,
    CLOSE,
    NEXT_GOAL,
    ControlReceived,
    HumanResponseReceived,
    Item,
    WakeEvent,
    find_wake,
)
from noeta.core.world import Event, World
from noeta.runtime.threads import ThreadWorld

ADOPT_PAUSE_SECONDS = 6.0
"""Above the store's statement timeout: a claim still under way has ended by then."""


class ClaimUnknown(StoreUnavailable):
    """Nobody can tell whether a claim was made: if it was, it runs out."""


WAKE_LOOK_BACK = 1_000
"""How far back from its end a log is searched for the wake that a caller says it consumed."""


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
        has come. Reads the log and the inbox. Keeps: wake-once."""
        desk = Desk(self._store, self.held, lambda reason, seq: None)
        desk.load()
        if desk.state.wake_on is None:
            return None
        found = find_wake(desk.state.wake_on, [(item.number, item.item) for item in desk.unread])
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
        self._orders: Random | None = None

    def over(self, world: World, store: Store) -> Dispatcher:
        """The same queues, through another handle on the store."""
        return Dispatcher(store, queues=self.queues, world=world)

    def claim(self, *, worker_id: str, lease_seconds: float, stop: Event | None = None) -> tuple[Claims, Lease | None]:
        """Claim one task; what the call did, and the lease if there is one. ``stop`` ends the wait for the outcome
        of an unknown claim.

        Raises:
            StoreUnavailable: nothing was claimed; ClaimUnknown: nobody can tell.
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
        if claims.now:  # an adopted claim does not say
            held.saw_store_time(claims.now)
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
        raise ClaimUnknown(f"the outcome of a claim is unknown, and nothing holds its token: {error}")

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
        lease.held.saw_store_time(renewal.now)
        lease.held.inbox_seq = max(lease.held.inbox_seq, renewal.inbox_seq)
        if renewal.ordered:
            lease.held.order()
        return renewal.lease_until

    def resume(self, lease: Lease) -> Resumed:
        """Go on with a task whose claim was kept while it waited: it runs again under this lease. A timer that is due
        is in the inbox by then. Repeat an unknown outcome as it is: it is the same claim. Keeps: timers-once.

        Raises:
            InvalidLease: it was lost, or the store says that it is over.
            CommitUnknown, StoreUnavailable.
        """
        lease.held.check()
        try:
            resumed = self.store.resume(lease.claim)
        except InvalidLease:
            lease.held.cut("the store says that it was taken over or has lapsed")
            raise
        lease.held.inbox_seq = max(lease.held.inbox_seq, resumed.inbox_seq)
        lease.held.saw_store_time(resumed.now)
        return resumed

    def release(self, lease: Lease, *, consumed_wake_event: WakeEvent | None = None) -> Status:
        """Give the task back at once; it becomes pending.

        ``consumed_wake_event``: the wake the caller has dealt with. ``TaskWoken`` took it when it was written, so that
        there is nothing left to mark: it is only compared with what the log says. Keeps: wake-once.

        Raises:
            BadInput: the last ``TaskWoken`` took another event; nothing changed.
            InvalidLease.
        """
        if consumed_wake_event is not None:
            self._check_consumed(lease.task_id, consumed_wake_event)
        return self.store.release(lease.claim)

    def _check_consumed(self, task_id: str, event: WakeEvent) -> None:
        page = self.store.read(task_id, after=max(0, self.store.task(task_id).last_seq - WAKE_LOOK_BACK))
        woken = [entry.event.event for entry in page.entries if isinstance(entry.event, TaskWoken)]
        if not woken or woken[-1] != event:
            found = f"the last one is {woken[-1]}" if woken else "there is none"
            raise BadInput("consumed_wake_event", f"no TaskWoken of this turn took {event}: {found}")

    def fail(self, lease: Lease, *, retryable: bool = True, reason: str | None = None) -> Failed:
        """An error escaped the step: bounded retry, then terminal with the reason in the log. Keeps: bounded."""
        return self.store.fail(lease.claim, reason or "no reason given", retryable=retryable)

    def wake(self, task_id: str, event: WakeEvent) -> bool:
        """Deliver a wake; whether it made the task claimable now. Early wakes are kept, repeats dropped."""
        return self.store.wake(task_id, event).made_ready

    def post(self, task_id: str, event: Item, key: str | None = None) -> Posted:
        """Deliver an item under a key of its own: a repeat is harmless."""
        return self.store.post(task_id, event, key)

    def say(self, task_id: str, text: str, *, message_id: str, handle: str = NEXT_GOAL) -> Posted:
        """What a person says to a task, or answers to its question with this handle. ``message_id`` tells a repeat.

        Raises:
            UnknownTask; BadInput: the text cannot be kept as it is.
        """
        return self.store.post(task_id, HumanResponseReceived(handle, text), f"human:{handle}:{message_id}")

    def cancel(self, task_id: str, reason: str = "", *, key: str | None = None) -> Posted:
        """End a task, from any process. One that nobody runs has ended when this returns; a running one hears of it
        with its worker's next renewal. Repeat an unknown outcome with the same key. Keeps: terminal-is-final.

        Raises:
            UnknownTask.
        """
        return self.store.post(task_id, ControlReceived(CANCEL, reason), key or f"cancel:{self._unique()}")

    def close(self, task_id: str, reason: str = "", *, key: str | None = None) -> Posted:
        """Stop the turn of a task that can be spoken to: it rests until somebody says something. A one-shot task ends.

        Raises:
            UnknownTask.
        """
        return self.store.post(task_id, ControlReceived(CLOSE, reason), key or f"close:{self._unique()}")

    def _unique(self) -> str:
        if self._orders is None:
            self._orders = self.world.random("orders")
        return f"{self._orders.getrandbits(64):016x}"

    def requeue_stale(self) -> tuple[str, ...]:
        """Put tasks whose lease has lapsed back. Their ids."""
        return self.store.requeue_stale()

    def fire_due_timers(self, *, now: float | None = None) -> tuple[str, ...]:
        """Wake tasks whose timer is due, by the store's clock; by ``now`` where the store has no clock of its own.
        Their ids."""
        return self.store.fire_due_timers(now=now)
