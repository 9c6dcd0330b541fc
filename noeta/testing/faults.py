"""A store that fails as a network does: faults by verb and occurrence, as data.

::

    store = FaultyStore(inner, [Fault(Kind.LANDED, "append", 3)])   # the third append lands, its answer is lost

Deterministic: what fires depends on the order of the calls alone, and each fault fires at most ``times`` times.
``fired`` says what did, ``unfired()`` what did not: a fault that never fired tested nothing. Any thread may call.

A write that *lands later* is executed after so many further calls, or when the test releases it: between its
answer and its landing anybody may act, as when a packet lies in a buffer. Keeps: acked-stays (its test bench).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from noeta.backends.stores.around import READ_VERBS, WRITE_VERBS, AroundStore, Call
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable
from noeta.core.store import Store

T = TypeVar("T")


class Kind(Enum):
    """What happens to the call."""

    UNAVAILABLE = "unavailable"
    """``StoreUnavailable``: nothing was sent."""
    LANDED = "landed"
    """``CommitUnknown``: the write landed, its answer was lost."""
    NOT_LANDED = "not landed"
    """``CommitUnknown``: the write never arrived."""
    LANDS_LATER = "lands later"
    """``CommitUnknown``: the write has not arrived yet."""
    SLOW = "slow"
    """The answer takes its time; nothing else is wrong."""


_UNKNOWN: Final = frozenset({Kind.LANDED, Kind.NOT_LANDED, Kind.LANDS_LATER})


@dataclass(frozen=True, slots=True)
class Fault:
    """Strikes calls number ``occurrence`` .. ``occurrence + times - 1`` (from 1) of ``verb``, counted among the
    calls for ``task_id`` if one is named.

    ``later_calls``: a late write lands before the n-th further call of any verb; None: only when released.
    ``seconds``: how slow.
    """

    kind: Kind
    verb: str
    occurrence: int = 1
    times: int = 1
    task_id: str | None = None
    later_calls: int | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.verb not in (*WRITE_VERBS, *READ_VERBS):
            raise ValueError(f"verb: expected one of {', '.join((*WRITE_VERBS, *READ_VERBS))}, found {self.verb!r}")
        if self.kind in _UNKNOWN and self.verb in READ_VERBS:
            raise ValueError(f"kind: a read has no unknown outcome, found {self.kind.value!r} on {self.verb!r}")
        if self.occurrence < 1 or self.times < 1:
            raise ValueError(f"occurrence and times: at least 1, found {self.occurrence} and {self.times}")
        if self.later_calls is not None and (self.kind is not Kind.LANDS_LATER or self.later_calls < 1):
            raise ValueError(f"later_calls: at least 1 and for late writes only, found {self.later_calls}")
        if (self.kind is Kind.SLOW) != (self.seconds > 0):
            raise ValueError(f"seconds: above 0 for slow calls and for nothing else, found {self.seconds}")


@dataclass(frozen=True, slots=True)
class Fired:
    """One strike: which fault, on which call of the store (from 1, of any verb)."""

    fault: Fault
    call_number: int
    task_id: str | None


@dataclass(frozen=True, slots=True)
class Landing:
    """What became of a late write: it landed, or the store refused it (``refusal``)."""

    fault: Fault
    refusal: NoetaError | None


@dataclass(slots=True)
class _Late:
    fault: Fault
    write: Callable[[], object]
    calls_left: int | None


@dataclass(slots=True)
class _Plan:
    fault: Fault
    seen: int = 0
    strikes: int = 0

    def strikes_now(self, call: Call) -> bool:
        if self.fault.verb != call.verb or self.fault.task_id not in (None, call.task_id):
            return False
        self.seen += 1
        return 0 <= self.seen - self.fault.occurrence < self.fault.times


@dataclass(slots=True)
class _Book:
    calls: int = 0
    verbs: Counter[str] = field(default_factory=Counter)
    plans: list[_Plan] = field(default_factory=list)
    late: list[_Late] = field(default_factory=list)


class FaultyStore(AroundStore):
    """Implements ``noeta.core.store.Store`` over ``inner``, with these faults.

    ``sleep`` is how a slow call takes its time; without one, a slow fault is refused. The first fault that
    strikes a call wins; the others count it all the same.
    """

    def __init__(
        self, inner: Store, faults: Iterable[Fault] = (), *, sleep: Callable[[float], object] | None = None
    ) -> None:
        super().__init__(inner)
        self._sleep = sleep
        self._book = _Book()
        self._lock = threading.Lock()
        self.fired: list[Fired] = []
        self.landings: list[Landing] = []
        for fault in faults:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """One more fault; its occurrences are counted from now on."""
        if fault.kind is Kind.SLOW and self._sleep is None:
            raise ValueError("sleep: a slow fault needs a way to wait")
        with self._lock:
            self._book.plans.append(_Plan(fault))

    def unfired(self) -> tuple[Fault, ...]:
        """Faults that have not struck as often as they should: nothing was proved by them."""
        with self._lock:
            return tuple(plan.fault for plan in self._book.plans if plan.strikes < plan.fault.times)

    def heal(self) -> None:
        """No fault strikes any more; what is under way still lands when it is due or released."""
        with self._lock:
            self._book.plans.clear()

    def calls(self, verb: str) -> int:
        """How often this verb was asked for, struck or not."""
        with self._lock:
            return self._book.verbs[verb]

    @property
    def under_way(self) -> int:
        """Late writes that have not arrived."""
        with self._lock:
            return len(self._book.late)

    def land_now(self) -> None:
        """Let every late write arrive, in the order they were sent."""
        with self._lock:
            arriving, self._book.late = self._book.late, []
        for late in arriving:
            self._land(late)

    def around(self, call: Call, do: Callable[[], T]) -> T:
        plan, number, arriving = self._note(call, do)
        for late in arriving:
            self._land(late)
        if plan is None:
            return do()
        fault = plan.fault
        match fault.kind:
            case Kind.UNAVAILABLE:
                raise StoreUnavailable(f"fault: {call.verb} was not sent")
            case Kind.SLOW:
                assert self._sleep is not None
                self._sleep(fault.seconds)
                return do()
            case Kind.LANDED:
                do()  # what the store refuses has not landed: its refusal is the answer, and no fault struck
                with self._lock:
                    self._struck(plan, number, call)
        raise CommitUnknown(f"fault: {call.verb} is {fault.kind.value}")

    def _note(self, call: Call, do: Callable[[], object]) -> tuple[_Plan | None, int, list[_Late]]:
        """Count this call; which fault strikes it, its number, and which late writes arrive before it."""
        with self._lock:
            book = self._book
            book.calls += 1
            book.verbs[call.verb] += 1
            for late in book.late:
                if late.calls_left is not None:
                    late.calls_left -= 1
            arriving = [late for late in book.late if late.calls_left == 0]
            book.late = [late for late in book.late if late.calls_left != 0]
            striking = [plan for plan in book.plans if plan.strikes_now(call)]
            if not striking:
                return None, book.calls, arriving
            plan = striking[0]
            if plan.fault.kind is not Kind.LANDED:
                self._struck(plan, book.calls, call)
            if plan.fault.kind is Kind.LANDS_LATER:
                book.late.append(_Late(plan.fault, do, plan.fault.later_calls))
            return plan, book.calls, arriving

    def _struck(self, plan: _Plan, number: int, call: Call) -> None:
        plan.strikes += 1
        self.fired.append(Fired(plan.fault, number, call.task_id))

    def _land(self, late: _Late) -> None:
        refusal: NoetaError | None = None
        try:
            late.write()
        except NoetaError as error:
            refusal = error  # nobody hears of it: whoever sent it has long gone on
        with self._lock:
            self.landings.append(Landing(late.fault, refusal))
