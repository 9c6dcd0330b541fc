"""One example: a pair of stores, the claims answered so far, and the ways in which every rule takes a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from noeta.core.ids import MICROS_PER_SECOND
from noeta.core.store import (
    Claim,
    Commit,
    LogPage,
    NewTask,
)
from noeta.core.task import Shape, claimable_at
from noeta.testing.model_based.calls import ADVANCE, Call, call
from noeta.testing.model_based.material import Material, forged
from noeta.testing.model_based.pair import Disagreement, Pair
from noeta.testing.model_based.progress import Progress
from noeta.testing.model_based.situations import situations

if TYPE_CHECKING:
    from noeta.testing.contract.stage import StoreFactory

TASKS: Final = ("t1", "t2", "t3", "t4")
WORKERS: Final = ("w1", "w2", "w3")
QUEUES: Final[tuple[list[str] | None, ...]] = (None, None, ["default"], ["other"], ["default", "other"])
LEASES: Final = (60.0, 60.0, 10.0, 1.0)
"""Seconds."""

TASKS_MAX: Final = 6
"""With more, a step reads more and meets no more than with these."""

DATA: Final = st.data()


class Example(RuleBasedStateMachine):
    """One example: a pair of stores, and the claims that were answered so far."""

    def __init__(self, factory: StoreFactory, progress: Progress) -> None:
        progress.begin()
        super().__init__()
        self._progress = progress
        self._pair = Pair(factory, progress.count_freedom)
        self._tokens = 0
        self._two_handles = False

    @property
    def pages(self) -> dict[str, LogPage]:
        return self._pair.pages

    # -- what there is to choose from ----------------------------------------------------------------------

    def current(self) -> list[Claim]:
        """Claims that hold now."""
        now = self._pair.now
        held = []
        for claim in self._pair.claims:
            row = self.pages[claim.task_id].row
            if (row.epoch, row.token) == (claim.epoch, claim.token) and (row.lease_until or 0) > now:
                held.append(claim)
        return held

    def hold(self, made: Material) -> list[Claim]:
        """Claims that hold now; if there is none, work is looked for first. None, if every task has ended."""
        if not self.current():
            instants = [at for page in self.pages.values() if (at := claimable_at(page.row)) is not None]
            fresh = [id for id in TASKS if id not in self.pages]
            if instants:
                self.advance_to(made, min(instants))
            elif fresh:
                self.do(made, call("create", NewTask(fresh[0], "agent", "goal")))
            else:
                return []
            self.take_tasks(made, queues=False)
        return self.current()

    def page(self, claim: Claim) -> LogPage:
        return self.pages[claim.task_id]

    def waiting(self) -> list[LogPage]:
        return [page for page in self.pages.values() if page.row.shape in (Shape.SUSPENDED, Shape.KEPT)]

    def material(self, data: st.DataObject) -> Material:
        return Material(data, self.pages, self._pair.now)

    def any_task(self, made: Material) -> str:
        """Mostly one that exists."""
        return made.pick((*self.pages, *self.pages, *self.pages, "nobody"))

    def token(self) -> str:
        self._tokens += 1
        return f"token {self._tokens}"

    # -- one step ------------------------------------------------------------------------------------------

    def do(self, made: Material, step: Call) -> object:
        """The step on both stores, now and then through the candidate's other handle."""
        if self._two_handles and step.verb != ADVANCE:
            step = replace(step, on_other=made.chance(4))
        before = self.pages
        self._progress.count_call(step.verb)
        try:
            answer = self._pair.do(step)
        except Disagreement as disagreement:
            self._progress.fail(disagreement.found)
            raise
        for name in situations(step, answer, before, self.pages):
            self._progress.count_situation(name)
        return answer

    def append(self, made: Material, claim: Claim, commit: Commit) -> None:
        """An append on the log as it is, now and then as it was or will be; or by somebody who forged the claim."""
        last = self.page(claim).row.last_seq if claim.task_id in self.pages else 1
        expected = made.pick((max(0, last - 1), last + 1)) if made.chance(12) else last
        author = made.pick(forged(claim)) if made.chance(16) else claim
        self.do(made, call("append", author, expected, commit))

    def advance_to(self, made: Material, instant: int) -> None:
        if instant > self._pair.now:
            self.do(made, call(ADVANCE, (instant - self._pair.now) / MICROS_PER_SECOND))

    def take_tasks(self, made: Material, *, queues: bool = True) -> None:
        known = [claim.token for claim in self._pair.claims]
        token = made.pick(known) if known and made.chance(8) else self.token()
        chosen = made.pick(QUEUES) if queues else None
        lease, limit = made.pick(LEASES), made.pick((1, 2, 3))
        self.do(made, call("claim", made.pick(WORKERS), chosen, lease, token=token, limit=limit))

    # -- the beginning -------------------------------------------------------------------------------------

    @initialize(data=DATA)
    def first_task(self, data: st.DataObject) -> None:
        made = self.material(data)
        self._two_handles = made.chance(2)
        self.do(made, call("create", NewTask("t1", "agent", "goal")))
