"""What the nemesis achieved: counted from the record, never from what was planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from noeta.chaos.nemesis.record import FaultLine
from noeta.chaos.schedule import Kind, Quotas

KILLS = frozenset({Kind.KILL, Kind.RESTART_SAME_NAME})


@dataclass(frozen=True)
class NemesisResult:
    """Counts are of faults, not of struck processes. ``takeovers``: cut claims that somebody else then held.

    Attributes:
        fired, effective: by kind, unplanned deaths included under their own kinds.
        unfired: planned faults that never struck, each with the reason.
        refused: kinds of the plan that this run could not have, each with the reason.
        not_healed: what was still wrong when the storm should have been over; empty, or the run proves nothing.
        crashes: worker processes that ended by themselves in a way nobody asked for, with their last words.
    """

    quotas: Quotas
    effective_kills: int
    kill_alls: int
    effective_pauses: int
    takeovers: int
    fired: Mapping[str, int]
    effective: Mapping[str, int]
    unfired: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    not_healed: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()

    @property
    def quotas_met(self) -> bool:
        """Whether enough really hurt."""
        return not self.missing()

    def missing(self) -> tuple[str, ...]:
        """What falls short, in words."""
        wanted = (
            ("effective kills", self.effective_kills, self.quotas.kills),
            ("kills of all workers", self.kill_alls, self.quotas.kill_alls),
            ("effective pauses", self.effective_pauses, self.quotas.pauses),
        )
        return tuple(f"{found} of {quota} {what}" for what, found, quota in wanted if found < quota)


def count(
    lines: Iterable[FaultLine],
    quotas: Quotas,
    *,
    unfired: Mapping[str, str],
    refused: Mapping[str, str],
    not_healed: Iterable[str] = (),
    crashes: Iterable[str] = (),
) -> NemesisResult:
    """Count a record. A fault that struck several processes hurt if it hurt one of them."""
    hurt: dict[tuple[str, str], bool] = {}
    takeovers = 0
    for line in lines:
        key = (line.kind, line.fault or f"{line.process}@{line.at}")
        hurt[key] = hurt.get(key, False) or line.effective is True
        takeovers += len(line.taken_over)
    fired = Counter(kind for kind, _ in hurt)
    effective = Counter(kind for (kind, _), is_hurt in hurt.items() if is_hurt)
    return NemesisResult(
        quotas,
        effective_kills=sum(effective[kind] for kind in KILLS),
        kill_alls=effective[Kind.KILL_ALL],
        effective_pauses=effective[Kind.PAUSE],
        takeovers=takeovers,
        fired=dict(sorted(fired.items())),
        effective=dict(sorted(effective.items())),
        unfired=dict(unfired),
        refused=dict(refused),
        not_healed=tuple(not_healed),
        crashes=tuple(crashes),
    )


def undecided_or_effective(lines: Iterable[FaultLine], kinds: frozenset[Kind]) -> int:
    """How many faults of these kinds hurt, or may yet turn out to have hurt."""
    return len({line.fault for line in lines if line.fault and line.kind in kinds and line.effective is not False})
