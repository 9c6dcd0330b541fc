"""A store, one worker loop over it, and what it signalled: the stage of the loop's tests."""

from __future__ import annotations

from typing import Any

from noeta.backends.stores.memory import MemoryStore
from noeta.core.runner import Engine
from noeta.core.store import NewTask, Store
from noeta.runtime.worker import WorkerLoop
from noeta.testing.faults import Fault, FaultyStore
from noeta.testing.profile import RuntimeBundle, bundle
from tests.actors import Model, Signals, engine, says

LEASE = 600.0


class Clock:
    """The store's clock."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds


class Host(RuntimeBundle):
    """A runtime whose duck-typed methods are given."""

    def __init__(self, store: Store, agent: Engine, **methods: Any) -> None:
        plain = bundle(store, agent)
        super().__init__(plain.engine, plain.event_log, plain.content_store, plain.dispatcher, plain.world)
        for name, method in methods.items():
            object.__setattr__(self, name, method)


class Scene:
    """A store, a loop over it, and what it signalled."""

    def __init__(
        self, agent: Engine | None = None, *faults: Fault, methods: dict[str, Any] | None = None, **knobs: Any
    ):
        self.clock = Clock()
        self.memory = MemoryStore(self.clock)
        self.store = FaultyStore(self.memory, faults)
        self.signals = Signals()
        self.agent = agent or engine(Model((says(),)))
        self.host = Host(self.store, self.agent, **(methods or {}))
        knobs.setdefault("reliability_sink", self.signals)
        self.loop = WorkerLoop(self.host, worker_id="w1", step_poll_s=0.01, **knobs)

    def create(self, id: str = "t", **fields: Any) -> None:
        self.memory.create(NewTask(id, "agent", "goal", **fields))

    def events(self, id: str = "t") -> list[object]:
        return [entry.event for entry in self.memory.read(id).entries]
