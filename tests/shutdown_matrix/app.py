"""The app of the matrix: one task, whose goal names what its step does when the signal comes.

Everything that is to be seen from outside is a file in the folder of the cell: ``in-place`` once the step does what its
row says, and the journal of what it did, a wall-clock time a line, in microseconds.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from noeta.core.jobs import JobSpec
from noeta.core.model import ModelReply, ModelRequest, ModelSaid, ProviderError, RequestedCall, UserSaid
from noeta.core.retry import RetryPolicy
from noeta.core.runner import Engine
from noeta.core.tool import StepCancelled, ToolContext, ToolFlags, ToolResult
from noeta.runtime.app import WorkerApp
from noeta.runtime.threads import ThreadWorld

FOLDER: Final = "NOETA_SHUTDOWN_FOLDER"
MARK_AT: Final = "NOETA_SHUTDOWN_MARK_AT"
"""A crash point, and the entries that an append commits there: passing it leaves a file of that name."""

IN_PLACE: Final = "in-place"
GO_ON: Final = "go-on"
JOURNAL: Final = "journal"
JOB_WRITES: Final = "job-writes"
LINE_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.01


def mark(name: str) -> None:
    (Path(os.environ[FOLDER]) / name).touch()


def go_on() -> None:
    """Block until the one who looks on says so."""
    while not (Path(os.environ[FOLDER]) / GO_ON).exists():
        time.sleep(LOOK_SECONDS)


def for_ever() -> None:
    threading.Event().wait()


class Provider:
    """Does what the goal says; one that names no model call names tools, which it asks for."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        first = request.said[0]
        assert isinstance(first, UserSaid)
        match first.text:
            case "model answers":
                mark(IN_PLACE)
                go_on()
            case "model stalls":
                mark(IN_PLACE)
                for_ever()
            case "retry sleep":
                raise ProviderError("the provider is down")
            case tools if not any(isinstance(said, ModelSaid) for said in request.said):
                return ModelReply("", tuple(RequestedCall(tool, {}) for tool in tools.split(", ")), "tool_use")
        return ModelReply("done")


@dataclass(frozen=True)
class Body:
    """Implements ``noeta.core.tool.Tool``: marks that it runs, then does what ``does`` says."""

    name: str
    does: Callable[[ToolContext], None]
    flags: ToolFlags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        mark(IN_PLACE)
        self.does(ctx)
        return ToolResult("done")


def heeds(ctx: ToolContext) -> None:
    """Journals, and ends when it is told to."""
    while not ctx.wait(LINE_SECONDS):
        write_line()
    raise StepCancelled


def journals(ctx: ToolContext) -> None:
    """Goes on whatever it is told."""
    while True:
        write_line()
        time.sleep(LINE_SECONDS)


@dataclass(frozen=True)
class StartsJob:
    """Implements ``noeta.core.tool.Tool``: starts a job that writes, and whose processes ignore SIGTERM."""

    name: str = "job"
    flags: ToolFlags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        # The shell ignores it, too: when a job's shell ends, the rest is killed at once.
        program = f"trap '' TERM; {shlex.quote(sys.executable)} -m tests.shutdown_matrix.job; :"
        return ToolResult("started", job=JobSpec(program))


def write_line() -> None:
    with (Path(os.environ[FOLDER]) / JOURNAL).open("a") as journal:
        journal.write(f"{time.time_ns() // 1000}\n")


def leaves_a_thread(ctx: ToolContext) -> None:
    """A thread of the app's own that the interpreter would wait for."""
    threading.Thread(target=for_ever, daemon=False).start()


class MarkingWorld(ThreadWorld):
    """The production world; one of its crash points, with the entries that are committed there, leaves a file."""

    def point(self, name: str, **facts: object) -> None:
        name = " ".join(filter(None, [name, str(facts.get("events", ""))]))
        if name == os.environ.get(MARK_AT):
            mark(name)


def make() -> WorkerApp:
    tools = (
        Body("tool heeds", heeds),
        Body("tool is deaf", lambda ctx: for_ever()),
        Body("tool journals", journals),
        Body("tool returns", lambda ctx: go_on()),
        Body("tool leaves a thread", leaves_a_thread),
        StartsJob(),
    )
    patient = RetryPolicy(max_attempts=9, first_seconds=600.0, max_seconds=3600.0)
    engine = Engine(Provider(), tools={tool.name: tool for tool in tools}, retry=patient)
    return WorkerApp(lambda task: engine, world=MarkingWorld())


def never() -> WorkerApp:
    """An app that never comes up."""
    mark(IN_PLACE)
    for_ever()
    raise AssertionError("unreachable")
