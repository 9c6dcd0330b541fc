"""An app for `noeta worker` in tests: one tool call per task that waits for a file to appear, then a word.

Its world stops the process (SIGSTOP) the first time it passes the point that ``NOETA_TEST_STOP_AT`` names.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from noeta.core.model import ModelReply, ModelRequest, ModelSaid, RequestedCall, UserSaid
from noeta.core.runner import Engine
from noeta.core.tool import StepCancelled, ToolContext, ToolFlags, ToolResult
from noeta.runtime.app import WorkerApp
from noeta.runtime.threads import ThreadWorld


class Provider:
    """Asks for the tool named in the goal, then says that it is done."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        first = request.said[0]
        assert isinstance(first, UserSaid)
        if any(isinstance(said, ModelSaid) for said in request.said):
            return ModelReply("done")
        return ModelReply("", (RequestedCall("gate", json.loads(first.text)),), "tool_use")


class Gate:
    """Marks that it runs, then waits until the file named in its input exists (or the step is cancelled)."""

    name = "gate"
    flags = ToolFlags(retry_safe=True)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        folder = Path(os.environ["NOETA_TEST_FOLDER"])
        (folder / f"started-{ctx.task_id}").touch()
        while not (folder / input["until"]).exists():
            if ctx.wait(0.05):
                raise StepCancelled
        return ToolResult("open")


class StoppingWorld(ThreadWorld):
    """The production world, and a point at which the process is frozen, once."""

    def __init__(self, stop_at: str) -> None:
        super().__init__()
        self._stop_at = stop_at

    def point(self, name: str, **facts: object) -> None:
        if name == self._stop_at:
            self._stop_at = ""
            os.kill(os.getpid(), signal.SIGSTOP)


def make() -> WorkerApp:
    engine = Engine(Provider(), tools={"gate": Gate()})
    return WorkerApp(lambda task: engine, world=StoppingWorld(os.environ.get("NOETA_TEST_STOP_AT", "")))
