"""What the tests of the contract stand on: a factory, a store with a clock, and short ways into each state.

A store author gives a ``StoreFactory`` and nothing else. Tests never wait for real time: they advance the clock
that the store decides by.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import pytest

from noeta.core import ids
from noeta.core.events import Ending, Event, TaskCompleted, TaskSuspended
from noeta.core.store import (
    Appended,
    Child,
    Claim,
    Commit,
    Content,
    Continue,
    End,
    LogPage,
    NewTask,
    Next,
    Post,
    Posted,
    Store,
    Suspend,
    UnreadItem,
)
from noeta.core.task import Shape, TaskRow
from noeta.core.wake import CANCEL, ControlReceived, HumanResponseReceived, Item, TimerFired, WakeCondition

LEASE: Final = 60.0
"""Seconds of a lease in these tests: long beside what a test advances, unless it says otherwise."""

LEASE_MICROS: Final = ids.micros(LEASE)
ONE_MICRO: Final = 1e-6

DEADLINE_SECONDS: Final = 60.0
"""How long a race may take on a loaded machine before the test says that it hangs."""

A_MESSAGE: Final = HumanResponseReceived(text="hello")
"""Satisfies ``A_WAIT``."""

A_WAIT: Final = HumanResponseReceived()

DONE: Final = TaskCompleted("done")

T = TypeVar("T")


class Clock(Protocol):
    """The clock that the store under test decides by; it moves only when told."""

    def now(self) -> float:
        """Seconds since the epoch, exact to the microsecond."""
        ...

    def advance(self, seconds: float) -> None:
        """Move it on, for every handle."""
        ...


class StoreFactory(Protocol):
    """All a store author gives."""

    def make(self) -> Store:
        """A handle on an empty store: nothing of a former ``make`` is left."""
        ...

    def another(self) -> Store:
        """One more handle on the data of the last ``make``, as another process would have."""
        ...

    def clock(self) -> Clock:
        """The clock of every store made here."""
        ...

    def close(self) -> None:
        """Close the handles and remove what was made."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """A store under test, its clock, and ways into each shape of the table."""

    store: Store
    clock: Clock
    another: Callable[[], Store]

    @property
    def now(self) -> int:
        """The store's instant in microseconds."""
        return ids.micros(self.clock.now())

    # -- ways into a state ---------------------------------------------------------------------------------

    def create(
        self, id: str = "t", *, queue: str = "default", interactive: bool = False, delay_seconds: float = 0.0
    ) -> str:
        self.store.create(NewTask(id, "agent", f"goal of {id}", queue, interactive, delay_seconds))
        return id

    def claim(self, worker: str = "w1", *, lease: float = LEASE, queues: Sequence[str] | None = None) -> Claim:
        """Take the one task that is claimable."""
        taken = self.store.claim(worker, queues, lease)
        assert len(taken.claims) == 1, taken
        return taken.claims[0]

    def claim_all(self, count: int, worker: str = "w1") -> list[Claim]:
        """Take so many tasks, in as many calls as their answers need."""
        claims: list[Claim] = []
        while taken := self.store.claim(worker, None, LEASE, limit=100).claims:
            claims += taken
        assert len(claims) == count, len(claims)
        return claims

    def nothing_claimable(self) -> bool:
        return self.store.claim("nobody", None, LEASE).claims == ()

    def running(self, id: str = "t", *, worker: str = "w1", queue: str = "default", lease: float = LEASE) -> Claim:
        """A new task, claimed. Nothing else may be claimable."""
        self.create(id, queue=queue)
        claim = self.claim(worker, lease=lease)
        assert claim.task_id == id, claim
        return claim

    def suspend(
        self, claim: Claim, wake_on: WakeCondition = A_WAIT, *, keep: bool = False, inbox_seen: int | None = None
    ) -> Appended:
        """Write ``TaskSuspended`` and wait, knowing of the whole inbox unless told otherwise."""
        return self.append(claim, TaskSuspended(wake_on), next=Suspend(wake_on, keep), inbox_seen=inbox_seen)

    def suspended(self, id: str = "t", wake_on: WakeCondition = A_WAIT, *, keep: bool = False) -> Claim:
        """A task that waits; the claim that made it wait."""
        claim = self.running(id)
        self.suspend(claim, wake_on, keep=keep)
        return claim

    def ended(self, id: str = "t", entry: Ending = DONE) -> Claim:
        claim = self.running(id)
        self.append(claim, next=End(entry))
        return claim

    def in_shape(self, shape: Shape, id: str = "t") -> Claim | None:
        """A task in this shape of the table, and the last claim it was under. Waits are for a timer that is due
        in ten seconds."""
        match shape:
            case Shape.PENDING:
                self.create(id)
                return None
            case Shape.RUNNING:
                return self.running(id)
            case Shape.SUSPENDED:
                return self.suspended(id, self.timer(10))
            case Shape.KEPT:
                return self.suspended(id, self.timer(10), keep=True)
            case Shape.TERMINAL:
                return self.ended(id)

    def timer(self, in_seconds: float) -> TimerFired:
        return TimerFired(self.clock.now() + in_seconds)

    # -- what a worker does --------------------------------------------------------------------------------

    def append(
        self,
        claim: Claim,
        *entries: Event,
        next: Next | None = None,
        expected_seq: int | None = None,
        inbox_seen: int | None = None,
        children: tuple[Child, ...] = (),
        posts: tuple[Post, ...] = (),
        contents: tuple[Content, ...] = (),
    ) -> Appended:
        """A commit that, unless told otherwise, knows the log and the inbox as they are."""
        row = self.row(claim.task_id)
        commit = Commit(
            entries,
            Continue() if next is None else next,
            row.inbox_seq if inbox_seen is None else inbox_seen,
            children,
            posts,
            contents,
        )
        return self.store.append(claim, row.last_seq if expected_seq is None else expected_seq, commit)

    # -- what anybody does ---------------------------------------------------------------------------------

    def cancel(self, id: str = "t", key: str | None = None, *, reason: str = "enough") -> Posted:
        return self.store.post(id, ControlReceived(CANCEL, reason), key)

    # -- what is there -------------------------------------------------------------------------------------

    def row(self, id: str = "t") -> TaskRow:
        return self.store.task(id)

    def page(self, id: str = "t") -> LogPage:
        return self.store.read(id)

    def events(self, id: str = "t") -> list[Event]:
        return [entry.event for entry in self.page(id).entries]

    def endings(self, id: str = "t") -> list[Ending]:
        """The terminal entries of its log: never more than one."""
        return [event for event in self.events(id) if isinstance(event, Ending)]

    def unread(self, id: str = "t") -> tuple[UnreadItem, ...]:
        return self.page(id).unread

    def items(self, id: str = "t") -> list[Item]:
        return [unread.item for unread in self.unread(id)]

    def picture(self) -> dict[str, LogPage]:
        """All that can be seen of every task."""
        return {row.id: self.store.read(row.id) for row in self.store.tasks(limit=10_000)}

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Whatever happens inside: no row, entry or item is different afterwards."""
        before = self.picture()
        yield
        assert self.picture() == before


class ContractTests:
    """Base of every part of the suite: subclasses with tests are mixed into one class by ``StoreContract``."""

    factory: Callable[[], StoreFactory] | None = None

    @pytest.fixture
    def store_factory(self) -> Iterator[StoreFactory]:
        """Override it when making a factory is dear: it may then be shared, ``make`` empties the store."""
        make = type(self).factory
        assert make is not None, "give the class a factory, or override the fixture store_factory"
        made = make()
        yield made
        made.close()

    @pytest.fixture
    def stage(self, store_factory: StoreFactory) -> Stage:
        return Stage(store_factory.make(), store_factory.clock(), store_factory.another)


def at_once(*works: Callable[[], T]) -> list[T | Exception]:
    """Run all of them at the same time, each on a thread; what each answered or raised, in order."""
    barrier = threading.Barrier(len(works), timeout=DEADLINE_SECONDS)
    answers: list[T | Exception | None] = [None] * len(works)

    def body(place: int, work: Callable[[], T]) -> None:
        barrier.wait()
        try:
            answers[place] = work()
        except Exception as error:
            answers[place] = error

    threads = [threading.Thread(target=body, args=(i, work), daemon=True) for i, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive(), f"a call did not return within {DEADLINE_SECONDS:g} s"
    return [answer for answer in answers if answer is not None]
