"""Faults of the wire: a connection that the proxy cut around a commit. Its worker lives on, and opens a new one."""

from __future__ import annotations

from typing import Any

import msgspec

from noeta.chaos.cluster import Worker
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.claims import recorded_claims
from noeta.chaos.proxy import CutLine, Outcome
from noeta.chaos.proxy.verbs import PROCESS_WIDE
from noeta.chaos.schedule import Kind


class Severed:
    """A connection that was cut. It hits the claims that the commit speaks of: of a renewal all of its process, of any
    other that of its task. Over, and healed, once its process has had an answer of the store again, or is gone."""

    def __init__(self, arena: Arena, worker: Worker, cut: CutLine) -> None:
        self._arena, self._worker, self._cut = arena, worker, cut
        self._answers_before = arena.cluster.answers(worker)
        line = arena.line(cut.kind, worker, fault=cut.fault, point=f"{cut.verb}.sent")
        facts = {**cut.facts, "became": str(cut.outcome), "why": cut.why}
        self._line = msgspec.structs.replace(line, at=cut.at, facts=facts, effective=_is_effective(cut))
        self._look()

    def tick(self, now: float) -> bool:
        """Over once there was an answer, which no connection of before can give."""
        is_well = self._arena.cluster.answers(self._worker) > self._answers_before or not self._worker.is_running
        if is_well or not self._cut.is_cut:
            self._look(ended_at=self._arena.wall())
            return True
        return False

    def heal(self, now: float) -> None:
        """Its worker heals it: by the next connection, which nobody cuts any more."""

    def _look(self, **changes: Any) -> None:
        """What it holds: all that was granted since, for a commit that waits for a lock may outlast a lease."""
        held = recorded_claims(self._arena.attempts(self._worker), self._cut.at)
        if self._cut.verb != PROCESS_WIDE:
            held = frozenset(claim for claim in held if claim.task == self._cut.facts.get("task"))
        ordered = tuple(sorted({*self._line.held, *held}, key=lambda claim: (claim.task, claim.epoch)))
        self._line = msgspec.structs.replace(self._line, held=ordered, **changes)
        self._arena.record.write(self._line)


def _is_effective(cut: CutLine) -> bool:
    """Whether it did what its kind says: of a cut after a commit, only if there was a commit."""
    return cut.is_cut and (cut.kind is Kind.CUT_BEFORE_COMMIT or cut.outcome is Outcome.LANDED)
