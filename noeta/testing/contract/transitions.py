"""Every line of ``noeta.core.task.TRANSITIONS``, driven on the store and compared with ``step``.

``DRIVERS`` says for each cause how a store is made to do it and what the row then holds that the table leaves
to the values given. A test asserts that every (cause, shape) of the table has been driven.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest

from noeta.core.errors import InvalidLease
from noeta.core.events import ModelCalled, TaskFailed, TaskSuspended
from noeta.core.store import Child, Claim, End, PutBack, Suspend, claim_from_row
from noeta.core.task import TRANSITIONS, Cause, Given, Shape, TaskRow, fail_backoff, step, takeover_backoff
from noeta.core.wake import ControlReceived
from noeta.testing.contract.stage import A_WAIT, DONE, LEASE, LEASE_MICROS, ContractTests, Stage

CALLED: Final = ModelCalled("h", 1)
CHILD: Final = Child("p.1-0.1", "helper", "help")
"""Its row is the one looked at where the cause lies in the family."""


@dataclass(frozen=True, slots=True)
class Driver:
    """``wait``: seconds until the store may do it. ``do`` makes it. ``given``: what the table leaves open.
    ``beside``: what changes besides the table's columns (entries, items, counters)."""

    do: Callable[[Stage, Claim], object]
    given: Callable[[Stage, TaskRow], Given]
    beside: Callable[[TaskRow], dict[str, int]] = lambda before: {}
    wait: float = 0.0


def _one_entry(before: TaskRow) -> dict[str, int]:
    return {"last_seq": before.last_seq + 1, "takeovers": 0}


def _one_item(before: TaskRow) -> dict[str, int]:
    return {"inbox_seq": before.inbox_seq + 1}


DRIVERS: Final[dict[Cause, Driver]] = {
    Cause.CLAIM: Driver(
        lambda stage, claim: stage.store.claim("w2", None, LEASE, token="new"),
        lambda stage, before: Given("w2", "new", stage.now + LEASE_MICROS),
        lambda before: _one_item(before) if before.shape is Shape.SUSPENDED else {},
        wait=LEASE,
    ),
    Cause.SWEEP: Driver(
        lambda stage, claim: stage.store.requeue_stale(),
        lambda stage, before: Given(ready_at=(before.lease_until or 0) + takeover_backoff(before.takeovers + 1)),
        wait=LEASE,
    ),
    Cause.FIRE: Driver(
        lambda stage, claim: stage.store.fire_due_timers(),
        lambda stage, before: Given(ready_at=stage.now),
        _one_item,
        wait=10.0,
    ),
    Cause.POST: Driver(
        lambda stage, claim: stage.store.post("t", ControlReceived("close")),
        lambda stage, before: Given(ready_at=stage.now),
        _one_item,
    ),
    Cause.ORDER: Driver(
        lambda stage, claim: stage.append(claim_from_row(stage.row("p")), next=End(TaskFailed("code"))),
        lambda stage, before: Given(ready_at=stage.now),
        _one_item,
        wait=1.0,
    ),
    Cause.CANCEL: Driver(
        lambda stage, claim: stage.store.post("t", ControlReceived()),
        lambda stage, before: Given(),
        lambda before: _one_item(before) | _one_entry(before),
        wait=LEASE,
    ),
    Cause.RENEW: Driver(
        lambda stage, claim: _renew(stage, claim),
        lambda stage, before: Given(before.worker, before.token, stage.now + LEASE_MICROS),
        wait=1.0,
    ),
    Cause.CONTINUE: Driver(
        lambda stage, claim: stage.append(claim, CALLED), lambda stage, before: Given(), _one_entry, wait=1.0
    ),
    Cause.RESUME: Driver(  # the kept task waits for a timer
        lambda stage, claim: stage.store.resume(claim),
        lambda stage, before: Given(),
        lambda before: _one_item(before) if before.shape is Shape.KEPT else {},
        wait=10.0,
    ),
    Cause.SUSPEND: Driver(
        lambda stage, claim: stage.append(claim, TaskSuspended(A_WAIT), next=Suspend(A_WAIT)),
        lambda stage, before: Given(wake_on=A_WAIT, wake_key="human:next-goal", wake_missing=1),
        lambda before: _one_entry(before) | {"fail_attempts": 0},
        wait=1.0,
    ),
    Cause.KEEP: Driver(
        lambda stage, claim: stage.append(claim, TaskSuspended(A_WAIT), next=Suspend(A_WAIT, keep=True)),
        lambda stage, before: Given(wake_on=A_WAIT, wake_key="human:next-goal", wake_missing=1),
        lambda before: _one_entry(before) | {"fail_attempts": 0},
        wait=1.0,
    ),
    Cause.PUT_BACK: Driver(
        lambda stage, claim: stage.append(claim, CALLED, next=PutBack(5.0)),
        lambda stage, before: Given(ready_at=stage.now + 5_000_000),
        _one_entry,
        wait=1.0,
    ),
    Cause.END: Driver(
        lambda stage, claim: stage.append(claim, next=End(TaskFailed("code"))),
        lambda stage, before: Given(),
        _one_entry,
        wait=1.0,
    ),
    Cause.RELEASE: Driver(
        lambda stage, claim: stage.store.release(claim), lambda stage, before: Given(ready_at=stage.now), wait=1.0
    ),
    Cause.FAIL: Driver(
        lambda stage, claim: stage.store.fail(claim, "why"),
        lambda stage, before: Given(ready_at=stage.now + fail_backoff(before.fail_attempts + 1)),
        wait=1.0,
    ),
}

