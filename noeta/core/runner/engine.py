"""The runner's instructions: which model, which tools, which limits, for one agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from noeta.core.errors import BadInput
from noeta.core.fold import TaskState
from noeta.core.gates import Gate
from noeta.core.model import ModelRequest, Provider
from noeta.core.retry import RetryPolicy
from noeta.core.tool import OnUnknown, Tool

MAX_SUBTASK_DEPTH: Final = 3
"""How deep sub-agents may delegate, unless an engine says otherwise: the root stands at 0."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One agent: its instructions, model and tools (by name).

    ``gates`` are asked, in order, before a call is started. ``on_unknown`` None: as whoever drives the task has it
    (`noeta worker` tells, ``WorkerLoop`` parks). ``max_subtask_depth``: how deep below the root its sub-agents may
    stand; a call that asks for a deeper one gets an error result. None: no bound. Keeps: bounded.

    Raises:
        BadInput: a negative depth; what is no gate, or no ``OnUnknown``.
    """

    provider: Provider
    agent: str = "main"
    system: str = ""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    retry: RetryPolicy = RetryPolicy()
    gates: Sequence[Gate] = ()
    on_unknown: OnUnknown | None = None
    max_subtask_depth: int | None = MAX_SUBTASK_DEPTH

    def __post_init__(self) -> None:
        object.__setattr__(self, "gates", tuple(self.gates))  # an iterator would let the second call through
        for gate in self.gates:
            if not callable(getattr(gate, "decide", None)):
                raise BadInput("gates", f"expected objects with a method decide, found {type(gate).__name__}")
        if self.on_unknown is not None and not isinstance(self.on_unknown, OnUnknown):
            raise BadInput("on_unknown", f"expected an OnUnknown or None, found {self.on_unknown!r:.100}")
        if self.max_subtask_depth is not None and self.max_subtask_depth < 0:
            raise BadInput("max_subtask_depth", f"at least 0, or None for no bound, found {self.max_subtask_depth}")

    def request(self, state: TaskState) -> ModelRequest:
        """The next request, from the log alone. Keeps: same-request."""
        return ModelRequest(self.agent, self.system, tuple(sorted(self.tools)), tuple(state.said))
