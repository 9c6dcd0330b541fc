"""A user's own agent as the cast of a simulated execution.

Its tools run as they are, whole, inside the simulated process: a kill cuts at yield points, which are around every
tool (named here) and wherever the tool itself calls ``ctx.point`` or ``ctx.wait``. Nobody foretells what must come of
it: that is what the user's check says, beside the laws that hold for every log.

Not handled: what a tool does without the context cannot be cut. A thread that it starts, a real network call or a
``finally`` are the real machine's, and have their effect although the simulated process is dead.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import noeta
from invariants.evidence import Foretold, JournalLine, LogEntry, ToolKind
from noeta.chaos.schedule import Play
from noeta.chaos.sim.scheduler import SimProcess
from noeta.chaos.sim.world import SimWorld
from noeta.core.errors import BadInput
from noeta.core.limits import PAGE_ENTRIES_MAX
from noeta.core.runner import Engine
from noeta.core.store import NewTask, Store
from noeta.core.tool import Recovers, Tool, ToolContext, ToolFlags, ToolOutcome
from noeta.runtime.app import WorkerApp
from noeta.testing.crash_app import CrashApp, Say
from noeta.testing.crash_outcome import Outcome, outcome_of
from scripted_model.journal import JournalBook
from scripted_model.workload import ScheduledMessage

_NOETA: Final = Path(noeta.__file__).parent


@dataclass(frozen=True, slots=True)
class UserApp:
    """Makes the cast of a user's app, anew for every execution. ``name``: ``MODULE:FUNCTION``, which is how a schedule
    names it. ``says``: there are messages, which a search may also post at any moment."""

    name: str
    make: Callable[[], CrashApp]
    says: bool = False

    def cast(self) -> UserCast:
        """Call the user's function.

        Raises:
            BadInput: it raises, or returns something else.
        """
        return UserCast(self.name, _made(self.name, self.make))


def load_crash_app(name: str) -> UserApp:
    """The app that ``module:function`` makes. The current directory can be imported from, as with ``python -m``.

    Raises:
        BadInput: there is no such module or function, it raises, or it returns no ``CrashApp``.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise BadInput("app", f"expected MODULE:FUNCTION, found {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module that is not there, or one that fails: the user's code either way
        raise BadInput("app", f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    make = getattr(module, function_name, None)
    if not callable(make):
        raise BadInput("app", f"module {module_name!r} has no function {function_name!r}")
    return UserApp(name, make, says=bool(_made(name, make).messages))


def named(make: Callable[[], CrashApp]) -> UserApp:
    """The app that this function makes, by the name under which a schedule finds it again.

    Raises:
        BadInput: another process could not find it by a name.
    """
    module_name, function_name = getattr(make, "__module__", ""), getattr(make, "__qualname__", "")
    name = f"{module_name}:{function_name}"
    found = getattr(sys.modules.get(module_name), function_name, None)
    if found is not make or module_name == "__main__":
        raise BadInput(
            "make",
            f"expected a function at the top of a module that can be imported, so that a schedule can name it, "
            f"found {name}",
        )
    return UserApp(name, make, says=bool(_made(name, make).messages))


@dataclass(slots=True)
class UserCast:
    """Implements ``noeta.chaos.sim.cast.Cast`` for a user's app. ``outcome``: what its tasks came to, once the
    execution is over."""

    name: str
    crash_app: CrashApp
    outcome: Outcome | None = None
    book: JournalBook = field(default_factory=JournalBook)
    _tools: dict[str, ToolKind] = field(default_factory=dict)
    _runs: list[JournalLine] = field(default_factory=list)

    @property
    def play(self) -> Play:
        return Play(self.name, app=self.name)

    @property
    def messages(self) -> Sequence[ScheduledMessage]:
        said: Counter[str] = Counter()
        messages: list[ScheduledMessage] = []
        for one in self.crash_app.messages:
            said[one.task] += 1
            messages.append(_message(one, said[one.task]))
        return messages

    @property
    def tools(self) -> Mapping[str, ToolKind]:
        return self._tools

    def new_tasks(self) -> Sequence[NewTask]:
        return [
            NewTask(task.id, task.agent, task.goal, interactive=task.interactive, delay_seconds=task.delay_seconds)
            for task in self.crash_app.tasks
        ]

    def app(self, process: SimProcess, world: SimWorld, die: Callable[[], None]) -> WorkerApp:
        try:
            made = self.crash_app.app()
        except Exception as error:
            raise BadInput("CrashApp.app", f"of {self.name} raised {type(error).__name__}: {error}") from error
        if isinstance(made, Engine):
            engine = self._pointed(made, process)
            return WorkerApp(lambda task: engine)
        if not isinstance(made, WorkerApp):
            raise BadInput(
                "CrashApp.app", f"of {self.name} returned {type(made).__name__}, expected Engine or WorkerApp"
            )
        if made.world is not None or made.around is not None:
            raise BadInput(
                "CrashApp.app",
                f"of {self.name} returned a WorkerApp with a world or around of its own: here both are the simulator's",
            )
        resolve = made.resolve
        return WorkerApp(lambda task: self._pointed(resolve(task), process))

    def journal(self) -> Iterable[JournalLine]:
        return self._runs

    def foretold(self, log: Iterable[LogEntry]) -> Iterable[Foretold]:
        return ()

    def findings(self, store: Store) -> Sequence[str]:
        """An effect that was had twice, and what the user's check says."""
        self.outcome = outcome_of({row.id: store.read(row.id, limit=PAGE_ENTRIES_MAX).entries for row in store.tasks()})
        return [*self._twice(self.outcome), *self._checked(self.outcome)]

    def _twice(self, outcome: Outcome) -> Iterable[str]:
        if self.crash_app.effects is None:
            return
        try:
            had = Counter(self.crash_app.effects())
        except Exception as error:  # the user's code: what it dies of is told
            yield f"effects: {_where(error)} raised {type(error).__name__}: {error}"
            return
        for effect, times in had.items():
            if times > 1:
                call = outcome.call(effect)
                of = "" if call is None else f" (call {call.id} of {call.task} to {call.tool}, {call.starts} starts)"
                yield f"effects: {effect}{of} was had {times} times"

    def _checked(self, outcome: Outcome) -> Iterable[str]:
        if self.crash_app.check is None:
            return
        try:
            self.crash_app.check(outcome)
        except AssertionError as error:
            words = f"{error}".partition("\n")[0]
            yield f"check: {_where(error)}" + (f": {words}" if words else "")
        except Exception as error:  # the user's code: a check that cannot be made is not passed
            yield f"check: {_where(error)} raised {type(error).__name__}: {error}"

    def _pointed(self, engine: Engine, process: SimProcess) -> Engine:
        for name, tool in engine.tools.items():
            flags: object = getattr(tool, "flags", None)
            if not isinstance(flags, ToolFlags):
                raise BadInput("CrashApp.app", f"of {self.name}: the tool {name!r} has no flags, expected ToolFlags()")
            before = self._tools.get(name)
            safe = flags.retry_safe or (before is not None and before.retry_safe)
            self._tools[name] = ToolKind(name, retry_safe=safe, journals=False)
        tools = {name: _with_points(tool, process, self._runs) for name, tool in engine.tools.items()}
        return replace(engine, tools=tools)


@dataclass(frozen=True, slots=True)
class PointedTool:
    """Implements ``noeta.core.tool.Tool``: a tool as it is, with crash points right before and after its body. Between
    the runtime's last look at its lease and the first line of a tool a worker can be frozen as well.

    ``runs``: a line for every time that a body was begun. Whether it had its effect, only the user can tell.
    """

    tool: Tool
    process: SimProcess
    runs: list[JournalLine]

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def flags(self) -> ToolFlags:
        return self.tool.flags

    def run(self, input: Any, ctx: ToolContext) -> ToolOutcome:
        ctx.point("tool.before_run", tool=self.name)
        self.runs.append(self._begun(ctx))
        result = self.tool.run(input, ctx)
        ctx.point("tool.after_run", tool=self.name)
        return result

    def _begun(self, ctx: ToolContext) -> JournalLine:
        token = f"{ctx.task_id}:{ctx.call_id}:{ctx.start}"
        process = self.process
        return JournalLine(
            token,
            ctx.task_id,
            ctx.call_id,
            self.name,
            ctx.start,
            process.name,
            process.number,
            process.scheduler.now,
        )


@dataclass(frozen=True, slots=True)
class PointedRecoverable(PointedTool):
    """Implements ``noeta.core.tool.Recovers`` too."""

    def recover(self, input: Any, ctx: ToolContext) -> ToolOutcome | None:
        looks_up: object = self.tool
        assert isinstance(looks_up, Recovers)
        ctx.point("tool.before_recover", tool=self.name)
        found = looks_up.recover(input, ctx)
        ctx.point("tool.after_recover", tool=self.name)
        return found


def _with_points(tool: Tool, process: SimProcess, runs: list[JournalLine]) -> PointedTool:
    looks_up: object = tool
    return (PointedRecoverable if isinstance(looks_up, Recovers) else PointedTool)(tool, process, runs)


def _message(said: Say, number: int) -> ScheduledMessage:
    kind: Literal["turn", "note"] = "turn" if said.when == "waits" else "note"
    return ScheduledMessage(said.task, number, kind, number, said.text, said.delay_seconds, may_be_refused=True)


def _made(name: str, make: Callable[[], CrashApp]) -> CrashApp:
    try:
        made: object = make()
    except BadInput as error:
        raise BadInput(f"{name}: {error.field}", error.problem) from error
    except Exception as error:
        raise BadInput("app", f"{name} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, CrashApp):
        raise BadInput("app", f"{name} returned {type(made).__name__}, expected CrashApp")
    return made


def _where(error: Exception) -> str:
    """The file, line and text of the user's statement in which it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    last = next((one for one in reversed(frames) if not Path(one.filename).is_relative_to(_NOETA)), frames[-1])
    return f"{Path(last.filename).name}:{last.lineno}: {last.line}"
