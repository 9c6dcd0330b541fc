"""The ways to strike that the exhaustive search knows: what hits whom at the n-th point, and after what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from noeta.chaos.schedule import Kind
from noeta.chaos.sim.scripts import LEASE_SECONDS, Case
from noeta.chaos.sim.strikes import Strike

LATER_SECONDS: Final = LEASE_SECONDS / 4
"""When a call that lands later does: before its lease is over, and after its sender has gone on."""

SLOW_SECONDS: Final = 1.5 * LEASE_SECONDS
"""How long a slow call travels: its lease is over when it arrives."""

IN_FLIGHT_SECONDS: Final = 0.6 * LEASE_SECONDS
"""How long an append travels while its sender is killed: renewals come in between."""

OUTAGE_SECONDS: Final = 200.0
"""In which a table that is due every minute is due three times, or four."""

IN_FLIGHT_POINTS: Final = 6
STOPPED_POINTS: Final = 25
"""Within so many points a stopped worker has given its task back."""

SUCCESSOR_POINTS: Final = 50
"""Within so many points a successor has waited for the lease to lapse, claimed, read, and not yet written."""

Prefixes = Callable[[Sequence[str]], Sequence[tuple[Strike, ...]]]
"""From the points of the calm execution to the strikes that may come first."""


def _no_prefix(points: Sequence[str]) -> Sequence[tuple[Strike, ...]]:
    return [()]


def _before(points: Sequence[str], *names: str) -> list[int]:
    return [n for n, point in enumerate(points, start=1) if point in names]


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to strike, at the n-th point. ``title`` says it to people.

    ``prefixes``: strikes that come first, always at the same places. ``only``: the cases it is for, if not all.
    ``client``: it strikes the client, at the client's points. ``within``: points of the last strike, if it need not
    try them all.
    """

    name: str
    title: str
    strike: Callable[[int], Strike]
    prefixes: Prefixes = _no_prefix
    only: frozenset[str] = frozenset()
    client: bool = False
    within: int | None = None

    def fits(self, case: Case) -> bool:
        """Whether there is anything to find in this case."""
        return (case.says or self.name != "say") and (not self.only or case.name in self.only)


def _spoil(name: str, kind: Kind, title: str, seconds: float = 0.0) -> Mode:
    return Mode(name, title, lambda n: Strike(kind, n, seconds))


def _adopted(points: Sequence[str]) -> Sequence[tuple[Strike, ...]]:
    return [(Strike(Kind.UNKNOWN_LANDED, 1),)]


def _replaced(points: Sequence[str]) -> Sequence[tuple[Strike, ...]]:
    """A worker paused right before an append, which comes back while its successor, dead before it wrote anything,
    still holds the lease: nothing but the fence is in its way, the log has not moved."""
    strikes = (Strike(Kind.PAUSE, n, 1.7 * LEASE_SECONDS, spare=True) for n in _before(points, "append.before"))
    return [(strike,) for strike in strikes]


def _in_flight(points: Sequence[str]) -> Sequence[tuple[Strike, ...]]:
    return [(Strike(Kind.SLOW, n, IN_FLIGHT_SECONDS),) for n in _before(points, "append.before")]


def _stopped(points: Sequence[str]) -> Sequence[tuple[Strike, ...]]:
    return [(Strike(Kind.TERMINATE, n),) for n in _before(points, "model.before", "tool.before_journal", "read.after")]


_MODES: Final = (
    Mode("kill", "SIGKILL", lambda n: Strike(Kind.KILL, n)),
    Mode(
        "lapse",
        "SIGSTOP for 1.5 leases, alone",
        lambda n: Strike(Kind.PAUSE, n, 1.5 * LEASE_SECONDS),
    ),
    Mode(
        "freeze",
        "SIGSTOP for 2.5 leases, taken over",
        lambda n: Strike(Kind.PAUSE, n, 2.5 * LEASE_SECONDS, spare=True),
    ),
    Mode("terminate", "SIGTERM, the task given back", lambda n: Strike(Kind.TERMINATE, n)),
    _spoil("unavailable", Kind.STORE_UNAVAILABLE, "the store cannot be asked"),
    _spoil("unknown_lost", Kind.UNKNOWN_LOST, "connection lost, nothing landed"),
    _spoil("unknown_landed", Kind.UNKNOWN_LANDED, "connection lost, it landed"),
    _spoil("unknown_later", Kind.UNKNOWN_LATER, "connection lost, it lands later", LATER_SECONDS),
    _spoil("slow", Kind.SLOW, "the call arrives after its lease", SLOW_SECONDS),
    Mode(
        "kill_adopted",
        "SIGKILL, the task adopted after an unknown claim",
        lambda n: Strike(Kind.KILL, n),
        prefixes=_adopted,
        only=frozenset({"plain", "retry-safe"}),
    ),
    Mode(
        "replaced",
        "SIGSTOP before an append, SIGKILL of the successor",
        lambda n: Strike(Kind.KILL, n),
        prefixes=_replaced,
        only=frozenset({"plain", "retry-safe"}),
        within=SUCCESSOR_POINTS,
    ),
    Mode(
        "in_flight",
        "SIGKILL while an append is on its way",
        lambda n: Strike(Kind.KILL, n),
        prefixes=_in_flight,
        only=frozenset({"plain", "retry-safe", "interactive-short"}),
        within=IN_FLIGHT_POINTS,
    ),
    Mode(
        "kill_stopped",
        "SIGKILL after SIGTERM, the task being given back",
        lambda n: Strike(Kind.KILL, n),
        prefixes=_stopped,
        only=frozenset({"plain", "slow"}),
        within=STOPPED_POINTS,
    ),
    Mode(
        "outage",
        "SIGKILL, and nobody there for three minutes",
        lambda n: Strike(Kind.KILL, n, respawn=OUTAGE_SECONDS),
        only=frozenset({"cron-outage"}),
    ),
    Mode("kill_client", "SIGKILL of the client", lambda n: Strike(Kind.KILL, n), client=True),
    Mode("say", "a message comes", lambda n: Strike(Kind.SAY, n)),
)

CALM: Final = "calm"
"""The mode of an execution without a strike."""

KILLS: Final = frozenset({"kill", "kill_adopted", "replaced", "in_flight", "kill_stopped", "outage", "kill_client"})
"""The modes in which a process dies at once."""

MODES: Final = MappingProxyType({mode.name: mode for mode in _MODES})
