"""What the nemesis achieved, as ``run.json`` keeps it: counted from the record of strikes, never from the plan."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noeta.chaos.nemesis import NemesisResult
from noeta.chaos.schedule import Schedule


class StormFacts(msgspec.Struct, frozen=True):
    """``kills``, ``kill_alls`` and ``pauses`` are the effective ones. ``fired``: how often each kind struck;
    ``unfired``: planned faults that never did; ``refused``: kinds this run could not have; each with the reason.
    ``cuts``: commits whose connection was cut on the wire, by what became of them (`proxy.Outcome`)."""

    kills: int = 0
    kill_alls: int = 0
    pauses: int = 0
    quota_kills: int = 0
    quota_kill_alls: int = 0
    quota_pauses: int = 0
    takeovers: int = 0
    planned: tuple[str, ...] = ()
    fired: dict[str, int] = {}
    effective: dict[str, int] = {}
    unfired: dict[str, str] = {}
    refused: dict[str, str] = {}
    not_healed: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    cuts: dict[str, int] = {}
    seconds: float = 0.0

    @property
    def possible(self) -> frozenset[str]:
        """Kinds of faults that were planned and that this run could have."""
        return frozenset(self.planned) - self.refused.keys()

    @property
    def strikes(self) -> int:
        """Faults that struck."""
        return sum(self.fired.values())


def facts_of(result: NemesisResult, schedule: Schedule, seconds: float, cuts: Mapping[str, int]) -> StormFacts:
    """The result of a storm that blew for so long."""
    return StormFacts(
        kills=result.effective_kills,
        kill_alls=result.kill_alls,
        pauses=result.effective_pauses,
        quota_kills=result.quotas.kills,
        quota_kill_alls=result.quotas.kill_alls,
        quota_pauses=result.quotas.pauses,
        takeovers=result.takeovers,
        planned=tuple(sorted(kind.value for kind in schedule.kinds())),
        fired=dict(result.fired),
        effective=dict(result.effective),
        unfired=dict(result.unfired),
        refused=dict(result.refused),
        not_healed=result.not_healed,
        crashes=result.crashes,
        cuts=dict(cuts),
        seconds=seconds,
    )
