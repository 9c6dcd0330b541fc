"""The app of the worker processes whose jobs are measured: an agent that starts the shells its goal names, and then
says what it was told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from noeta.core.model import ModelReply, ModelRequest, ModelSaid, RequestedCall, UserSaid
from noeta.core.runner import Engine
from noeta.plugins.shell import Bash
from noeta.runtime.app import WorkerApp

APP: Final = f"{__name__}:app"


def goal(commands: Sequence[str]) -> str:
    """Of a task that starts these in the background."""
    return json.dumps(list(commands))


class Starting:
    """A model that starts what its goal names, all in one reply; afterwards it repeats what it was told since."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        first = request.said[0]
        assert isinstance(first, UserSaid)
        if not any(isinstance(said, ModelSaid) for said in request.said):
            calls = [RequestedCall(Bash.name, {"command": one, "background": True}) for one in json.loads(first.text)]
            return ModelReply("", tuple(calls), "tool_use") if calls else ModelReply("nothing to start")
        return ModelReply("\n".join(said.text for said in request.said[1:] if isinstance(said, UserSaid)))


def app() -> WorkerApp:
    """What a worker loads."""
    engine = Engine(Starting(), tools={Bash.name: Bash()})
    return WorkerApp(lambda task: engine)
