"""Gates made by hand, tools that note what they ran with, and one task over machines that may die: for tests of gates,
approvals and parks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from noeta.core import texts
from noeta.core.events import Entry, Event, TaskSuspended
from noeta.core.fold import fold
from noeta.core.gates import Allow, Ask, Decision, Deny, Gate, GatedCall, approval_handle
from noeta.core.model import ModelReply, ToolAnswered
from noeta.core.runner import Engine
from noeta.core.task import Status
from noeta.core.tool import OnUnknown, Tool, ToolContext, ToolFlags, ToolResult
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from noeta.core.world import ProcessDied
from tests.actors import Model, PointWorld, asks, die, engine, says
from tests.unit.runtime.machines import LEASE, Machine, Site

APPROVAL = approval_handle("t", "3-0")
"""Of the first call of the first reply."""

POINTS_MIN, POINTS_MAX = 15, 400

HERE = HumanResponseReceived(NEXT_GOAL)
PARKED = ["StepAttemptAbandoned", "NoticeGiven", "TaskSuspended"]
"""What one commit of a park holds."""


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


def site_of(*gates: Any, reply: ModelReply | None = None, tools: tuple[Any, ...] = (), **more: Any) -> Site:
    """A one-shot task ``t`` whose model asks for ``pay`` (unless told otherwise)."""
    return Site(main=agent(*gates, asks=reply or asks("pay"), tools=tools, **more))


def approve(site: Site, handle: str = APPROVAL, text: str = texts.APPROVE, id: str = "t") -> None:
    """As `noeta tasks approve` and `deny` do: the first answer counts."""
    site.outsider().say(id, text, message_id="answer", handle=handle)


def interrupted(
    tool: str = "pay",
    *,
    gates: tuple[Any, ...] = (),
    then: tuple[Any, ...] | None = None,
    reply: Any = None,
    tools: tuple[Tool, ...] = (),
    now: Tool | None = None,
    retry_safe: bool = False,
    interactive: bool = True,
    on_unknown: OnUnknown | None = None,
    model: Model | None = None,
    more: tuple[Any, ...] = (says("and then"),),
) -> tuple[Site, list[Any]]:
    """A task whose worker died in this tool, and whose lease is over; what ran so far.

    ``then``: the gates of the next worker; ``now``: its tool of that name.
    """
    ran: list[Any] = []
    reply = reply or asks(tool)
    deadly = Notes(tool, ran, retry_safe, die)
    site = Site(main=agent(*gates, asks=reply, tools=(*tools, deadly), on_unknown=on_unknown, model=model, more=more))
    site.create(interactive=interactive)
    assert not lives(site.machine("dies"))
    site.seconds += LEASE
    sound = now or Notes(tool, ran, retry_safe)
    after = gates if then is None else then
    site.agents["main"] = agent(
        *after, asks=reply, tools=(*tools, sound), on_unknown=on_unknown, model=model, more=more
    )
    return site, ran


def is_parked(site: Site, handle: str = NEXT_GOAL) -> bool:
    row = site.row()
    return (row.status, row.wake_on) == (Status.SUSPENDED, HumanResponseReceived(handle)) and (
        site.events()[-1] == TaskSuspended(HumanResponseReceived(handle), reason=texts.ATTEMPT_PARKED)
    )


def say(site: Site, text: str = "it was paid, go on", id: str = "1") -> None:
    site.outsider().say("t", text, message_id=id)
