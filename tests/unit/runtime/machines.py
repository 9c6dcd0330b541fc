"""Machines that share one store: each runs a worker loop of its own, and can die. For tests of waiting and delegating.

Time is the store's clock, which a test moves; nothing here waits for real time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import Event, TaskWoken, ToolFinished
from noeta.core.fold import TaskState
from noeta.core.model import ModelReply, RequestedCall
from noeta.core.runner import Engine
from noeta.core.store import NewTask
from noeta.core.task import TaskRow
from noeta.core.tool import Tool
from noeta.core.wake import Item
from noeta.core.world import World
from noeta.plugins import waiting_tools
from noeta.runtime.dispatcher import Dispatcher
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import FaultyStore
from noeta.testing.profile import bundle
from tests.actors import Model, PointWorld, Signals, engine, says

LEASE = 60.0
CLAIMS_MAX = 500
"""Claims after which a site that does not come to rest is called endless."""


def calls(*asked: tuple[str, Mapping[str, Any]], text: str = "") -> ModelReply:
    """A reply that calls these tools with these inputs."""
    return ModelReply(text, tuple(RequestedCall(tool, dict(input)) for tool, input in asked), "tool_use")


class Machine:
    """Implements ``noeta.runtime.worker.WorkerRuntime``: one host process over the shared store."""

    def __init__(self, site: Site, name: str, world: World, **knobs: Any) -> None:
        plain = bundle(site.store, next(iter(site.agents.values())), world=world)
        self.engine, self.event_log, self.content_store = plain.engine, plain.event_log, plain.content_store
        self.dispatcher, self.world = plain.dispatcher, plain.world
        self.signals = Signals()
        self._agents = site.agents
        knobs = {"lease_seconds": LEASE, "heartbeat_interval": 0.0, "now_fn": lambda: site.seconds, **knobs}
        self.loop = WorkerLoop(self, worker_id=name, step_poll_s=0.01, reliability_sink=self.signals, **knobs)

    def resolve_engine(self, task: TaskState) -> Engine:
        return self._agents[task.agent]

    def rest(self) -> int:
        """Drive whatever is claimable until nothing is; how many claims that took."""
        for claims in range(CLAIMS_MAX):
            if not self.loop.tick():
                return claims
        raise AssertionError(f"no rest after {CLAIMS_MAX} claims")


class Site:
    """The store, its clock, and the machines and outsiders around it. ``agents``: the engine of each, by name."""

    def __init__(self, **agents: Engine) -> None:
        self.seconds = 1_700_000_000.0
        self.store = FaultyStore(MemoryStore(lambda: self.seconds))  # for its counts
        self.agents = agents

    def machine(self, name: str = "w1", world: World | None = None, **knobs: Any) -> Machine:
        return Machine(self, name, world or PointWorld(), **knobs)

    def outsider(self) -> Dispatcher:
        """Whoever brings a wake: it has the store, and no engine, loop or claim."""
        return Dispatcher(self.store)

    def create(self, id: str = "t", agent: str = "main", **fields: Any) -> str:
        self.store.create(NewTask(id, agent, f"goal of {id}", **fields))
        return id

    def row(self, id: str = "t") -> TaskRow:
        return self.store.task(id)

    def rows(self) -> list[TaskRow]:
        return list(self.store.tasks(limit=1_000))

    def events(self, id: str = "t") -> list[Event]:
        return [entry.event for entry in self.store.read(id).entries]

    def woken(self, id: str = "t") -> list[Item]:
        """The events that ended its waits, in order."""
        return [event.event for event in self.events(id) if isinstance(event, TaskWoken)]

    def results(self, id: str = "t") -> list[str]:
        """What its calls told its model, in order."""
        return [event.output for event in self.events(id) if isinstance(event, ToolFinished)]


def asks_person(question: str = "Shall we?") -> ModelReply:
    return calls(("AskUser", {"question": question}))


def asks_timer(seconds: float) -> ModelReply:
    return calls(("ScheduleWakeup", {"delay_seconds": seconds}))


def asks_event(kind: str) -> ModelReply:
    return calls(("WaitForEvent", {"event_kind": kind}))


def delegates(agent: str, prompt: str = "do it", *, background: bool = False) -> ModelReply:
    return calls(("Agent", {"agent": agent, "prompt": prompt, "background": background}))


def fans_out(*agents: str) -> ModelReply:
    members = [{"agent": agent, "prompt": f"part {n}"} for n, agent in enumerate(agents, start=1)]
    return calls(("AgentGroup", {"members": members}))


def main_agent(*replies: ModelReply, more: Sequence[Tool] = ()) -> Engine:
    """An agent with every tool that may wait, and these; says this, and ends its last turn with ``done``."""
    return engine(Model((*replies, says("done"))), *waiting_tools().values(), *more)


def helper_agent(answer: str = "helped") -> Engine:
    """An agent that answers at once."""
    return engine(Model((says(answer),)))