LEGAL: Final = [(cause, shape) for cause, line in TRANSITIONS.items() for shape in Shape if shape in line.sources]
ILLEGAL: Final = [(cause, shape) for cause in Cause for shape in Shape if shape not in TRANSITIONS[cause].sources]
UNHEARD: Final = frozenset({Cause.CLAIM, Cause.SWEEP, Cause.FIRE, Cause.CANCEL})
"""Causes whose verb refuses nobody: a row that is in no source is not found, or has ended before."""


def _renew(stage: Stage, claim: Claim) -> None:
    (renewal,) = stage.store.renew(claim, LEASE)
    if renewal.outcome != "held":
        raise InvalidLease(renewal.outcome)


def _named(pairs: list[tuple[Cause, Shape]]) -> pytest.MarkDecorator:
    ids = [f"{cause.value}-from-{shape.value}" for cause, shape in pairs]
    return pytest.mark.parametrize(("cause", "shape"), pairs, ids=ids)


class TransitionsContract(ContractTests):
    @_named(LEGAL)
    def test_the_store_makes_the_transition_that_the_table_says(self, stage: Stage, cause: Cause, shape: Shape) -> None:
        """Keeps: row-agrees, epochs-rise."""
        driver = DRIVERS[cause]
        claim = _into(stage, shape, cause)
        stage.clock.advance(driver.wait)
        before = stage.row(claim.task_id)
        assert before.shape is shape

        driver.do(stage, claim)

        expected = replace(step(before, cause, driver.given(stage, before)), **driver.beside(before))  # type: ignore[arg-type]
        assert stage.row(claim.task_id) == expected
        assert [entry.seq for entry in stage.page(claim.task_id).entries] == list(range(1, expected.last_seq + 1))

    @_named(ILLEGAL)
    def test_what_the_table_does_not_say_is_refused_and_changes_nothing(
        self, stage: Stage, cause: Cause, shape: Shape
    ) -> None:
        """Keeps: terminal-is-final, one-writer."""
        driver = DRIVERS[cause]
        claim = _into(stage, shape, cause)
        if cause in (Cause.FIRE, Cause.SWEEP) and shape in (Shape.RUNNING, Shape.KEPT):
            stage.clock.advance(10.0)  # its timer is due, its lease is not over
        elif shape not in (Shape.RUNNING, Shape.KEPT):
            stage.clock.advance(driver.wait)
        before = stage.row(claim.task_id)
        assert before.shape is shape

        if cause in (Cause.POST, Cause.ORDER):  # an item may come at any time: the row knows of it
            driver.do(stage, claim)
            after = replace(before, inbox_seq=before.inbox_seq + (shape is not Shape.TERMINAL))
            if shape is Shape.SUSPENDED:  # an order, which ends every wait
                after = step(after, Cause.POST, Given(ready_at=stage.now))
            assert stage.row(claim.task_id) == after
        elif cause in UNHEARD:
            with stage.nothing_changes():
                driver.do(stage, claim)
        else:
            with stage.nothing_changes(), pytest.raises(InvalidLease):
                driver.do(stage, claim)

    def test_every_line_of_the_table_has_a_driver(self) -> None:
        assert set(DRIVERS) == set(TRANSITIONS) == set(Cause)
        assert {(cause, shape) for cause, shape in LEGAL + ILLEGAL} == {(c, s) for c in Cause for s in Shape}


def _into(stage: Stage, shape: Shape, cause: Cause) -> Claim:
    """A task in this shape, and the last claim it was under."""
    if cause is Cause.ORDER:
        return _child_into(stage, shape)
    if shape is Shape.PENDING:
        claim = stage.running()
        stage.store.release(claim)
        return claim
    reached = stage.in_shape(shape)
    assert reached is not None
    return reached


def _child_into(stage: Stage, shape: Shape) -> Claim:
    """A child in this shape under a parent that runs; a pending one rests."""
    parent = stage.running("p", lease=100 * LEASE)
    stage.append(parent, children=(CHILD,))
    claim = stage.claim("w2")
    match shape:
        case Shape.PENDING:
            stage.append(claim, next=PutBack(LEASE))
        case Shape.SUSPENDED | Shape.KEPT:
            stage.suspend(claim, stage.timer(10), keep=shape is Shape.KEPT)
        case Shape.TERMINAL:
            stage.append(claim, next=End(DONE))
        case Shape.RUNNING:
            pass
    return claim
