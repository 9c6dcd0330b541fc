"""The reference beside a candidate: the memory store under a clock that began where the candidate's did.

The contract leaves a store two freedoms in a claim. Both are followed here, and counted, so that a comparison says
how often it rested on them:

* ``SWEPT_WHEN_FULL``: a claim that took all it was asked for may also put back lapsed leases it came across; the
  reference does that only when it found too few.
* ``PASSED_OVER``: with several handles on one store, a claim may take a younger task before one that another handle
  made ready with an instant in the past. Nothing is passed over for good: a claim that finds too few looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from noeta.backends.stores.memory import MemoryStore
from noeta.core import limits
from noeta.core.ids import micros
from noeta.core.store import Claims
from noeta.testing.clock import STARTED, ManualClock
from noeta.testing.model_based.calls import ADVANCE, Call, perform, seconds_of
from noeta.testing.twins import copy_of, hiding

SWEPT_WHEN_FULL: Final = "a full claim swept lapsed leases"
PASSED_OVER: Final = "a claim passed over a task that another handle made ready in the past"


class Reference:
    """The memory store, its clock, and the freedoms it was asked to follow."""

    def __init__(self, began_seconds: float) -> None:
        self.clock = ManualClock()
        self.clock.advance(began_seconds - STARTED)
        self.store = MemoryStore(self.clock.now, sweeps_when_full=False)

    @property
    def now(self) -> int:
        """The instant in microseconds."""
        return micros(self.clock.now())

    def perform(self, step: Call, found: object, note: Callable[[str], None], *, several: bool) -> object:
        """What a true store answers. ``found`` is the candidate's answer, which decides only where the contract leaves
        a choice; ``several``: the candidate has more than one handle."""
        if step.verb == ADVANCE:
            self.clock.advance(seconds_of(step))
            return self.clock.now()
        if step.verb == "claim" and isinstance(found, Claims):
            return self._claim(step, found, note, several=several)
        return perform(step, self.store)

    def _claim(self, step: Call, found: Claims, note: Callable[[str], None], *, several: bool) -> object:
        before = copy_of(self.store)
        strict = self._and_swept(step, perform(step, self.store), found, note)
        if not several or strict == found or not isinstance(strict, Claims):
            return strict
        passed_over = {one.task_id for one in strict.claims} - {one.task_id for one in found.claims}
        due = [id for id in sorted(passed_over) if before.task(id).lease_until is None]
        if not due or not found.claims:
            return strict
        after, self.store = self.store, before
        with hiding(before, due):
            followed = self._and_swept(step, perform(step, before), found, lambda name: None)
        if followed == found:
            note(PASSED_OVER)
            return followed
        self.store = after
        return strict

    def _and_swept(self, step: Call, answer: object, found: Claims, note: Callable[[str], None]) -> object:
        """The answer, with lapsed leases put back too where the candidate did so beyond its full claim."""
        if not isinstance(answer, Claims) or answer.claims != found.claims or answer == found:
            return answer
        if len(answer.claims) != dict(step.options).get("limit", 1):
            return answer
        _, queues, *_ = step.arguments
        with self.store._lock:
            swept = self.store._sweep(queues, self.now, limits.CLAIM_LIMIT_MAX)  # type: ignore[arg-type]
        both = (*answer.stale_requeued, *swept)
        note(SWEPT_WHEN_FULL)
        same = sorted(both) == sorted(found.stale_requeued)
        return replace(answer, stale_requeued=found.stale_requeued if same else both)
