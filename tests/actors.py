"""Hand-made models, tools and worlds for tests of the runner and the worker. Nothing here waits for real time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noeta.core.model import ModelReply, ModelRequest, ModelSaid, RequestedCall
from noeta.core.retry import RetryPolicy
from noeta.core.runner import Engine, Held, Outcome, Runner
from noeta.core.store import Claim, Store
from noeta.core.tool import OnUnknown, Tool, ToolContext, ToolFlags, ToolResult
from noeta.core.world import ProcessDied, World
from noeta.runtime.process import PointStore
from noeta.runtime.reliability import ReliabilityEvent
from noeta.runtime.threads import ThreadWorld

PATIENCE_SECONDS = 30.0
"""How long a loaded machine may take before a test says that it hangs."""


def asks(*tools: str, text: str = "") -> ModelReply:
    """A reply that calls these tools."""
    return ModelReply(text, tuple(RequestedCall(tool, {"n": n}) for n, tool in enumerate(tools)), "tool_use")


def says(text: str = "done") -> ModelReply:
    """A reply that ends the turn."""
    return ModelReply(text)


@dataclass
class Model:
    """Implements ``noeta.core.model.Provider``: the n-th reply is given to a request that shows n earlier ones, so
    any worker may ask. ``before`` is called with each request before it is answered."""

    replies: tuple[ModelReply, ...]
    before: Callable[[ModelRequest], None] = lambda request: None
    requests: list[ModelRequest] = field(default_factory=list)

    def call(self, request: ModelRequest, *, attempt: int) -> ModelReply:
        self.requests.append(request)
        self.before(request)
        return self.replies[sum(isinstance(said, ModelSaid) for said in request.said)]


@dataclass
class Effect:
    """Implements ``noeta.core.tool.Tool``: writes its start into the journal, then does what ``after`` says."""

    name: str
    journal: list[tuple[str, int]]
    retry_safe: bool = False
    after: Callable[[ToolContext], None] = lambda ctx: None

    @property
    def flags(self) -> ToolFlags:
        return ToolFlags(retry_safe=self.retry_safe)

    def run(self, input: Any, ctx: ToolContext) -> ToolResult:
        self.journal.append((ctx.idempotency_key, ctx.start))
        self.after(ctx)
        return ToolResult(f"{self.name} ran as start {ctx.start}")


@dataclass
class LookedUp(Effect):
    """Implements ``noeta.core.tool.Recovers`` too; ``find`` gives what its look-up finds."""

    find: Callable[[ToolContext], ToolResult | None] = lambda ctx: None

    def recover(self, input: Any, ctx: ToolContext) -> ToolResult | None:
        return self.find(ctx)


def engine(model: Model, *tools: Tool, attempts: int = 1) -> Engine:
    """An agent with these tools, that asks its provider this often, and is told of outcomes that nobody knows."""
    by_name: Mapping[str, Tool] = {tool.name: tool for tool in tools}
    retry = RetryPolicy(max_attempts=attempts, first_seconds=0.001)
    return Engine(model, tools=by_name, retry=retry, on_unknown=OnUnknown.TELL)


class BrokenTools(dict[str, Tool]):
    """Tools that cannot be listed: a bug of the runner's side, not of a tool."""

    def __iter__(self) -> Any:
        raise RuntimeError("planted bug")


def die(*_: object) -> None:
    """The process ends here, as if killed: no handler tidies up."""
    raise ProcessDied


@dataclass
class Deaths:
    """Dies at the n-th call (from 1), or never."""

    at: int | None
    seen: int = 0

    def __call__(self, *_: object) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise ProcessDied


class PointWorld(ThreadWorld):
    """A thread world whose crash points are heard: ``at_point(name, facts)`` may end the process."""

    def __init__(self, at_point: Callable[[str, Mapping[str, object]], None] = lambda name, facts: None) -> None:
        super().__init__(seed=1)
        self._at_point = at_point

    def point(self, name: str, **facts: object) -> None:
        self._at_point(name, facts)


class SetWorld(ThreadWorld):
    """A thread world whose monotonic clock stands still until it is set."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


class Beats:
    """A ``heartbeat_wait`` that lets the keeper beat exactly when the test says so."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._idle = threading.Semaphore(0)
        self._ended = False
        self.pauses: list[float] = []

    def __call__(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self._idle.release()
        assert self._go.acquire(timeout=PATIENCE_SECONDS), "no beat was asked for"
        return self._ended

    def beat(self) -> None:
        """One beat, from its begin to its end."""
        assert self._idle.acquire(timeout=PATIENCE_SECONDS), "the keeper does not wait"
        self._go.release()
        assert self._idle.acquire(timeout=PATIENCE_SECONDS), "the beat did not end"
        self._idle.release()

    def end(self) -> None:
        self._ended = True
        self._go.release()


class Signals:
    """A reliability sink that remembers."""

    def __init__(self) -> None:
        self.events: list[ReliabilityEvent] = []

    def __call__(self, event: ReliabilityEvent) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def drive(
    store: Store,
    claim: Claim,
    engine: Engine,
    *,
    world: World | None = None,
    next_goal_handle: str | None = None,
    on_seal: Callable[[str, int], None] | None = None,
) -> Outcome | None:
    """Drive one claim in this thread; None if its process died."""
    world = world or PointWorld()
    handle = PointStore(store, world)
    held = Held(world, handle, claim, world.monotonic() + 1e6)
    runner = Runner(lambda state: engine, world, handle, held, next_goal_handle=next_goal_handle, on_seal=on_seal)
    try:
        return runner.drive()
    except ProcessDied:
        return None


def wait_until(event: threading.Event, what: str) -> None:
    """Block until it is set."""
    assert event.wait(PATIENCE_SECONDS), f"{what} did not happen within {PATIENCE_SECONDS:g} s"
