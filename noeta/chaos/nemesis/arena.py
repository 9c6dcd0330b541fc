"""What all strikes share: the workers, their claims, the record, and the orders of each worker. For one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from invariants.evidence import Held
from noeta.chaos.cluster import Cluster, Worker
from noeta.chaos.nemesis.claims import Claims, Victim, recorded_claims
from noeta.chaos.nemesis.record import FaultLine, FaultRecord
from noeta.chaos.orders import Aimed, Orders
from noeta.chaos.schedule import CALL_KINDS, AtPoint, Fault
from noeta.core.errors import StoreUnavailable
from noeta.core.ids import micros


class Strike(Protocol):
    """A fault that has struck and is not over."""

    def tick(self, now: float) -> bool:
        """Go on with it; whether it is over and there is nothing more to learn of it."""
        ...

    def heal(self, now: float) -> None:
        """Undo it at once; ``tick`` goes on to be called."""
        ...


@dataclass(slots=True)
class Arena:
    """The ground on which the nemesis fights."""

    cluster: Cluster
    claims: Claims
    record: FaultRecord
    orders: dict[str, Orders] = field(default_factory=dict)
    accounted: set[str] = field(default_factory=set)
    """Processes whose end some strike stands for."""

    paused: set[str] = field(default_factory=set)
    """Processes that are stopped by a strike."""

    keeps_out: Callable[[int], bool] = lambda pid: False
    """Whether a stopped process keeps everybody else from writing in the store."""

    server_struck: bool = False
    """Whether a strike at the server is not over."""

    known: dict[str, set[Held]] = field(default_factory=dict)
    """By worker name: what its earlier processes held when they were struck down."""

    @property
    def lease_seconds(self) -> float:
        """The unit of time."""
        return self.cluster.config.lease_seconds

    def wall(self) -> int:
        """Microseconds since the epoch: real servers run on this machine, so by the store's clock."""
        return micros(time.time())

    def attempts(self, worker: Worker) -> Path:
        """Where this process records what it asks of the store."""
        return self.cluster.config.run_dir / "attempts" / f"{worker.stem}.jsonl"

    def is_at_work(self, worker: Worker) -> bool:
        """Whether it holds a claim: by the store, or by its own record while the store is away."""
        try:
            return not self.claims.holders().isdisjoint(self.cluster.config.loops_of(worker.name))
        except StoreUnavailable:
            return bool(recorded_claims(self.attempts(worker), self.wall()))

    def victim(self, worker: Worker) -> Victim:
        """Follow what becomes of the claims that this process holds now."""
        config = self.cluster.config
        return Victim(
            config.loops_of(worker.name),
            self.attempts(worker),
            time.monotonic(),
            self.wall(),
            frozenset(self.known.get(worker.name, ())),
        )

    def held_by_all(self) -> frozenset[Held]:
        """What the store shows, and what workers were granted since, for when nobody can ask it any more."""
        held: set[Held] = set()
        try:
            held.update(Held(row.id, row.epoch) for row in self.claims.running(fresh_seconds=-1.0).values())
        except StoreUnavailable:
            pass
        for worker in self.cluster.workers.values():
            held |= recorded_claims(self.attempts(worker), self.wall())
        return frozenset(held)

    def all_loops(self) -> tuple[str, ...]:
        """The names that claims of all workers carry."""
        return tuple(loop for name in self.cluster.workers for loop in self.cluster.config.loops_of(name))

    def remember(self, worker: Worker, held: Iterable[Held]) -> None:
        """These claims were a dead process's: a later one of the same name is not to be blamed with them."""
        self.known.setdefault(worker.name, set()).update(held)

    def line(self, kind: str, worker: Worker, **more: Any) -> FaultLine:
        """A line that says that this process is struck now."""
        loops = self.cluster.config.loops_of(worker.name)
        return FaultLine(at=self.wall(), kind=kind, process=worker.process, workers=loops, **more)

    # -- orders --------------------------------------------------------------------------------------------

    def arm(self, fault: Fault) -> None:
        """Let whoever is named reach the fault's point and strike himself."""
        assert isinstance(fault.anchor, AtPoint)
        anchor = fault.anchor
        aimed = Aimed(
            fault.id,
            fault.kind,
            anchor.point,
            anchor.n,
            fault.seconds("seconds") if fault.kind in CALL_KINDS and "seconds" in fault.args else 0.0,
            anchor.incarnation,
            anchor.where,
        )
        names = self.cluster.config.worker_names if anchor.worker is None else (anchor.worker,)
        for name in names:
            orders = self.orders.get(name, Orders())
            self._order(name, msgspec.structs.replace(orders, aimed=(*orders.aimed, aimed)))

    def disarm(self, fault_id: str) -> None:
        """The fault has struck, or is not to strike any more."""
        for name, orders in list(self.orders.items()):
            left = tuple(aimed for aimed in orders.aimed if aimed.id != fault_id)
            if left != orders.aimed:
                self._order(name, msgspec.structs.replace(orders, aimed=left))

    def disarm_all(self) -> None:
        """Nobody strikes himself any more, once this returns."""
        for name, orders in list(self.orders.items()):
            self._order(name, msgspec.structs.replace(orders, aimed=()))
        self.cluster.control.wait_for_gate()

    def skew(self, name: str, seconds: float) -> None:
        """Set the clock of this worker, and of all later processes of its name, off by so much."""
        self._order(name, msgspec.structs.replace(self.orders.get(name, Orders()), skew_seconds=seconds))

    def _order(self, name: str, orders: Orders) -> None:
        self.orders[name] = orders
        self.cluster.control.order(name, orders)
