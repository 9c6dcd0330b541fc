"""Every store against the reference, driven by the same random steps; and that this finds what is planted.

`make check` looks briefly. ``NOETA_MODEL_EXAMPLES=2000`` asks for a longer look, ``NOETA_MODEL_SEED`` for another one.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from noeta.backends.stores.memory import MemoryStore
from noeta.core.events import TaskSuspended
from noeta.core.ids import micros
from noeta.core.store import Child, Claims, Commit, Created, NewTask, Store, Suspend
from noeta.core.task import Status
from noeta.core.wake import BACKGROUND, ControlReceived, ExternalEvent, TimerFired
from noeta.testing.clock import STARTED
from noeta.testing.model_based import Comparison, compare
from noeta.testing.model_based.calls import ADVANCE, Call, call, perform
from noeta.testing.model_based.example import DATA
from noeta.testing.model_based.machine import Machine
from noeta.testing.model_based.picture import differences
from noeta.testing.model_based.progress import Progress
from noeta.testing.model_based.reference import PASSED_OVER, SWEPT_WHEN_FULL, Reference
from noeta.testing.model_based.run import search
from noeta.testing.model_based.script import Done, script
from noeta.testing.model_based.situations import REQUIRED
from noeta.testing.store_contract import StoreFactory
from noeta.testing.twins import copy_of
from tests.contract.broken_memory import SEQUENTIAL, BrokenFactory
from tests.contract.factories import MemoryFactory, PostgresFactory, SqliteFactory
from tests.contract.family_bugs import FAMILY_BUGS
from tests.mutants.catalogue import Mutant

EXAMPLES: Final = int(os.environ.get("NOETA_MODEL_EXAMPLES", "0"))
"""How many examples each store gets; 0: as many as `make check` has time for."""

SEED: Final = int(os.environ.get("NOETA_MODEL_SEED", "1"))
STEPS: Final = 40
CALLS_MAX: Final = 14
"""No planted bug needs more calls to show itself, also where it was met in a family, which must be born first."""


def compared(factory: StoreFactory, examples: int, *, seed: int = SEED) -> Comparison:
    comparison = compare(factory, examples=EXAMPLES or examples, steps=STEPS, seed=seed, seconds=3600.0)
    print(comparison)
    assert comparison.failure is None, comparison.failure
    assert comparison.examples >= (EXAMPLES or examples)
    return comparison


class Twin(MemoryFactory):
    """The very store that the reference is: it takes none of the freedoms that the contract leaves."""

    def make(self) -> Store:
        super().make()
        self._store = MemoryStore(self._clock.now, sweeps_when_full=False)
        return self._store


@pytest.mark.slow
def test_the_reference_agrees_with_itself_and_every_situation_occurs() -> None:
    """One that never occurs would be a rule of the contract that the comparison does not touch."""
    seen: Counter[str] = Counter()
    for seed in range(SEED, SEED + 3):
        comparison = compared(Twin(), 40, seed=seed)
        seen.update(comparison.situations)
        assert not comparison.freedoms

    assert set(seen) == set(REQUIRED)
    assert [name for name in REQUIRED if not seen[name]] == []


def test_a_seed_repeats_a_comparison() -> None:
    first, again, other = (compare(MemoryFactory(), examples=5, steps=10, seed=seed) for seed in (7, 7, 8))

    assert first == again
    assert first.calls != other.calls


@pytest.mark.slow
def test_sqlite_answers_as_the_reference() -> None:
    factory = SqliteFactory()
    seen: Counter[str] = Counter()
    try:
        for seed in range(SEED, SEED + 3):
            comparison = compared(factory, 40, seed=seed)
            seen.update(comparison.situations)
            assert PASSED_OVER not in comparison.freedoms  # its handles share one file: none learns late
    finally:
        factory.close()
    assert [name for name in REQUIRED if not seen[name]] == []


@pytest.mark.slow
def test_postgres_answers_as_the_reference(postgres_factory: PostgresFactory) -> None:
    compared(postgres_factory, 25)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SEQUENTIAL, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found_and_shrinks_to_a_script_that_shows_it(mutant: Mutant) -> None:
    """The printed script, run as it is, fails on the broken store and passes on the true one."""
    factory = BrokenFactory(mutant)

    failure = compare(factory, examples=EXAMPLES or 900, steps=STEPS, seed=SEED).failure  # ends with the first

    assert failure is not None
    assert failure.repeats
    assert failure.steps <= CALLS_MAX, failure
    shown = shown_by(failure.script)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        shown(factory)
    shown(MemoryFactory())


class FactoryOf(MemoryFactory):
    """Over a store that departs from the memory store in one thing."""

    def __init__(self, kind: type[MemoryStore]) -> None:
        super().__init__()
        self._kind = kind

    def make(self) -> Store:
        super().make()
        self._store = self._kind(self._clock.now)
        return self._store


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILY_BUGS, ids=lambda kind: kind.__name__)
def test_what_a_store_forgets_about_families_and_orders_is_found(kind: type[MemoryStore]) -> None:
    factory = FactoryOf(kind)

    failure = compare(factory, examples=EXAMPLES or 900, steps=STEPS, seed=SEED).failure  # ends with the first

    assert failure is not None
    assert failure.repeats
    assert failure.steps <= CALLS_MAX, failure
    shown = shown_by(failure.script)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        shown(factory)
    shown(MemoryFactory())


def test_a_comparison_that_runs_out_of_time_says_so() -> None:
    comparison = compare(MemoryFactory(), examples=1_000, steps=STEPS, seed=SEED, seconds=0.0)

    assert comparison.out_of_time
    assert comparison.examples == 0
    assert comparison.missing == REQUIRED


class Stubborn(MemoryStore):
    """Answers a create with a number where a truth value is asked for."""

    def create(self, task: NewTask) -> Created:
        return replace(super().create(task), created=1)  # type: ignore[arg-type]


def test_a_number_is_no_truth_value() -> None:
    failure = compare(FactoryOf(Stubborn), examples=1, steps=1, seed=SEED).failure

    assert failure is not None
    assert "type(answer.created).__name__" in failure.script


class Forgetful(MemoryStore):
    """Decides by how many stores were made before it: no clock and no call holds that."""

    made = 0

    def create(self, task: NewTask) -> Created:
        Forgetful.made += 1
        return replace(super().create(task), created=Forgetful.made != 1)


def test_a_difference_that_does_not_repeat_is_reported_as_such() -> None:
    failure = compare(FactoryOf(Forgetful), examples=1, steps=1, seed=SEED).failure

    assert failure is not None
    assert not failure.repeats
    assert "NOT repeat" in str(failure)


class Moody(MemoryStore):
    """Now and then a full claim puts back lapsed leases, too, whatever its calls and its clock say."""

    mood = Random(SEED)

    def claim(
        self,
        worker: str,
        queues: Sequence[str] | None,
        lease_seconds: float,
        *,
        token: str | None = None,
        limit: int = 1,
    ) -> Claims:
        claims = super().claim(worker, queues, lease_seconds, token=token, limit=limit)
        if len(claims.claims) < limit or Moody.mood.random() < 0.5:
            return claims
        return replace(claims, stale_requeued=(*claims.stale_requeued, *self._sweep(queues, self._now(), 100)))


def test_a_store_may_take_its_freedoms_as_it_likes_and_is_compared_to_the_end() -> None:
    comparison = compare(FactoryOf(Moody), examples=30, steps=STEPS, seed=SEED)

    assert comparison.failure is None, comparison.failure
    assert comparison.examples >= 30
    assert comparison.freedoms[SWEPT_WHEN_FULL] > 0


def test_a_search_goes_on_where_the_same_draws_lead_elsewhere() -> None:
    """Hypothesis gives such a run up; what a store chose by its own clock must not end a comparison unseen."""
    progress = Progress(3600.0)
    made = itertools.count()

    class Wavering(Machine):
        def __init__(self) -> None:
            super().__init__(MemoryFactory(), progress)
            self.draws = st.booleans() if next(made) % 2 else st.text()

        @initialize(data=DATA)
        def wavers(self, data: st.DataObject) -> None:
            data.draw(self.draws)

    restarts = search(Wavering, progress, SEED, examples=10, steps=5)

    assert restarts > 0
    assert progress.examples >= 10
    assert progress.found is None


def taken_by(reference: Reference, found: Claims, step: Call, *, several: bool) -> tuple[object, list[str]]:
    followed: list[str] = []
    return reference.perform(step, found, followed.append, several=several), followed


def two_due_tasks() -> tuple[Reference, Claims, Call]:
    """An older and a younger task, and a claim that took the younger one."""
    reference, other = Reference(STARTED), Reference(STARTED)
    for one, tasks in ((reference, ("old", "young")), (other, ("young",))):
        for task in tasks:
            one.clock.advance(STARTED + (5.0 if task == "young" else 0.0) - one.clock.now())
            one.store.create(NewTask(task, "agent", "goal"))
    step = call("claim", "w", None, 60.0, token="token", limit=1)
    found = perform(step, other.store)
    assert isinstance(found, Claims)
    return reference, found, step


def test_a_younger_task_may_go_first_only_where_another_handle_may_have_made_the_older_one_ready() -> None:
    reference, found, step = two_due_tasks()
    assert taken_by(reference, found, step, several=True) == (found, [PASSED_OVER])
    assert reference.store.task("old").status is Status.PENDING

    reference, found, step = two_due_tasks()
    strict, followed = taken_by(reference, found, step, several=False)
    assert isinstance(strict, Claims)
    assert [claim.task_id for claim in strict.claims] == ["old"]
    assert followed == []


def test_a_full_claim_may_put_back_lapsed_leases_and_no_others() -> None:
    reference = Reference(STARTED)
    for task, lease in (("lapses", 1.0), ("held", 60.0)):
        reference.store.create(NewTask(task, "agent", "goal"))
        reference.store.claim("w", None, lease, token=task)
    reference.clock.advance(10.0)
    reference.store.create(NewTask("due", "agent", "goal"))
    step = call("claim", "w", None, 60.0, token="token", limit=1)
    twin = copy_of(reference.store)
    strict = perform(step, twin)
    assert isinstance(strict, Claims)

    answer, followed = taken_by(reference, replace(strict, stale_requeued=("held",)), step, several=False)

    assert followed == [SWEPT_WHEN_FULL]
    assert answer == replace(strict, stale_requeued=("lapses",))


def test_a_script_names_claims_counts_instants_and_makes_forged_claims_again() -> None:
    """Lines too long are broken; a claim that nobody uses gets no name."""
    reference = Reference(STARTED)
    steps: list[Done] = []

    def do(step: Call) -> object:
        answer = reference.perform(step, None, lambda name: None, several=False)
        steps.append(Done(step, answer, {}))
        return answer

    do(call("create", NewTask("t", "agent", "goal", queue="other")))
    taken = do(call("claim", "w", None, 60.0, token="token"))
    assert isinstance(taken, Claims)
    (claim,) = taken.claims
    do(call("release", replace(claim, token="forged")))
    do(call(ADVANCE, 0.5))
    waits = Suspend(TimerFired(STARTED + 10.0))
    do(call("append", claim, 1, Commit((TaskSuspended(waits.wake_on),), waits)))
    do(replace(call("wake", "t", ExternalEvent("go", {"n": 1})), on_other=True))
    last = call("task", "t")
    row = reference.store.task("t")
    (difference,) = differences(row, replace(row, ready_at=0))

    text = script(micros(STARTED), steps, last, row, difference)

    assert text.partition("-> None:\n")[2] == SCRIPT
    shown_by(text)(MemoryFactory())


SCRIPT: Final = """\
    store, clock = store_factory.make(), store_factory.clock()
    start = clock.now()
    began = micros(start)
    other = store_factory.another()
    store.create(NewTask("t", "agent", "goal", queue="other"))
    (claim_1,) = store.claim("w", None, 60.0, token="token").claims
    with pytest.raises(InvalidLease):
        store.release(replace(claim_1, token="forged"))
    clock.advance(0.5)
    store.append(
        claim_1,
        1,
        Commit(entries=(TaskSuspended(TimerFired(start + 10.0)),), next=Suspend(TimerFired(start + 10.0))),
    )
    other.wake("t", ExternalEvent("go", payload={"n": 1}))
    answer = store.task("t")
    assert answer.ready_at == began + 10_000_000
