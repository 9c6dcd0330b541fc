"""The runner's instructions: which model, which tools, which limits, for one agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noeta.core.errors import BadInput
from noeta.core.fold import TaskState
from noeta.core.model import ModelRequest, Provider
from noeta.core.retry import RetryPolicy
from noeta.core.tool import OnUnknown, Tool


@dataclass(frozen=True, slots=True)
class Engine:
    """One agent: its instructions, model and tools (by name).

    Raises:
        BadInput: ``on_unknown`` asks for the park flow, which this version does not have.
    """

    provider: Provider
    agent: str = "main"
    system: str = ""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    retry: RetryPolicy = RetryPolicy()
    on_unknown: OnUnknown = OnUnknown.TELL

    def __post_init__(self) -> None:
        if self.on_unknown is OnUnknown.PARK:
            raise BadInput("on_unknown", "'park' is not available in this version, use 'tell'")

    def request(self, state: TaskState) -> ModelRequest:
        """The next request, from the log alone. Keeps: same-request."""
        return ModelRequest(self.agent, self.system, tuple(sorted(self.tools)), tuple(state.said))
