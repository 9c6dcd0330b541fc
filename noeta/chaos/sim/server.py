"""The one store that all simulated processes share, seen from its own side.

It knows who asks, so it can tell what no law can: that a dead process still reached it. It samples the rows that
a call touched, wakes clients that wait for a change, and notices when nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from invariants.evidence import FinalRow, LogEntry, Sample
from noeta.backends.stores.around import Call
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.sim.scheduler import WALL_START, Scheduler, SimProcess
from noeta.chaos.sim.world import ProcessStore, SimEvent
from noeta.core.errors import CommitUnknown, NoetaError, StoreUnavailable
from noeta.core.ids import MICROS_PER_SECOND, sha256_text
from noeta.core.limits import PAGE_ENTRIES_MAX
from noeta.core.store import Claim, Claims, LogPage
from noeta.core.task import Status, TaskRow

T = TypeVar("T")

_PAST_EVERY_LOG: Final = 1_000_000_000
"""A seq beyond the end of any log: reading after it gives the row and the inbox alone."""


class Server:
    """A memory store on the scheduler's clock, and what can be seen of it from inside."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.store = MemoryStore(lambda: (WALL_START + scheduler.now) / MICROS_PER_SECOND)
        self.samples: list[Sample] = []
        self.leaks: list[str] = []
        self.on_empty_claim: Callable[[SimProcess], None] = lambda process: None
        self.on_work: Callable[[SimProcess], None] = lambda process: None
        self.on_grant: Callable[[SimProcess, Sequence[Claim]], None] = lambda process, claims: None
        self._scheduler = scheduler
        self._watchers: list[SimEvent] = []
        self._spoiled: dict[str, tuple[str, float]] = {}

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
        spoiled = self._spoiled.pop(process.name, None)
        if spoiled is None:
            return self._answer(process, call, do)
        outcome, later_seconds = spoiled
        if outcome == "unavailable":
            raise StoreUnavailable(f"{call.verb} was not sent")
        if outcome == "unknown_landed":
            self._answer(process, call, do)
        if outcome == "unknown_later":
            self._scheduler.at(later_seconds, lambda: self._land(process, call, do))
        raise CommitUnknown(f"the connection broke in the middle of {call.verb}")

    def spoil(self, process: SimProcess, outcome: str, later_seconds: float) -> None:
        """Spoil this process's next call."""
        self._spoiled[process.name] = (outcome, later_seconds)

    def _answer(self, process: SimProcess, call: Call, do: Callable[[], T]) -> T:
        answer = do()
        if call.writes:
            self._saw(process, call, answer)
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
        for row in self.store.tasks():
            if row.status is Status.TERMINAL:
                continue
            if row.status is not Status.SUSPENDED or row.kept or row.ready_at is not None or self.inbox(row.id).unread:
                return False
        return True

    def inbox(self, task_id: str) -> LogPage:
        """The row and the unread items, without entries."""
        return self.store.read(task_id, _PAST_EVERY_LOG, limit=1)

    def logs(self) -> Iterable[LogEntry]:
        """Every entry of every task."""
        for row in self.store.tasks():
            for entry in self.store.read(row.id, limit=PAGE_ENTRIES_MAX).entries:
                yield LogEntry(row.id, entry.seq, entry.epoch, entry.at, entry.event, sha256_text(entry.body))

    def finals(self) -> Iterable[FinalRow]:
        """Every row at the end, with what its inbox holds and what its ending stamped."""
        for row in self.store.tasks():
            page = self.inbox(row.id)
            # The contract has no read for stamps; the reference store keeps them with its items.
            items = self.store._tasks[row.id].items
            stamped = tuple(item.number for item in items if item.unread_at is not None)
            yield FinalRow(self.now, page.row, page.unread, stamped, page.inbox_seen)

    def held_by(self, worker: str) -> Iterable[TaskRow]:
        """The rows a worker holds right now."""
        return [row for row in self.store.tasks() if row.worker == worker]

    def _saw(self, process: SimProcess, call: Call, answer: object) -> None:
        touched: tuple[str, ...] = () if call.task_id is None else (call.task_id,)
        if isinstance(answer, Claims):
            touched = (*(claim.task_id for claim in answer.claims), *answer.stale_requeued)
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
            self.samples.append(FinalRow(self.now, page.row, page.unread).as_sample())
        for event in self._watchers:
            event.fire()
        self._watchers.clear()