"""


def test_a_script_shows_births_orders_and_time_limits_as_they_were_called() -> None:
    reference = Reference(STARTED)
    steps: list[Done] = []

    def do(step: Call) -> object:
        answer = reference.perform(step, None, lambda name: None, several=False)
        steps.append(Done(step, answer, {}))
        return answer

    do(call("create", NewTask("t", "agent", "goal")))
    taken = do(call("claim", "w", None, 60.0, token="token"))
    assert isinstance(taken, Claims)
    (claim,) = taken.claims
    child = Child("t.1-0.0", "agent", "goal", group=BACKGROUND, parent="t", root="t")
    waits = Suspend(ExternalEvent("go", timeout_at=STARTED + 5.0), again=True)
    do(call("append", claim, 1, Commit(children=(child,), next=waits)))
    do(call("post", "t", ControlReceived(reason="why"), key="k"))
    last = call("task", "t")
    row = reference.store.task("t")
    (difference,) = differences(row, replace(row, epoch=1))

    text = script(micros(STARTED), steps, last, row, difference)

    assert text.partition("store_factory.clock()\n")[2] == FAMILY_SCRIPT
    shown_by(text)(MemoryFactory())


FAMILY_SCRIPT: Final = """\
    start = clock.now()
    store.create(NewTask("t", "agent", "goal"))
    (claim_1,) = store.claim("w", None, 60.0, token="token").claims
    store.append(
        claim_1,
        1,
        Commit(
            next=Suspend(ExternalEvent("go", timeout_at=start + 5.0), again=True),
            children=(Child("t.1-0.0", "agent", "goal", group="background", parent="t", root="t"),),
        ),
    )
    store.post("t", ControlReceived(reason="why"), key="k")
    answer = store.task("t")
    assert answer.epoch == 2
"""


def shown_by(script: str) -> Callable[[StoreFactory], None]:
    """The test that a script holds."""
    names: dict[str, Any] = {}
    exec(compile(script, "<script>", "exec"), names)
    test: Callable[[StoreFactory], None] = names["test_the_store_answers_as_the_reference"]
    return test
