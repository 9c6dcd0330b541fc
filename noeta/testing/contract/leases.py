"""How a lease is kept and given back: renew and release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noeta.core.errors import InvalidLease, UnknownTask
from noeta.core.events import TaskCompleted
from noeta.core.store import End, Renewal
from noeta.core.task import Status
from noeta.core.wake import ExternalEvent
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, LEASE, LEASE_MICROS, ONE_MICRO, ContractTests, Stage


class LeasesContract(ContractTests):
    def test_a_renewal_counts_the_lease_from_now(self, stage: Stage) -> None:
        claim = stage.running()
        stage.clock.advance(20)
        stage.store.post("t", A_MESSAGE)

        (renewal,) = stage.store.renew(claim, LEASE)

        until = stage.now + LEASE_MICROS
        assert renewal == Renewal("t", "held", until, inbox_seq=1, timer_due=False, now=stage.now)
        assert stage.row().lease_until == until

    @holds("writer/renew")
    def test_a_renewal_changes_nothing_but_the_lease(self, stage: Stage) -> None:
        claim = stage.running()
        before = stage.row()
        stage.clock.advance(1)

        stage.store.renew(claim, LEASE)

        assert stage.row() == replace(before, lease_until=stage.now + LEASE_MICROS)

    @holds("writer/renew")
    def test_renewals_in_time_keep_a_task_for_ever(self, stage: Stage) -> None:
        """https://github.com/janbjorge/pgqueuer/issues/430 , https://github.com/hexpm/hexpm/pull/1825"""
        claim = stage.running()
        for _ in range(30):
            stage.clock.advance(LEASE / 3)
            (renewal,) = stage.store.renew(claim, LEASE)
            assert renewal.outcome == "held"
            assert stage.nothing_claimable()
            assert stage.store.requeue_stale() == ()

        stage.append(claim)

    def test_a_lease_that_is_over_is_lost_even_if_nobody_took_the_task(self, stage: Stage) -> None:
        """Keeps: one-writer. (A renewal revives such a lease elsewhere.)"""
        claim = stage.running()
        stage.clock.advance(LEASE - ONE_MICRO)
        assert stage.store.renew(claim, LEASE)[0].outcome == "held"
        stage.clock.advance(LEASE)

        with stage.nothing_changes():
            (renewal,) = stage.store.renew(claim, LEASE)
        assert renewal.outcome == "lost"

    def test_a_taken_over_claim_is_lost(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        old = stage.running()
        stage.clock.advance(LEASE)
        stage.claim("w2")

        with stage.nothing_changes():
            assert stage.store.renew(old, LEASE)[0].outcome == "lost"

    def test_a_released_claim_is_lost(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.release(claim)

        with stage.nothing_changes():
            assert stage.store.renew(claim, LEASE)[0].outcome == "lost"

    def test_a_renewal_after_the_end_is_lost_and_changes_nothing(self, stage: Stage) -> None:
        """Keeps: terminal-is-final. https://github.com/PrefectHQ/prefect/issues/18653"""
        claim = stage.running()
        stage.append(claim, next=End(TaskCompleted("done")))

        with stage.nothing_changes():
            assert stage.store.renew(claim, LEASE)[0].outcome == "lost"
        assert stage.nothing_claimable()

    def test_a_renewal_after_a_suspension_is_lost(self, stage: Stage) -> None:
        claim = stage.suspended()

        with stage.nothing_changes():
            assert stage.store.renew(claim, LEASE)[0].outcome == "lost"

    def test_only_epoch_and_token_together_are_the_claim(self, stage: Stage) -> None:
        claim = stage.running()

        forged = (replace(claim, token="other"), replace(claim, epoch=claim.epoch + 1), replace(claim, task_id="no"))
        assert [renewal.outcome for renewal in stage.store.renew(forged, LEASE)] == ["lost"] * 3

    def test_many_claims_are_renewed_in_one_call_each_with_its_own_answer(self, stage: Stage) -> None:
        lost, held, ended = stage.running("a"), stage.running("b"), stage.running("c")
        stage.store.release(lost)
        stage.append(ended, next=End(TaskCompleted()))

        renewals = stage.store.renew([ended, held, lost], LEASE)

        assert [(one.task_id, one.outcome) for one in renewals] == [("c", "lost"), ("b", "held"), ("a", "lost")]

    def test_a_hundred_claims_are_renewed_in_one_call(self, stage: Stage) -> None:
        for n in range(100):
            stage.create(f"t{n:03}")
        claims = stage.claim_all(100)
        stage.clock.advance(1)

        renewals = stage.store.renew(claims, LEASE)

        assert [renewal.task_id for renewal in renewals] == [claim.task_id for claim in claims]
        assert {(renewal.outcome, renewal.lease_until) for renewal in renewals} == {("held", stage.now + LEASE_MICROS)}

    def test_no_claims_to_renew_is_no_error(self, stage: Stage) -> None:
        assert stage.store.renew([], LEASE) == ()

    def test_a_kept_task_stays_kept_and_its_owner_hears_of_items_and_timer(self, stage: Stage) -> None:
        claim = stage.suspended(wake_on=stage.timer(10), keep=True)
        before = stage.row()
        stage.store.post("t", ExternalEvent("news"))

        (early,) = stage.store.renew(claim, LEASE)
        stage.clock.advance(10)
        (due,) = stage.store.renew(claim, LEASE)

        assert (early.outcome, early.inbox_seq, early.timer_due) == ("held", 1, False)
        assert (due.outcome, due.inbox_seq, due.timer_due) == ("held", 1, True)
        row = stage.row()
        assert (row.kept, row.wake_on, row.ready_at) == (True, before.wake_on, before.ready_at)

    # -- release -------------------------------------------------------------------------------------------

    @holds("writer/release")
    def test_a_released_task_is_pending_at_once_under_the_same_epoch(self, stage: Stage) -> None:
        claim = stage.running()
        stage.clock.advance(1)

        assert stage.store.release(claim) is Status.PENDING

        row = stage.row()
        assert (row.status, row.ready_at, row.epoch) == (Status.PENDING, stage.now, claim.epoch)
        assert (row.worker, row.token, row.lease_until, row.takeovers) == (None, None, None, 0)
        assert stage.claim("w2").epoch == claim.epoch + 1

    @holds("lost/shutdown-kept")
    def test_a_released_kept_task_may_be_claimed_at_once(self, stage: Stage) -> None:
        claim = stage.suspended(keep=True)

        stage.store.release(claim)

        row = stage.row()
        assert (row.status, row.kept, row.wake_on) == (Status.PENDING, False, None)
        assert stage.claim("w2").task_id == "t"

    def test_a_claim_is_given_back_once(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.release(claim)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.release(claim)

    def test_an_old_owner_cannot_release_the_new_owners_task(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        old = stage.running()
        stage.clock.advance(LEASE)
        stage.claim("w2")

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.release(old)

    def test_a_lease_that_is_over_cannot_be_released(self, stage: Stage) -> None:
        claim = stage.running()
        stage.clock.advance(LEASE)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.release(claim)

    def test_releasing_an_unknown_task_says_so(self, stage: Stage) -> None:
        claim = stage.running()

        with pytest.raises(UnknownTask):
            stage.store.release(replace(claim, task_id="nobody"))
