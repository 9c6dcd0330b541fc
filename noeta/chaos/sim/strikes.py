"""What hits a process of a simulation at a yield point, and the plans that decide where.

A plan is asked at every yield point. ``in_order`` counts points over the whole execution, which is how a search tries
every one of them; ``anchored`` looks for the logical events that a schedule names, which is how it is repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from noeta.backends.stores.around import READ_VERBS, WRITE_VERBS
from noeta.chaos.schedule import CALL_KINDS, CLIENT, After, AtPoint, Fault, Kind
from noeta.chaos.sim.scheduler import SimProcess

if TYPE_CHECKING:
    from noeta.chaos.sim.run import Execution

SPARE: Final = "spare"
"""The argument of a pause that says that another worker starts at once."""


@dataclass(frozen=True, slots=True)
class Strike:
    """Hit the process that reaches the ``after``-th yield point since the strike before (from 1).

    Spans in seconds. ``seconds``: how long a pause lasts, a call takes, or a lost call travels. ``spare``: with
    another worker at once, for a pause. ``respawn``: until a killed process has a successor.
    """

    kind: Kind
    after: int = 0
    seconds: float = 0.0
    spare: bool = False
    respawn: float = 0.0

    def fault(self, number: int, process: SimProcess, point: str, n: int) -> Fault:
        """The same as data, anchored at the ``n``-th passing of a point in this process."""
        args: dict[str, float | str] = {}
        match self.kind:
            case Kind.KILL:
                args["respawn_seconds"] = self.respawn
            case Kind.PAUSE:
                args |= {"seconds": self.seconds, "seconds_max": self.seconds}
                if self.spare:
                    args[SPARE] = "yes"
            case Kind.UNKNOWN_LATER | Kind.SLOW:
                args["seconds"] = self.seconds
            case _:
                pass
        anchor = AtPoint(point, n, process.slot, incarnation=process.incarnation)
        return Fault(f"f{number}", self.kind, process.slot, anchor, args)


def strike_of(fault: Fault) -> Strike:
    """The strike of a schedule's fault."""
    return Strike(
        fault.kind,
        seconds=fault.seconds("seconds") if "seconds" in fault.args else 0.0,
        spare=SPARE in fault.args,
        respawn=fault.seconds("respawn_seconds") if "respawn_seconds" in fault.args else 0.0,
    )


def can_hit(kind: Kind, point: str) -> bool:
    """Whether such a strike can do anything at this point: only a call can be spoiled, and only a write's outcome
    can be unknown."""
    if kind not in CALL_KINDS:
        return True
    verb, _, side = point.partition(".")
    reads_too = kind in (Kind.STORE_UNAVAILABLE, Kind.SLOW)
    return side == "before" and (verb in WRITE_VERBS or (verb in READ_VERBS and reads_too))


Plan = Callable[["Execution", SimProcess, str, Mapping[str, object]], None]
"""Called at every yield point with its name and facts; may hit the process through the execution."""


def nothing(execution: Execution, process: SimProcess, point: str, facts: Mapping[str, object]) -> None:
    """The plan of a calm execution."""


def in_order(strikes: Sequence[Strike], *, client: bool = False) -> Plan:
    """These strikes, each so many points after the one before, counting the points of workers (or the client's)."""
    left = list(strikes)
    since = 0

    def plan(execution: Execution, process: SimProcess, point: str, facts: Mapping[str, object]) -> None:
        nonlocal since
        if (process.slot == CLIENT) != client:
            return
        since += 1
        if left and since == left[0].after:
            since = 0
            execution.strikes_made += 1
            execution.strike(process, point, left.pop(0))

    return plan


def anchored(faults: Iterable[Fault]) -> Plan:
    """These faults, each when what its anchor names comes about. Those that stand at an instant are no matter of
    points, and are passed over."""
    by_point: dict[str, list[tuple[Fault, AtPoint]]] = {}
    for fault in faults:
        match fault.anchor:
            case AtPoint() as anchor:
                by_point.setdefault(anchor.point, []).append((fault, anchor))
            case After():
                pass
    passed: Counter[tuple[str, str]] = Counter()

    def plan(execution: Execution, process: SimProcess, point: str, facts: Mapping[str, object]) -> None:
        waiting = by_point.get(point)
        if not waiting:
            return
        for pair in list(waiting):
            fault, anchor = pair
            mine = anchor.worker in (None, process.slot) and anchor.incarnation in (0, process.incarnation)
            if mine and anchor.counts(facts):
                passed[fault.id, process.name] += 1
                if passed[fault.id, process.name] == anchor.n:
                    waiting.remove(pair)
                    execution.strikes_made += 1
                    execution.strike(process, point, strike_of(fault))

    return plan
