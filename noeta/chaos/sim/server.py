"""The one store that all simulated processes share, seen from its own side.

It knows who asks, so it can tell what no law can: that a dead process still reached it. It samples the rows that
a call touched, wakes clients that wait for a change, and notices when nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from invariants.evidence import FinalRow, LogEntry, Sample
from invariants.kinship import ORDER_KEY
from noeta.backends.stores.around import Call
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.schedule import Kind
from noeta.chaos.sim.scheduler import WALL_START, Scheduler, SimProcess
from noeta.chaos.sim.world import ProcessStore, SimEvent
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable
from noeta.core.events import numbers_taken
from noeta.core.ids import MICROS_PER_SECOND, sha256_text
from noeta.core.limits import PAGE_ENTRIES_MAX
from noeta.core.store import Claim, Claims, LogPage, Store
from noeta.core.task import Status, TaskRow
from noeta.core.wake import find_wake

T = TypeVar("T")
MakeStore = Callable[[Callable[[], float]], Store]
"""Makes an empty store that decides by this clock, in seconds since the Unix epoch."""

_PAST_EVERY_LOG: Final = 1_000_000_000
"""A seq beyond the end of any log: reading after it gives the row and the inbox alone."""


class Server:
    """A store on the scheduler's clock (the memory store, unless another is given), and what can be seen of it from
    inside. Every row that a call touched is a line of the trace: equal traces are equal answers."""

    def __init__(self, scheduler: Scheduler, make_store: MakeStore = MemoryStore) -> None:
        self.store = make_store(lambda: (WALL_START + scheduler.now) / MICROS_PER_SECOND)
        self.samples: list[Sample] = []
        self.leaks: list[str] = []
        self.on_empty_claim: Callable[[SimProcess], None] = lambda process: None
        self.on_work: Callable[[SimProcess], None] = lambda process: None
        self.on_grant: Callable[[SimProcess, Sequence[Claim]], None] = lambda process, claims: None
        self._scheduler = scheduler
        self._watchers: list[SimEvent] = []
        self._spoiled: dict[str, tuple[Kind, float]] = {}
        self._holders: dict[tuple[str, int], str] = {}

    @property
    def now(self) -> int:
        """The store's time, in microseconds since the Unix epoch."""
        return WALL_START + self._scheduler.now

    def handle(self, process: SimProcess) -> ProcessStore:
        """This process's way to the store."""
        return ProcessStore(self.store, process, self.serve)

    def serve(self, process: SimProcess, call: Call, do: Callable[[], T]) -> T:
        """One call of a process. A dead one should not get here."""
        if not process.alive:
            leak = f"{process.name} is dead and called {call.verb}"
            self.leaks.append(leak)
            self._scheduler.note(process.name, "LEAK", {"verb": call.verb})
        caller = self._scheduler.running
        spoiled = self._spoiled.pop(caller.key, None) if caller is not None else None
        if spoiled is None:
            return self._answer(process, call, do)
        kind, seconds = spoiled
        match kind:
            case Kind.SLOW:
                return self._slowly(process, call, do, seconds)
            case Kind.STORE_UNAVAILABLE:
                raise StoreUnavailable(f"{call.verb} was not sent")
            case Kind.UNKNOWN_LANDED:
                self._answer(process, call, do)
            case Kind.UNKNOWN_LATER:
                self._scheduler.at(seconds, lambda: self._land(process, call, do))
            case _:
                assert kind is Kind.UNKNOWN_LOST, kind
        raise CommitUnknown(f"the connection broke in the middle of {call.verb}")

    def spoil(self, kind: Kind, seconds: float) -> None:
        """Spoil the next call of the activity that runs."""
        assert self._scheduler.running is not None
        self._spoiled[self._scheduler.running.key] = (kind, seconds)

    def _answer(self, process: SimProcess, call: Call, do: Callable[[], T]) -> T:
        answer = do()
        if call.writes:
            self._saw(process, call, answer)
        return answer

    def _slowly(self, process: SimProcess, call: Call, do: Callable[[], T], seconds: float) -> T:
        """A call that is on its way for so long. It arrives, whatever becomes of its sender meanwhile."""
        answers: list[T | NoetaError] = []
        arrived = SimEvent(process)

        def arrive() -> None:
            try:
                answers.append(self._answer(process, call, do))
            except NoetaError as error:
                answers.append(error)
            arrived.fire()

        self._scheduler.at(seconds, arrive)
        arrived.block()
        (answer,) = answers
        if isinstance(answer, NoetaError):
            raise answer
        return answer

    def _land(self, process: SimProcess, call: Call, do: Callable[[], object]) -> None:
        """A call arrives after its sender gave it up. Whatever it is answered, nobody hears."""
        try:
            self._answer(process, call, do)
        except NoetaError as error:
            self._scheduler.note(process.name, f"{call.verb} refused late", {"code": error.code})
        else:
            self._scheduler.note(process.name, f"{call.verb} landed late", {})

    def watch(self, event: SimEvent) -> None:
        """Set this event after the next write."""
        self._watchers.append(event)

    def rests(self) -> bool:
        """Whether no worker has anything to do: every task ended, or waits with an empty inbox and no timer."""
        for row in self.rows():
            if row.status is Status.TERMINAL:
                continue
            if row.status is not Status.SUSPENDED or row.kept or row.ready_at is not None:
                return False
            unread = [(item.number, item.item) for item in self.inbox(row.id).unread]
            if row.wake_on is not None and find_wake(row.wake_on, unread) is not None:
                return False
        return True

    def rows(self) -> tuple[TaskRow, ...]:
        """Every row, as nobody's call: what a person sees on a screen."""
        return self.store.tasks(limit=PAGE_ENTRIES_MAX)

    def row(self, task_id: str) -> TaskRow:
        """One of them."""
        return self.store.task(task_id)

    def inbox(self, task_id: str) -> LogPage:
        """The row and the unread items, without entries."""
        return self.store.read(task_id, _PAST_EVERY_LOG, limit=1)

    def logs(self) -> Iterable[LogEntry]:
        """Every entry of every task."""
        for row in self.rows():
            for entry in self.store.read(row.id, limit=PAGE_ENTRIES_MAX).entries:
                yield LogEntry(row.id, entry.seq, entry.epoch, entry.at, entry.event, sha256_text(entry.body))

    def finals(self) -> Iterable[FinalRow]:
        """Every row at the end, with what its inbox holds and what its ending stamped."""
        for row in self.rows():
            page = self.inbox(row.id)
            stamped = self._stamped(page) if row.status is Status.TERMINAL else ()
            yield FinalRow(self.now, page.row, page.unread, stamped, page.inbox_seen, self._stamped_order(page))

    def held_by(self, process: SimProcess) -> Iterable[TaskRow]:
        """The rows a process holds right now. Its predecessor of the same name may hold others."""
        return [
            row
            for row in self.rows()
            if row.token is not None and self._holders.get((row.id, row.epoch)) == process.name
        ]

    def _stamped(self, page: LogPage) -> tuple[int, ...]:
        """The items that the ending of a task stamped unread."""
        if isinstance(self.store, MemoryStore):
            items = self.store._tasks[page.row.id].items
            return tuple(item.number for item in items if item.unread_at is not None)
        # The contract has no read for stamps: what nobody took was stamped.
        entries = self.store.read(page.row.id, limit=PAGE_ENTRIES_MAX).entries
        taken = {number for entry in entries for number in numbers_taken(entry.event)}
        return tuple(number for number in range(1, page.row.inbox_seq + 1) if number not in taken)

    def _stamped_order(self, page: LogPage) -> bool | None:
        """Whether the order of an ended parent is among them; None: not to be known without keys."""
        if not isinstance(self.store, MemoryStore):
            return None
        items = self.store._tasks[page.row.id].items
        return any(item.key == ORDER_KEY and item.unread_at is not None for item in items)

    def _saw(self, process: SimProcess, call: Call, answer: object) -> None:
        touched: tuple[str, ...] = () if call.task_id is None else (call.task_id,)
        if isinstance(answer, Claims):
            touched = (*(claim.task_id for claim in answer.claims), *answer.stale_requeued)
            self._holders.update({(claim.task_id, claim.epoch): process.name for claim in answer.claims})
            if answer.claims:
                self.on_grant(process, answer.claims)
            else:
                self.on_empty_claim(process)
        elif call.verb in ("fire_due_timers", "requeue_stale") and isinstance(answer, tuple):
            touched = answer
        if touched and call.verb != "renew":
            self.on_work(process)
        for task_id in touched:
            page = self.inbox(task_id)
            self._scheduler.note("store", task_id, _told(page))
            self.samples.append(FinalRow(self.now, page.row, page.unread).as_sample())
        for event in self._watchers:
            event.fire()
        self._watchers.clear()


def _told(page: LogPage) -> dict[str, object]:
    """A row and its inbox as facts of the trace."""
    row = page.row
    return {
        "is": f"{'kept ' if row.kept else ''}{row.status.value}",
        "epoch": row.epoch,
        "token": row.token,
        "seq": row.last_seq,
        "inbox": f"{row.inbox_seq}/{len(page.unread)}",
        "ready": row.ready_at,
        "lease": row.lease_until,
        "waits": f"{row.wake_key}/{row.wake_missing}",
        "bounds": f"{row.takeovers}/{row.fail_attempts}",
    }
