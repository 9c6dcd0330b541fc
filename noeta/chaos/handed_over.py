"""A schedule of the simulator as the plan of a storm: the same tasks, and the same faults at the same logical events.

What only the simulator can do is left out and named: real processes have no yield points inside waits, and nobody tells
the kernel who goes on next. Spans are scaled from the simulator's lease to the storm's. With real processes the plan
repeats, not the timing. What the simulator knows of a broken connection (``unknown_lost``, ``unknown_landed``) stays a
fault of the call: cuts on the wire stand at points that only a real connection has (`schedule.SIM_INSTEAD`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from noeta.chaos.schedule import AIMABLE_KINDS, CLIENT, AtPoint, Fault, Kind, Play, Schedule
from noeta.chaos.sim.points import WORLD_POINTS
from noeta.chaos.sim.scripts import LEASE_SECONDS, RETRY_ATTEMPTS
from noeta.core.errors import BadInput
from scripted_model import Workload

PAUSE_LEASES_MAX: Final = 8.0
"""How long a takeover is awaited before a paused process goes on regardless."""

_SPANS: Final = frozenset({"seconds", "think_seconds", "delay_seconds"})


@dataclass(frozen=True, slots=True)
class HandedOver:
    """``refused``: the ids of faults that are left out, with the reason."""

    schedule: Schedule
    workload: Workload
    workers: int
    refused: tuple[tuple[str, str], ...]


def hand_over(schedule: Schedule, *, lease_seconds: float) -> HandedOver:
    """The storm that a simulated execution describes.

    Raises:
        BadInput: it is a storm's already, or a user's own agent played there, which a storm's workers do not have.
    """
    play = schedule.play
    if play is None or play.app is not None:
        raise BadInput(
            "schedule.play", "expected scripted tasks, found " + ("none" if play is None else play.app or "")
        )
    scale = lease_seconds / LEASE_SECONDS
    kept: list[Fault] = []
    refused: list[tuple[str, str]] = []
    for fault in schedule.faults:
        why = _why_not(fault)
        if why is None:
            kept.append(_scaled(fault, scale, lease_seconds))
        else:
            refused.append((fault.id, why))
    scaled = msgspec.convert(_stretched(msgspec.to_builtins(play), scale), Play)
    return HandedOver(
        msgspec.structs.replace(schedule, faults=tuple(kept), play=None),
        Workload(schedule.seed, lease_seconds, RETRY_ATTEMPTS, scaled.tasks, scaled.messages),
        play.workers,
        tuple(refused),
    )


def _why_not(fault: Fault) -> str | None:
    if fault.target == CLIENT:
        return "the storm's clients are part of the harness"
    match fault.anchor:
        case AtPoint(point=point) if fault.kind not in AIMABLE_KINDS:
            return f"a {fault.kind} of a real process cannot be aimed at {point}"
        case AtPoint(point=point) if point in WORLD_POINTS:
            return f"a real process has no point {point!r}"
        case _:
            return None


def _scaled(fault: Fault, scale: float, lease_seconds: float) -> Fault:
    if fault.kind is Kind.SKEW:
        return fault
    args = {
        name: round(value * scale, 3) if isinstance(value, int | float) else value for name, value in fault.args.items()
    }
    args.pop("spare", None)  # the other workers are there
    if fault.kind is Kind.PAUSE:
        args["seconds_max"] = round(PAUSE_LEASES_MAX * lease_seconds, 3)
    return msgspec.structs.replace(fault, args=args)


def _stretched(value: Any, scale: float) -> Any:
    match value:
        case dict():
            return {
                name: round(part * scale, 4)
                if name in _SPANS and isinstance(part, int | float)
                else _stretched(part, scale)
                for name, part in value.items()
            }
        case list() | tuple():
            return [_stretched(part, scale) for part in value]
        case _:
            return value
