"""The one table of transitions, and ``step`` which applies it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core.errors import IllegalTransition
from noeta.core.task import (
    TRANSITIONS,
    Cause,
    Given,
    Keeps,
    Shape,
    Status,
    TaskRow,
    claimable_at,
    fail_backoff,
    step,
    takeover_backoff,
)
from noeta.core.wake import HumanResponseReceived

WAIT = HumanResponseReceived("h")
GIVEN = Given("new worker", "new token", 900, 700, WAIT, "human:h", 1)


def row(shape: Shape) -> TaskRow:
    owned = shape in (Shape.RUNNING, Shape.KEPT)
    waits = shape in (Shape.SUSPENDED, Shape.KEPT)
    return TaskRow(
        id="t",
        queue="q",
        status=Status.SUSPENDED if waits else Status(shape.value),
        kept=shape is Shape.KEPT,
        epoch=4,
        worker="w" if owned else None,
        token="token" if owned else None,
        lease_until=500 if owned else None,
        ready_at=300 if waits or shape is Shape.PENDING else None,
        wake_on=WAIT if waits else None,
        wake_key="human:h" if waits else None,
        wake_missing=1 if waits else 0,
        inbox_seq=6,
        last_seq=8,
        takeovers=2,
        fail_attempts=1,
        parent="p",
        group="g",
        created_at=100,
    )


LEGAL = [(cause, shape) for cause, line in TRANSITIONS.items() for shape in Shape if shape in line.sources]
ILLEGAL = [(cause, shape) for cause in Cause for shape in Shape if shape not in TRANSITIONS[cause].sources]


def test_every_cause_has_a_line() -> None:
    assert set(TRANSITIONS) == set(Cause)


def test_nothing_leaves_the_terminal_status() -> None:
    """Keeps: terminal-is-final."""
    assert all(Shape.TERMINAL not in line.sources for line in TRANSITIONS.values())


def test_every_status_but_the_terminal_one_can_be_left_by_a_worker() -> None:
    """Keeps: never-stuck."""
    assert TRANSITIONS[Cause.CLAIM].sources == set(Shape) - {Shape.TERMINAL}


@pytest.mark.parametrize(("cause", "shape"), LEGAL)
def test_a_step_keeps_the_relations_of_a_row(cause: Cause, shape: Shape) -> None:
    """Keeps: row-agrees, epochs-rise."""
    before = row(shape)
    after = step(before, cause, GIVEN)
    line = TRANSITIONS[cause]

    owned = after.status is Status.RUNNING or after.kept
    assert owned == (after.worker is not None) == (after.token is not None) == (after.lease_until is not None)
    assert (after.status is Status.SUSPENDED) == (after.wake_on is not None)
    assert after.shape is (shape if cause is Cause.RENEW else line.to)
    assert after.epoch == before.epoch + (cause in (Cause.CLAIM, Cause.CANCEL))
    assert after.takeovers == before.takeovers + (
        cause in (Cause.CLAIM, Cause.SWEEP) and shape in (Shape.RUNNING, Shape.KEPT)
    )
    assert after.fail_attempts == before.fail_attempts + (cause is Cause.FAIL)
    assert (after.id, after.queue, after.parent, after.group, after.created_at) == ("t", "q", "p", "g", 100)
    assert (after.inbox_seq, after.last_seq) == (6, 8)
    if line.ready is Keeps.CLEARED:
        assert after.ready_at is None


@pytest.mark.parametrize(("cause", "shape"), ILLEGAL)
def test_a_step_that_the_table_does_not_have_names_task_status_and_command(cause: Cause, shape: Shape) -> None:
    with pytest.raises(IllegalTransition, match=rf"'t' is {shape.value}: {cause.value} "):
        step(row(shape), cause, GIVEN)


def test_a_row_is_claimable_when_its_instant_has_come() -> None:
    assert claimable_at(row(Shape.PENDING)) == 300
    assert claimable_at(row(Shape.SUSPENDED)) == 300
    assert claimable_at(row(Shape.RUNNING)) == claimable_at(row(Shape.KEPT)) == 500 + takeover_backoff(3)
    assert claimable_at(row(Shape.TERMINAL)) is None


@given(st.integers(0, 2**63))
def test_backoffs_grow_to_their_ceiling_and_never_overflow(count: int) -> None:
    """https://github.com/graphile/worker/issues/611"""
    for backoff in (takeover_backoff, fail_backoff):
        assert 0 <= backoff(count) <= backoff(count + 1) <= 30_000_000


def test_the_first_takeovers_cost_no_rest() -> None:
    assert [takeover_backoff(n) for n in range(5)] == [0, 0, 0, 1_000_000, 2_000_000]
    assert [fail_backoff(n) for n in (1, 2, 99)] == [1_000_000, 2_000_000, 30_000_000]
