"""The app of the worker processes that are measured: an agent that delegates to a full group, one that asks a person,
and one that answers at once.
"""

from __future__ import annotations

from typing import Final

from noeta.core.fold import TaskState
from noeta.core.limits import GROUP_MEMBERS_MAX
from noeta.core.model import ModelReply, ModelRequest, ModelSaid, RequestedCall
from noeta.core.runner import Engine
from noeta.plugins import AgentGroup, AskUser
from noeta.runtime.app import WorkerApp

APP: Final = f"{__name__}:app"
LEAD: Final = "lead"
HAND: Final = "hand"
ASKER: Final = "asker"


class Silent:
    """A model that answers at once."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        return ModelReply("done")


class Delegating:
    """A model that asks a full group, waits for all of it, and answers."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        if any(isinstance(said, ModelSaid) for said in request.said):
            return ModelReply("done")
        members = [{"agent": HAND, "prompt": f"part {n}"} for n in range(1, GROUP_MEMBERS_MAX + 1)]
        return ModelReply("", (RequestedCall(AgentGroup.name, {"members": members}),), "tool_use")


class Asking:
    """A model that asks a person first."""

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        if any(isinstance(said, ModelSaid) for said in request.said):
            return ModelReply("done")
        return ModelReply("", (RequestedCall(AskUser.name, {"question": "Shall we?"}),), "tool_use")


def app() -> WorkerApp:
    """What a worker loads. Whatever agent it does not know answers at once."""
    hand = Engine(Silent(), agent=HAND)
    engines = {
        LEAD: Engine(Delegating(), agent=LEAD, tools={AgentGroup.name: AgentGroup()}),
        ASKER: Engine(Asking(), agent=ASKER, tools={AskUser.name: AskUser()}),
    }

    def resolve(task: TaskState) -> Engine:
        return engines.get(task.agent, hand)

    return WorkerApp(resolve)
