"""What a user says of an agent that is to be crash tested: its engine, its tasks, what people say to it, and what must
be true of the world when it is over.

Nothing here runs anything: see ``noeta.testing.crash``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from noeta.core import limits
from noeta.core.errors import BadInput
from noeta.core.ids import check_name, check_task_id
from noeta.core.runner import Engine
from noeta.runtime.app import WorkerApp
from noeta.testing.crash_outcome import Outcome

DEFAULT_AGENT: Final = "main"


@dataclass(frozen=True, slots=True)
class Task:
    """A task to create. ``interactive``: it waits for the next message after each turn, instead of ending.
    ``delay_seconds``: how long (in virtual seconds) until a worker may take it."""

    id: str
    goal: str
    agent: str = DEFAULT_AGENT
    interactive: bool = False
    delay_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_task_id(self.id)
        check_name("agent", self.agent)
        if not isinstance(self.goal, str):
            raise BadInput("goal", f"expected text, found {type(self.goal).__name__}")
        _check_span("delay_seconds", self.delay_seconds)


@dataclass(frozen=True, slots=True)
class Say:
    """Something a person says to a task, once what was said before it is said.

    ``when``: once the task ``waits`` for it, or as soon as it ``runs``, which it may do no longer when the message
    arrives. ``delay_seconds``: so much (virtual) later.
    """

    task: str
    text: str
    when: Literal["waits", "runs"] = "waits"
    delay_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_task_id(self.task)
        if not isinstance(self.text, str):
            raise BadInput("text", f"expected text, found {type(self.text).__name__}")
        if self.when not in ("waits", "runs"):
            raise BadInput("when", f"expected 'waits' or 'runs', found {self.when!r}")
        _check_span("delay_seconds", self.delay_seconds)


@dataclass(frozen=True, slots=True)
class CrashApp:
    """An agent and the world around it, for one execution.

    Attributes:
        app: makes what ``noeta worker --app`` would get: an ``Engine`` or a ``WorkerApp``. Called once for every
            worker process, so what it makes is what a killed process loses. What it reaches through a closure is the
            outside world, which no kill undoes.
        tasks: what is created.
        messages: what people say, in the order of each task.
        check: asserts what must be true when everything has come to rest, whatever was struck. It is called once.
        effects: one text for every effect that the tools had outside, best ``ctx.idempotency_key``. An effect that
            is there twice was had twice.
    """

    app: Callable[[], Engine | WorkerApp]
    tasks: Sequence[Task]
    messages: Sequence[Say] = ()
    check: Callable[[Outcome], object] | None = None
    effects: Callable[[], Iterable[str]] | None = field(default=None)

    def __post_init__(self) -> None:
        for name in ("app", "check", "effects"):
            value = getattr(self, name)
            if not callable(value) and (name == "app" or value is not None):
                raise BadInput(f"CrashApp.{name}", f"expected a function, found {type(value).__name__}")
        _check_kind("tasks", self.tasks, Task)
        _check_kind("messages", self.messages, Say)
        if not self.tasks:
            raise BadInput("CrashApp.tasks", "expected at least one Task, found none")
        by_id = {task.id: task for task in self.tasks}
        if len(by_id) < len(self.tasks):
            raise BadInput("CrashApp.tasks", "expected ids that stand once, found one twice")
        for said in self.messages:
            if said.task not in by_id:
                raise BadInput("CrashApp.messages", f"expected one of {', '.join(by_id)}, found {said.task!r}")
            if said.when == "waits" and not by_id[said.task].interactive:
                raise BadInput(
                    "CrashApp.messages",
                    f"{said.task!r} is not interactive, so it never waits for a person: expected "
                    "Task(..., interactive=True) or Say(..., when='runs')",
                )


def _check_kind(name: str, values: Sequence[object], kind: type) -> None:
    if not isinstance(values, list | tuple):
        raise BadInput(f"CrashApp.{name}", f"expected a list of {kind.__name__}, found {type(values).__name__}")
    for value in values:
        if not isinstance(value, kind):
            raise BadInput(f"CrashApp.{name}", f"expected {kind.__name__}, found {type(value).__name__}")


def _check_span(name: str, seconds: float) -> None:
    if not math.isfinite(seconds) or not 0.0 <= seconds <= limits.DELAY_SECONDS_MAX:
        raise BadInput(name, f"expected seconds from 0 to {limits.DELAY_SECONDS_MAX:g}, found {seconds!r}")
