"""How the owner of a kept task goes on: resume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from noeta.core import codec
from noeta.core.errors import InvalidLease
from noeta.core.events import MessageTaken, ModelCalled, TaskSuspended, TaskWoken
from noeta.core.ids import timer_key
from noeta.core.store import Claim, End, Posted, Resumed, Store, Suspend
from noeta.core.task import Shape, Status
from noeta.core.wake import (
    CANCEL,
    CLOSE,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
)
from noeta.testing.contract.stage import (
    A_MESSAGE,
    A_WAIT,
    DONE,
    LEASE,
    LEASE_MICROS,
    ONE_MICRO,
    ContractTests,
    Stage,
    at_once,
)

ROUNDS: Final = 12
CALLED: Final = ModelCalled("h", 1)

TIMED: Final[dict[str, Callable[[float], WakeCondition]]] = {
    "timer": TimerFired,
    "question": lambda at: HumanResponseReceived("question-1", timeout_at=at),
    "event": lambda at: ExternalEvent("deployed", timeout_at=at),
}
"""Waits that the store ends by itself at an instant."""

of_every_kind = pytest.mark.parametrize("kind", list(TIMED))

GONE: Final[dict[str, Callable[[Stage, Claim], object]]] = {
    "lapsed": lambda stage, claim: _lapsed(stage),
    "taken-over": lambda stage, claim: _lapsed(stage).claim("w2"),
    "swept": lambda stage, claim: _lapsed(stage).store.requeue_stale(),
    "cancelled": lambda stage, claim: _lapsed(stage).cancel(),
    "released": lambda stage, claim: stage.store.release(claim),
    "suspended": lambda stage, claim: stage.suspend(claim),
    "failed": lambda stage, claim: stage.store.fail(claim, "boom"),
    "ended": lambda stage, claim: stage.append(claim, next=End(DONE)),
}
"""What may have become of a kept task before its owner comes back."""


class KeptContract(ContractTests):
    def test_the_owner_of_a_kept_task_goes_on_under_its_claim_and_its_lease(self, stage: Stage) -> None:
        """The lease is not extended, and nothing is written to the log. Keeps: one-writer."""
        claim = stage.suspended(keep=True)
        before = stage.page()
        stage.clock.advance(5)

        resumed = stage.store.resume(claim)

        assert resumed == Resumed(stage.now, inbox_seq=0, last_seq=2, timer_fired=False)
        row = replace(before.row, status=Status.RUNNING, kept=False, wake_on=None, wake_key=None, wake_missing=0)
        assert stage.page() == replace(before, row=row)
        assert row.lease_until == stage.now - 5_000_000 + LEASE_MICROS

    def test_a_resumed_task_is_written_renewed_and_kept_again(self, stage: Stage) -> None:
        claim = stage.suspended(keep=True)
        for n in range(3):
            stage.clock.advance(LEASE / 2)
            stage.store.resume(claim)
            stage.append(claim, CALLED)
            (renewal,) = stage.store.renew(claim, LEASE)
            assert (renewal.outcome, renewal.timer_due) == ("held", False), n
            stage.suspend(claim, keep=True)
            assert stage.row().shape is Shape.KEPT

        stage.store.resume(claim)
        stage.append(claim, next=End(DONE))
        assert {entry.epoch for entry in stage.page().entries[1:]} == {claim.epoch}

    def test_a_resumed_task_is_nobody_elses_until_its_lease_lapses(self, stage: Stage) -> None:
        """Keeps: one-writer, never-stuck."""
        claim = stage.suspended(wake_on=stage.timer(10), keep=True)
        stage.store.resume(claim)
        stage.clock.advance(LEASE - ONE_MICRO)
        assert stage.store.fire_due_timers() == ()
        assert stage.nothing_claimable()

        stage.clock.advance(ONE_MICRO)

        taken = stage.claim("w2")
        assert (taken.cause, taken.epoch, taken.takeovers) == ("running", claim.epoch + 1, 1)

    def test_a_group_that_was_waited_for_is_not_counted_any_more(self, stage: Stage) -> None:
        claim = stage.suspended(wake_on=SubtaskGroupCompleted("g", members=3), keep=True)
        assert stage.row().wake_missing == 3

        stage.store.resume(claim)

        assert (stage.row().wake_key, stage.row().wake_missing) == (None, 0)

    # -- the timer -----------------------------------------------------------------------------------------

    @of_every_kind
    def test_a_timer_that_is_due_is_the_stored_condition_byte_for_byte(self, stage: Stage, kind: str) -> None:
        """As everywhere: under the key of the wait. Keeps: timers-once."""
        condition = TIMED[kind](stage.clock.now() + 7.123_456)
        claim = stage.suspended(wake_on=condition, keep=True)
        stage.clock.advance(8)

        resumed = stage.store.resume(claim)

        assert resumed == Resumed(stage.now, inbox_seq=1, last_seq=2, timer_fired=True)
        (item,) = stage.unread()
        assert (item.item, item.body) == (condition, codec.encode("wake_on", condition))
        assert (item.number, item.at, item.key) == (1, stage.now, timer_key("t", 2))
        row = stage.row()
        assert (row.shape, row.ready_at, row.wake_on, row.inbox_seq) == (Shape.RUNNING, None, None, 1)

    @of_every_kind
    def test_a_timer_that_is_not_due_leaves_nothing(self, stage: Stage, kind: str) -> None:
        """And fires at no later time: the wait is over. Keeps: timers-once."""
        claim = stage.suspended(wake_on=TIMED[kind](stage.clock.now() + 7.5), keep=True)
        stage.clock.advance(7.5 - ONE_MICRO)

        assert not stage.store.resume(claim).timer_fired

        stage.clock.advance(10)
        assert not stage.store.resume(claim).timer_fired
        assert stage.store.fire_due_timers() == ()
        assert stage.unread() == ()

    @of_every_kind
    def test_a_timer_is_due_at_its_very_instant(self, stage: Stage, kind: str) -> None:
        claim = stage.suspended(wake_on=TIMED[kind](stage.clock.now() + 7.5), keep=True)
        stage.clock.advance(7.5)

        assert stage.store.resume(claim).timer_fired

    def test_the_same_wait_kept_again_is_the_same_timer(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        condition = stage.timer(5)
        claim = stage.suspended(wake_on=condition, keep=True)
        stage.clock.advance(5)
        stage.store.resume(claim)
        stage.append(claim, next=Suspend(condition, keep=True))
        assert stage.row().shape is Shape.KEPT

        assert stage.store.resume(claim) == Resumed(stage.now, inbox_seq=1, last_seq=2, timer_fired=True)

        assert len(stage.unread()) == 1

    def test_the_next_kept_wait_has_its_own_timer(self, stage: Stage) -> None:
        first = stage.timer(5)
        claim = stage.suspended(wake_on=first, keep=True)
        stage.clock.advance(5)
        stage.store.resume(claim)
        stage.append(claim, TaskWoken((1,), first))
        second = stage.timer(5)
        stage.suspend(claim, second, keep=True)
        stage.clock.advance(5)

        assert stage.store.resume(claim).timer_fired
        assert stage.items() == [second]

    # -- repeats -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("due", [False, True], ids=["not-due", "due"])
    def test_a_repeat_is_answered_alike_and_changes_nothing(self, stage: Stage, due: bool) -> None:
        """As after an unknown outcome. Keeps: timers-once."""
        claim = stage.suspended(wake_on=stage.timer(5 if due else 500), keep=True)
        stage.clock.advance(5)
        first = stage.store.resume(claim)

        with stage.nothing_changes():
            assert stage.store.resume(claim) == first
        assert first.timer_fired is due

    def test_a_task_that_runs_goes_on_running(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)

        with stage.nothing_changes():
            assert stage.store.resume(claim) == Resumed(stage.now, inbox_seq=1, last_seq=1, timer_fired=False)

    # -- the fence -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("why", list(GONE))
    def test_a_claim_that_does_not_hold_resumes_nothing(self, stage: Stage, why: str) -> None:
        """Its timer is due, and no item is made of it. Keeps: one-writer, timers-once."""
        claim = stage.suspended(wake_on=stage.timer(1), keep=True)
        stage.clock.advance(1)
        GONE[why](stage, claim)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.resume(claim)

    @pytest.mark.parametrize("field", ["token", "epoch"])
    def test_only_epoch_and_token_together_resume(self, stage: Stage, field: str) -> None:
        """Keeps: one-writer."""
        claim = stage.suspended(wake_on=stage.timer(0), keep=True)
        forged = replace(claim, token="other") if field == "token" else replace(claim, epoch=claim.epoch + 1)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.resume(forged)

    def test_a_lease_that_is_nearly_over_is_good_enough(self, stage: Stage) -> None:
        claim = stage.suspended(wake_on=stage.timer(LEASE - ONE_MICRO), keep=True)
        stage.clock.advance(LEASE - ONE_MICRO)

        assert stage.store.resume(claim).timer_fired

    # -- what came meanwhile -------------------------------------------------------------------------------

    def test_what_came_while_the_task_was_kept_is_there(self, stage: Stage) -> None:
        """Before the timer's item, in the order of arrival. Keeps: wake-once, taken-once."""
        condition = stage.timer(5)
        claim = stage.suspended(wake_on=condition, keep=True)
        assert stage.store.post("t", A_MESSAGE) == Posted("stored", 1, made_ready=False)
        stage.clock.advance(5)

        assert stage.store.resume(claim) == Resumed(stage.now, inbox_seq=2, last_seq=2, timer_fired=True)

        assert stage.items() == [A_MESSAGE, condition]
        stage.append(claim, MessageTaken(1, A_MESSAGE), TaskWoken((2,), condition))
        assert stage.unread() == ()

    @pytest.mark.parametrize("action", [CANCEL, CLOSE])
    def test_an_order_that_came_while_the_task_was_kept_stays_for_its_owner(self, stage: Stage, action: str) -> None:
        """Keeps: terminal-is-final."""
        order = ControlReceived(action, "enough")
        claim = stage.suspended(keep=True)
        assert stage.store.post("t", order).outcome == "stored"

        assert stage.store.resume(claim).inbox_seq == 1

        assert stage.items() == [order]
        assert stage.store.renew(claim, LEASE)[0].ordered
        stage.append(claim, MessageTaken(1, order))
        assert not stage.store.renew(claim, LEASE)[0].ordered

    def test_an_item_for_a_resumed_task_moves_its_next_wait(self, stage: Stage) -> None:
        """Its owner knew of nothing: it stays running. Keeps: wake-once."""
        claim = stage.suspended(keep=True)
        seen = stage.store.resume(claim).inbox_seq
        stage.store.post("t", A_MESSAGE)

        appended = stage.append(claim, TaskSuspended(A_WAIT), next=Suspend(A_WAIT, keep=True), inbox_seen=seen)

        assert (appended.moved, appended.status) == (True, Status.RUNNING)

    # -- at once -------------------------------------------------------------------------------------------

    def test_repeats_at_once_make_one_item_of_a_timer(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        handles = [stage.another() for _ in range(3)]
        for n in range(ROUNDS):
            claim = stage.suspended(f"t{n}", stage.timer(0), keep=True)

            answers = at_once(*(_bound_resume(store, claim) for store in handles))

            assert answers == [Resumed(stage.now, inbox_seq=1, last_seq=2, timer_fired=True)] * 3
            assert len(stage.unread(f"t{n}")) == 1

    def test_a_resume_and_a_post_at_once_lose_nothing(self, stage: Stage) -> None:
        """Keeps: taken-once, timers-once, wake-once."""
        one, two = stage.another(), stage.another()
        for n in range(ROUNDS):
            id = f"t{n}"
            claim = stage.suspended(id, stage.timer(0), keep=True)

            answers = at_once(_bound_resume(one, claim), lambda id=id: two.post(id, A_MESSAGE, "key"))  # type: ignore[misc]

            resumed, posted = answers
            assert isinstance(resumed, Resumed) and isinstance(posted, Posted), answers
            assert {posted.number, stage.row(id).inbox_seq} <= {1, 2}
            assert len(stage.unread(id)) == stage.row(id).inbox_seq == 2
            assert resumed.inbox_seq in (1, 2)
            assert stage.row(id).shape is Shape.RUNNING


def _lapsed(stage: Stage) -> Stage:
    stage.clock.advance(LEASE)
    return stage


def _bound_resume(store: Store, claim: Claim) -> Callable[[], object]:
    return lambda: store.resume(claim)
