"""Faults of single store calls: a worker spoils one of its own, as it was told, and goes on."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from noeta.chaos.cluster import Worker
from noeta.chaos.nemesis.arena import Arena
from noeta.chaos.nemesis.claims import recorded_claims
from noeta.chaos.orders import SelfStrike

PROCESS_WIDE: Final = "renew.before"
"""The point of a call that speaks of every claim of its process."""


class Spoiled:
    """A call that goes wrong in a process that lives on. It hits the claims that the call speaks of: of a renewal all
    of its process, of any other call that of its task."""

    def __init__(self, arena: Arena, worker: Worker, by_itself: SelfStrike) -> None:
        self._arena, self._worker = arena, worker
        self._by_itself = by_itself
        self._struck_at = arena.wall()
        self._line = arena.line(
            by_itself.kind, worker, fault=by_itself.fault, point=by_itself.point, facts=by_itself.facts
        )
        self._look()

    def tick(self, now: float) -> bool:
        """Over once the call has come to its end, or its process to its own."""
        is_running = self._worker.is_running
        became = self._arena.cluster.control.became(self._by_itself.fault)
        if became is None and is_running:
            return False
        if became is not None:
            facts = {**self._line.facts, "became": became.became}
            self._line = msgspec.structs.replace(self._line, effective=became.hurt, facts=facts)
        else:
            self._line = msgspec.structs.replace(self._line, effective=False)
        self._look(ended_at=self._arena.wall())
        return True

    def heal(self, now: float) -> None:
        """It ends by itself."""

    def _look(self, **changes: Any) -> None:
        """What it holds: all that was granted since the strike, for a call may take longer than a lease."""
        task = self._by_itself.facts.get("task")
        held = recorded_claims(self._arena.attempts(self._worker), self._struck_at)
        if self._by_itself.point != PROCESS_WIDE:
            held = frozenset(claim for claim in held if claim.task == task)
        ordered = tuple(sorted({*self._line.held, *held}, key=lambda claim: (claim.task, claim.epoch)))
        self._line = msgspec.structs.replace(self._line, held=ordered, **changes)
        self._arena.record.write(self._line)
