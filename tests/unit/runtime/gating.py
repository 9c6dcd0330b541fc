"""Gates made by hand, tools that note what they ran with, and one task over machines that may die: for tests of
approvals and parks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from noeta.core.events import Entry, Event
from noeta.core.fold import fold
from noeta.core.gates import Allow, Ask, Decision, Deny, Gate, GatedCall, approval_handle
from noeta.core.model import ModelReply, ToolAnswered
from noeta.core.runner import Engine
from noeta.core.task import Status
from noeta.core.tool import OnUnknown, Tool, ToolContext, ToolFlags, ToolResult
from noeta.core.world import ProcessDied
from tests.actors import Model, PointWorld, engine, says
from tests.unit.runtime.machines import Machine, Site

APPROVAL = approval_handle("t", "3-0")
"""Of the first call of the first reply."""

POINTS_MIN, POINTS_MAX = 15, 400


@dataclass
class Says:
    """Implements ``noeta.core.gates.Gate``: one decision for each tool it knows; all others may start. ``seen`` has
    what it was asked about, by any worker."""

    decisions: Mapping[str, Decision]
    seen: list[GatedCall] = field(default_factory=list)

    def decide(self, call: GatedCall) -> Decision:
        self.seen.append(call)
        return self.decisions.get(call.tool, Allow())

    def asked_about(self, call_id: str) -> int:
        return sum(call.call_id == call_id for call in self.seen)


def asking(*tools: str) -> Says:
    return Says({tool: Ask() for tool in tools})


def denying(*tools: str, reason: str = "not today") -> Says:
    return Says({tool: Deny(reason) for tool in tools})


def rewriting(**inputs: Any) -> Says:
    return Says({tool: Allow(input) for tool, input in inputs.items()})


@dataclass
class Notes:
    """Implements ``noeta.core.tool.Tool``: the outside world notes what each start ran with, then ``after`` happens."""

    name: str
    ran: list[tuple[str, int, Any]]
    retry_safe: bool = False
    after: Callable[[ToolContext], None] = lambda ctx: None

    @property
    def flags(self) -> ToolFlags:
        return ToolFlags(self.retry_safe)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        self.ran.append((ctx.call_id, ctx.start, input))
        self.after(ctx)
        return ToolResult(f"{self.name} ran as start {ctx.start}")


@dataclass
class Finds(Notes):
    """Implements ``noeta.core.tool.Recovers`` too: its look-up finds that it had been done."""

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult:
        return ToolResult(f"{self.name} had been done")


def agent(
    *gates: Gate,
    asks: ModelReply,
    tools: tuple[Tool, ...],
    on_unknown: OnUnknown | None = None,
    model: Model | None = None,
    more: tuple[ModelReply, ...] = (),
) -> Engine:
    """An agent that asks for these calls, and ends its turn with ``done`` when it has their results."""
    made = engine(model or Model((asks, says("done"), *more)), *tools)
    return replace(made, gates=gates, on_unknown=on_unknown)


class Mortal(PointWorld):
    """A world that ends at the n-th crash point: from there on nothing of its process gets through. The n-th is
    counted only where ``counts`` says so."""

    def __init__(self, dies_at: int, counts: Callable[[str], bool] = lambda name: True) -> None:
        super().__init__(self._pass)
        self._dies_at, self._counts = dies_at, counts
        self.passed = 0

    def _pass(self, name: str, facts: Mapping[str, object]) -> None:
        self.passed += self._counts(name)
        if self.passed >= self._dies_at:
            raise ProcessDied


def dying(name: str, site: Site, dies_at: int = 1, **knobs: Any) -> Machine:
    """A machine whose process ends at this one of its appends, before it is sent."""
    return site.machine(name, Mortal(dies_at, lambda point: point == "append.before"), **knobs)


def lives(machine: Machine) -> bool:
    """Let it drive whatever there is; whether it lives to see everything at rest. A process that dies within a step
    leaves its task running."""
    try:
        machine.rest()
    except ProcessDied:
        return False
    return all(row.status is not Status.RUNNING for row in machine.dispatcher.store.tasks(limit=100))


def kinds(site: Site, id: str = "t") -> list[str]:
    return [type(event).__name__ for event in site.events(id)]


def of(kind: type[Event], site: Site, id: str = "t") -> list[Any]:
    """The events of this kind, in order."""
    return [event for event in site.events(id) if isinstance(event, kind)]


def told(site: Site, id: str = "t") -> list[ToolAnswered]:
    """What the model is told of its calls, as the log has it."""
    entries: list[Entry] = list(site.store.read(id).entries)
    return [said for said in fold(id, entries).said if isinstance(said, ToolAnswered)]
