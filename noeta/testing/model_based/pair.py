"""A candidate and the reference, driven by the same steps; the first difference ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from noeta.core import limits
from noeta.core.ids import micros, sha256_bytes
from noeta.core.store import Claim, Claims, Commit, LogPage
from noeta.testing.model_based.calls import ADVANCE, Call, perform, seconds_of
from noeta.testing.model_based.picture import Difference, differences, reads_of_bodies, reads_of_tasks
from noeta.testing.model_based.reference import Reference
from noeta.testing.model_based.script import Done, script

if TYPE_CHECKING:  # it imports pytest, which whoever compares two stores may not have
    from noeta.testing.contract.stage import StoreFactory

BODIES: Final = (b"a body", b"another body")
VERSIONS: Final = ("v1", "v2")
BODIES_EVERY: Final = 8
"""After so many steps snapshots and contents are looked at although no step stored any: they are most of the reads."""

HASHES: Final = tuple(map(sha256_bytes, BODIES))


@dataclass(frozen=True, slots=True)
class Found:
    """A difference between the two stores: what was asked, where the answers differ, and the steps as a test."""

    asked: str
    fields: tuple[Difference, ...]
    script: str
    steps: tuple[Done, ...]

    @property
    def difference(self) -> str:
        """The fields that differ, each as both stores show it."""
        lines = [f"after {len(self.steps)} calls the stores differ in what `{self.asked}` answers:"]
        for one in self.fields:
            lines += [
                f"  {one.of('answer')}",
                f"    reference  {one.reference!r}",
                f"    candidate  {one.candidate!r}",
            ]
        return "\n".join(lines)

    @property
    def size(self) -> tuple[int, int]:
        """What makes one failure smaller than another."""
        return len(self.steps), len(self.script)


class Disagreement(AssertionError):
    """The two stores differ."""

    def __init__(self, found: Found) -> None:
        super().__init__(f"{found.difference}\n\n{found.script}")
        self.found = found


class Pair:
    """Both stores from their beginning. After each step ``pages`` is what the reference shows of every task.

    ``note`` hears the freedoms that the candidate took.
    """

    def __init__(self, factory: StoreFactory, note: Callable[[str], None]) -> None:
        self._factory = factory
        self._note = note
        self._store = factory.make()
        self._other = self._store
        self._clock = factory.clock()
        self._began = micros(self._clock.now())
        self._reference = Reference(self._clock.now())
        self._steps: list[Done] = []
        self._shown: dict[Call, object] = {}
        self.pages: dict[str, LogPage] = {}
        self.claims: list[Claim] = []

    @property
    def now(self) -> int:
        """The instant of both stores, in microseconds."""
        return self._reference.now

    def do(self, step: Call) -> object:
        """Make the call on both stores and compare the answers, then all that can be seen. The answer.

        Raises:
            Disagreement.
        """
        if step.on_other and self._other is self._store:
            self._other = self._factory.another()
        ends = {id: (page.row.last_seq, page.row.inbox_seq) for id, page in self.pages.items()}
        candidate = self._ask_candidate(step)
        reference = self._ask_reference(step, candidate)
        done = Done(step, reference, ends)
        self._compare(step, reference, candidate, self._steps, (*self._steps, done))
        self._steps.append(done)
        if isinstance(reference, Claims):
            self.claims += reference.claims
        self._look(bodies=_stores_bodies(step) or len(self._steps) % BODIES_EVERY == 0)
        return reference

    def _ask_candidate(self, step: Call) -> object:
        if step.verb == ADVANCE:
            self._clock.advance(seconds_of(step))
            return self._clock.now()
        return perform(step, self._other if step.on_other else self._store)

    def _ask_reference(self, step: Call, found: object) -> object:
        several = self._other is not self._store
        return self._reference.perform(step, found, self._note, several=several)

    def _look(self, *, bodies: bool) -> None:
        ids = [row.id for row in self._reference.store.tasks(limit=limits.PAGE_ENTRIES_MAX)]
        pages: dict[str, LogPage] = {}
        reads = [*reads_of_tasks(ids)]
        if bodies:
            reads += reads_of_bodies(ids, VERSIONS, HASHES)
        for read in reads:
            reference = perform(read, self._reference.store)
            candidate = perform(read, self._store)
            # What both showed before was compared field by field then; that takes half the time of a comparison.
            if not (reference == candidate == self._shown.get(read, reference) and read in self._shown):
                self._compare(read, reference, candidate, self._steps, self._steps)
                self._shown[read] = reference
            if isinstance(reference, LogPage):
                pages[reference.row.id] = reference
        self.pages = pages

    def _compare(
        self, asked: Call, reference: object, candidate: object, before: Sequence[Done], steps: Sequence[Done]
    ) -> None:
        found = tuple(differences(reference, candidate))
        if found:
            text = script(self._began, before, asked, reference, found[0])
            raise Disagreement(Found(asked.verb, found, text, tuple(steps)))


def _stores_bodies(step: Call) -> bool:
    match step.arguments:
        case (_, _, Commit(contents=contents)):
            return bool(contents)
        case _:
            return step.verb in ("put_content", "put_snapshot")
