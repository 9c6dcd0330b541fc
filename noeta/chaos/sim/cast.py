"""Who plays in a simulated execution: the tasks, what is said to them, the app of every worker, and what must come
of it. The scripted cast is here; a user's own agent is another (`app_cast.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from invariants.evidence import Foretold, JournalLine, LogEntry, ToolKind
from noeta.chaos.born import with_children
from noeta.chaos.evidence_reader import journal_line, tool_kinds
from noeta.chaos.schedule import Play
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.scripts import RETRY_ATTEMPTS, Case
from noeta.chaos.sim.world import SimWorld
from noeta.core.fold import TaskState
from noeta.core.retry import RetryPolicy
from noeta.core.runner import Engine
from noeta.core.store import NewTask, Store
from noeta.plugins import waiting_tools
from noeta.plugins.cron import CronCreate, CronDelete
from noeta.plugins.shell import shell_tools
from noeta.runtime.app import WorkerApp
from scripted_model.app import engine_for, make_engine
from scripted_model.journal import Effect, JournalBook, MemoryJournal
from scripted_model.workload import AGENT, ScheduledMessage


class Cast(Protocol):
    """What one execution plays. Made anew for each: whatever its tools did outside of the store ends with it."""

    @property
    def play(self) -> Play:
        """Itself as data, without what the execution adds (workers, turns)."""
        ...

    @property
    def messages(self) -> Sequence[ScheduledMessage]:
        """What a client says, in the order of each task."""
        ...

    @property
    def tools(self) -> Mapping[str, ToolKind]:
        """What the laws must know of the tools."""
        ...

    @property
    def book(self) -> JournalBook:
        """Where tools and background shells write."""
        ...

    def new_tasks(self) -> Sequence[NewTask]:
        """The tasks to create."""
        ...

    def app(self, process: SimProcess, world: SimWorld, die: Callable[[], None]) -> WorkerApp:
        """The app of a new worker process. ``die`` ends the process and does not return."""
        ...

    def journal(self) -> Iterable[JournalLine]:
        """The effects that tools had."""
        ...

    def foretold(self, log: Iterable[LogEntry]) -> Iterable[Foretold]:
        """What must come of the tasks, where that is known beforehand, and of those that ``log`` shows were born."""
        ...

    def findings(self, store: Store) -> Sequence[str]:
        """What is wrong beside the laws, each as ``law: words``."""
        ...


class NotResolved(RuntimeError):
    """The engine of a task cannot be had, as the case wants it."""


@dataclass(slots=True)
class ScriptedCast:
    """Implements ``Cast`` for scripted tasks: their journal, and the outcomes their scripts foretell."""

    case: Case
    book: JournalBook = field(default_factory=JournalBook)
    _unresolved: Counter[str] = field(default_factory=Counter)

    @property
    def play(self) -> Play:
        return Play(self.case.name, 1, self.case.tasks, self.case.messages, unresolved=self.case.unresolved)

    @property
    def messages(self) -> Sequence[ScheduledMessage]:
        return self.case.messages

    @property
    def tools(self) -> Mapping[str, ToolKind]:
        return tool_kinds()

    def new_tasks(self) -> Sequence[NewTask]:
        return [
            NewTask(task.id, AGENT, task.goal, interactive=task.interactive, delay_seconds=task.delay_seconds)
            for task in self.case.tasks
        ]

    def app(self, process: SimProcess, world: SimWorld, die: Callable[[], None]) -> WorkerApp:
        journal = CutJournal(
            MemoryJournal(self.book, process.name, lambda: process.scheduler.now / 1e6, process.number), process
        )
        engine = make_engine(
            journal,
            retry=RetryPolicy(max_attempts=RETRY_ATTEMPTS),
            die=die,
            pause=lambda seconds: world.event().wait(seconds),
            more_tools=(*waiting_tools().values(), *shell_tools().values(), CronCreate(), CronDelete()),
        )
        return WorkerApp(lambda task: self._resolve(task, engine))

    def journal(self) -> Iterable[JournalLine]:
        return map(journal_line, self.book.effects)

    def foretold(self, log: Iterable[LogEntry]) -> Iterable[Foretold]:
        return with_children(self.case.foretold(), log, retry_attempts=RETRY_ATTEMPTS)

    def findings(self, store: Store) -> Sequence[str]:
        return ()

    def _resolve(self, task: TaskState, engine: Engine) -> Engine:
        if self._unresolved[task.task_id] < self.case.unresolved:
            self._unresolved[task.task_id] += 1
            raise NotResolved(f"there is no engine for {task.task_id} yet")
        return engine_for(task, engine)


@dataclass(frozen=True, slots=True)
class CutJournal:
    """Implements ``scripted_model.journal.Journal``: a process's journal, which is as dead as its process."""

    inner: MemoryJournal
    process: SimProcess

    def effect(self, *, task: str, call: str, tool: str, tag: str, start: int) -> None:
        self.process.check()
        self.inner.effect(task=task, call=call, tool=tool, tag=tag, start=start)

    def death(self, *, task: str, call: str, start: int) -> None:
        self.process.check()
        self.inner.death(task=task, call=call, start=start)

    def find(self, task: str, call: str) -> Effect | None:
        self.process.check()
        return self.inner.find(task, call)
