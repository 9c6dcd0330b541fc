"""Suspending without losing a wake, waking once, and the kept wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noeta.core import codec, limits
from noeta.core.errors import Conflict
from noeta.core.events import (
    MessageTaken,
    ModelReplied,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
)
from noeta.core.store import Continue, End, Post, Posted, PutBack, Suspend
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, Item
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, A_WAIT, LEASE, ContractTests, Stage


class WaitingContract(ContractTests):
    @holds("status/suspended", "guarantee/waiting-is-free")
    def test_a_suspended_task_holds_nothing(self, stage: Stage) -> None:
        """Keeps: waiting-is-free, row-agrees."""
        claim = stage.running()

        appended = stage.suspend(claim)

        assert (appended.status, appended.moved) == (Status.SUSPENDED, False)
        row = stage.row()
        assert (row.status, row.kept, row.wake_on, row.wake_key) == (
            Status.SUSPENDED,
            False,
            A_WAIT,
            "human:next-goal",
        )
        assert (row.worker, row.token, row.lease_until, row.ready_at) == (None, None, None, None)

    def test_a_wake_before_the_wait_is_not_lost(self, stage: Stage) -> None:
        """Keeps: wake-once. https://github.com/inngest/inngest/issues/1433"""
        claim = stage.running()
        stage.store.wake("t", A_MESSAGE)

        appended = stage.suspend(claim, inbox_seen=0)

        assert (appended.status, appended.moved, appended.inbox_seq) == (Status.PENDING, True, 1)
        row = stage.row()
        assert (row.status, row.ready_at, row.wake_on) == (Status.PENDING, stage.now, None)
        stage.claim("w2")
        assert stage.items() == [A_MESSAGE]

    def test_a_wake_between_the_look_and_the_suspension_is_not_lost(self, stage: Stage) -> None:
        """Keeps: wake-once. https://github.com/inngest/inngest/issues/1433"""
        claim = stage.running()
        stage.store.post("t", ExternalEvent("seen"))
        seen = stage.page().inbox_seen
        stage.store.wake("t", A_MESSAGE)

        assert stage.suspend(claim, inbox_seen=seen).status is Status.PENDING

    def test_any_item_that_was_not_seen_costs_one_look(self, stage: Stage) -> None:
        """Whatever it is: the store does not match. The next owner puts the row back. Keeps: wake-once."""
        claim = stage.running()
        stage.store.post("t", ExternalEvent("unrelated"))
        assert stage.suspend(claim, inbox_seen=0).status is Status.PENDING

        claim = stage.claim("w2")
        put_back = stage.append(claim, next=Suspend(A_WAIT), inbox_seen=1)

        assert (put_back.status, put_back.moved, put_back.last_seq) == (Status.SUSPENDED, False, 2)
        assert stage.row().takeovers == 0
        assert stage.nothing_claimable()
        assert stage.items() == [ExternalEvent("unrelated")]

    def test_an_item_that_was_seen_does_not_hinder_the_wait(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.post("t", ExternalEvent("seen"))

        assert stage.suspend(claim, inbox_seen=1).status is Status.SUSPENDED

    @pytest.mark.parametrize("missed", [A_MESSAGE, ExternalEvent("unrelated"), ControlReceived("close")], ids=repr)
    def test_a_worker_that_will_look_again_stays_running_under_its_claim(self, stage: Stage, missed: Item) -> None:
        """Whatever it missed. Keeps: wake-once, never-stuck."""
        claim = stage.running()
        before = stage.row()
        stage.store.post("t", missed)

        appended = stage.append(claim, TaskSuspended(A_WAIT), next=Suspend(A_WAIT, again=True), inbox_seen=0)

        assert (appended.status, appended.moved, appended.inbox_seq) == (Status.RUNNING, True, 1)
        assert stage.row() == replace(before, last_seq=2, inbox_seq=1)
        waits = stage.append(claim, next=Suspend(A_WAIT, again=True), inbox_seen=1)
        assert (waits.status, waits.moved) == (Status.SUSPENDED, False)

    def test_a_worker_that_would_look_again_suspends_if_it_missed_nothing(self, stage: Stage) -> None:
        """Keeps: waiting-is-free."""
        claim = stage.running()
        stage.store.post("t", ExternalEvent("seen"))

        appended = stage.append(claim, TaskSuspended(A_WAIT), next=Suspend(A_WAIT, again=True), inbox_seen=1)

        assert (appended.status, appended.moved) == (Status.SUSPENDED, False)
        row = stage.row()
        assert (row.worker, row.token, row.lease_until, row.wake_on) == (None, None, None, A_WAIT)

    def test_a_flood_of_unrelated_items_between_look_and_suspension_costs_a_look_a_page(self, stage: Stage) -> None:
        """No more, and what fits the wait is found behind them all. Keeps: never-stuck, wake-once, taken-once."""
        claim = stage.running()
        sender = stage.running("sender", lease=10 * LEASE)
        for part in range(2):
            posts = tuple(Post("t", ExternalEvent("noise", n), f"{part} {n}") for n in range(600))
            stage.append(sender, posts=posts)

        looks = 0
        seen = 0
        while (appended := stage.append(claim, next=Suspend(A_WAIT, again=True), inbox_seen=seen)).moved:
            looks += 1
            seen = stage.store.read("t", inbox_after=seen).inbox_seen

        assert (appended.status, looks) == (Status.SUSPENDED, 2)
        stage.append(sender, posts=(Post("t", ExternalEvent("noise"), "one more"),))
        assert stage.row().status is Status.SUSPENDED
        assert stage.store.wake("t", A_MESSAGE) == Posted("stored", 1_202, made_ready=True)
        claim = stage.claim("w2")
        (item,) = stage.store.read("t", inbox_after=1_201).unread
        stage.append(claim, TaskWoken((item.number,), item.item))
        assert len(stage.unread()) == limits.COMMIT_PARTS_MAX

    def test_a_kept_wait_that_missed_an_item_stays_running_under_its_claim(self, stage: Stage) -> None:
        """Keeps: wake-once."""
        claim = stage.running()
        stage.store.wake("t", A_MESSAGE)

        appended = stage.suspend(claim, keep=True, inbox_seen=0)

        assert (appended.status, appended.moved) == (Status.RUNNING, True)
        row = stage.row()
        assert (row.status, row.kept, row.epoch, row.token, row.lease_until, row.wake_on) == (
            Status.RUNNING,
            False,
            claim.epoch,
            claim.token,
            claim.lease_until,
            None,
        )
        stage.append(claim, TaskWoken((1,), A_MESSAGE))

    def test_a_kept_wait_keeps_owner_and_lease(self, stage: Stage) -> None:
        claim = stage.running()

        appended = stage.suspend(claim, keep=True)

        row = stage.row()
        assert (appended.status, row.status, row.kept) == (Status.SUSPENDED, Status.SUSPENDED, True)
        assert (row.worker, row.token, row.lease_until, row.epoch) == (
            claim.worker,
            claim.token,
            claim.lease_until,
            claim.epoch,
        )
        assert row.wake_on == A_WAIT

    @holds("writer/contract-kept")
    def test_the_owner_of_a_kept_wait_goes_on_under_the_same_claim(self, stage: Stage) -> None:
        claim = stage.suspended(keep=True)
        stage.store.wake("t", A_MESSAGE)

        appended = stage.append(claim, TaskWoken((1,), A_MESSAGE))

        assert (appended.status, stage.row().wake_on, stage.row().epoch) == (Status.RUNNING, None, claim.epoch)

    def test_a_completion_that_missed_a_message_lands_without_its_ending(self, stage: Stage) -> None:
        """Nothing is lost while a task closes. Keeps: taken-once, terminal-is-final.

        https://github.com/temporalio/temporal/issues/4137
        """
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)

        appended = stage.append(claim, ModelReplied("bye"), next=End(TaskCompleted("bye")), inbox_seen=0)

        assert (appended.status, appended.moved, appended.first_seq, appended.last_seq) == (
            Status.RUNNING,
            True,
            2,
            2,
        )
        assert stage.events()[-1] == ModelReplied("bye")
        assert stage.items() == [A_MESSAGE]
        done = stage.append(claim, MessageTaken(1, A_MESSAGE), next=End(TaskCompleted("bye")), inbox_seen=1)
        assert (done.status, done.moved) == (Status.TERMINAL, False)

    @pytest.mark.parametrize("ending", [TaskFailed("why"), TaskCancelled("why")], ids=["failed", "cancelled"])
    def test_failure_and_cancel_do_not_wait_for_the_inbox(
        self, stage: Stage, ending: TaskFailed | TaskCancelled
    ) -> None:
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)

        appended = stage.append(claim, next=End(ending), inbox_seen=0)

        assert (appended.status, appended.moved) == (Status.TERMINAL, False)
        assert stage.events()[-1] == ending
        assert stage.unread() == ()

    def test_going_on_and_putting_back_do_not_look_at_the_inbox(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)

        assert not stage.append(claim, next=Continue(), inbox_seen=0).moved
        assert not stage.append(claim, next=PutBack(), inbox_seen=0).moved

    def test_a_task_put_back_may_be_claimed_after_its_delay(self, stage: Stage) -> None:
        claim = stage.running()

        appended = stage.append(claim, next=PutBack(5))

        row = stage.row()
        assert (appended.status, row.ready_at) == (Status.PENDING, stage.now + 5_000_000)
        assert (row.worker, row.token, row.lease_until) == (None, None, None)
        assert stage.nothing_claimable()
        stage.clock.advance(5)
        assert stage.claim("w2").epoch == claim.epoch + 1

    # -- exactly once --------------------------------------------------------------------------------------

    @holds("guarantee/exactly-once", "wake/survives-a-death", "wake/delivered-again")
    def test_a_wake_comes_again_byte_for_byte_until_it_is_recorded(self, stage: Stage) -> None:
        """Keeps: wake-once."""
        reply = HumanResponseReceived(text="a\x00 é")
        stage.suspended()
        stage.store.wake("t", reply)
        bodies = []
        for n in range(4):
            stage.claim(f"w{n}", lease=1.0)
            bodies += [item.body for item in stage.unread()]
            stage.clock.advance(31.0)
            stage.store.requeue_stale()
            stage.clock.advance(31.0)

        assert bodies == [codec.encode("item", reply)] * 4

    @holds("wake/commit-point", "wake/not-written-twice")
    def test_a_recorded_wake_never_comes_again(self, stage: Stage) -> None:
        """Keeps: wake-once."""
        stage.suspended()
        stage.store.wake("t", A_MESSAGE)
        claim = stage.claim()
        stage.append(claim, TaskWoken((1,), A_MESSAGE))
        stage.clock.advance(LEASE)

        stage.claim("w2")

        assert stage.unread() == ()
        assert stage.events()[-1] == TaskWoken((1,), A_MESSAGE)

    @holds("wake/commit-point", "wake/exactly-once")
    def test_two_owners_cannot_both_record_a_wake(self, stage: Stage) -> None:
        """Keeps: wake-once, one-writer."""
        stage.suspended()
        stage.store.wake("t", A_MESSAGE)
        old = stage.claim()
        stage.clock.advance(LEASE)
        new = stage.claim("w2")
        stage.append(new, TaskWoken((1,), A_MESSAGE))

        with stage.nothing_changes(), pytest.raises(Conflict):
            stage.append(old, TaskWoken((1,), A_MESSAGE))

    def test_one_handle_serves_round_after_round(self, stage: Stage) -> None:
        stage.suspended()
        for n in range(1, 6):
            reply = HumanResponseReceived(text=f"round {n}")
            stage.store.wake("t", reply)
            claim = stage.claim()
            assert stage.items() == [reply]
            stage.append(claim, TaskWoken((n,), reply))
            stage.suspend(claim)

        woken = [event for event in stage.events() if isinstance(event, TaskWoken)]
        assert [event.numbers for event in woken] == [(1,), (2,), (3,), (4,), (5,)]
        assert stage.nothing_claimable()

    @holds("guarantee/for-months")
    def test_a_wait_for_weeks_costs_one_start(self, stage: Stage) -> None:
        """https://github.com/celery/celery/issues/2599 , https://github.com/pretix/pretix/issues/2058"""
        stage.suspended()
        for _ in range(20):
            stage.clock.advance(20 * LEASE)
            assert stage.store.requeue_stale() == ()
            assert stage.store.fire_due_timers() == ()
            assert stage.nothing_claimable()

        assert stage.store.wake("t", A_MESSAGE).made_ready
        assert stage.claim().epoch == 2
        assert stage.nothing_claimable()

    def test_a_suspension_resets_the_failures_of_a_task_that_goes_well(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.fail(claim, "once")
        stage.clock.advance(2)
        claim = stage.claim()
        assert claim.fail_attempts == 1

        stage.suspend(claim)

        assert stage.row().fail_attempts == 0
