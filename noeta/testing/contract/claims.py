"""How tasks are taken: claims and takeovers."""

from __future__ import annotations

import pytest

from noeta.core.events import TaskSuspended
from noeta.core.store import Claim, Suspend
from noeta.core.task import TAKEOVERS_MAX, Status, takeover_backoff
from noeta.core.wake import ExternalEvent
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import LEASE, LEASE_MICROS, ONE_MICRO, ContractTests, Stage


class ClaimsContract(ContractTests):
    def test_an_empty_store_has_nothing_to_claim(self, stage: Stage) -> None:
        taken = stage.store.claim("w1", None, LEASE)

        assert (taken.claims, taken.timers_fired, taken.stale_requeued) == ((), (), ())
        assert taken.now == stage.now

    @holds("status/running", "guarantee/lease-while-it-runs", "writer/claim")
    def test_a_claim_names_the_owner_raises_the_epoch_and_sets_the_lease(self, stage: Stage) -> None:
        """Keeps: epochs-rise."""
        stage.create(queue="q")
        stage.store.post("t", ExternalEvent("early"))
        stage.clock.advance(5)

        taken = stage.store.claim("w1", ["q"], 30.0, token="mine")

        until = stage.now + 30_000_000
        assert taken.claims == (Claim("t", "q", "w1", 1, "mine", until, 1, 1, 0, 0, "pending"),)
        assert (taken.timers_fired, taken.stale_requeued, taken.now) == ((), (), stage.now)
        row = stage.row()
        assert (row.status, row.worker, row.token, row.lease_until, row.epoch) == (
            Status.RUNNING,
            "w1",
            "mine",
            until,
            1,
        )
        assert row.ready_at is None

    def test_a_claim_writes_no_entry(self, stage: Stage) -> None:
        """Keeps: row-agrees."""
        stage.running()

        assert (stage.row().last_seq, len(stage.page().entries)) == (1, 1)

    def test_what_is_claimed_is_not_claimed_again(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        stage.running()

        assert stage.nothing_claimable()

    def test_the_longest_due_comes_first(self, stage: Stage) -> None:
        for id in ("b", "c", "a"):
            stage.create(id)
            stage.clock.advance(1)

        assert [stage.claim().task_id for _ in range(3)] == ["b", "c", "a"]

    def test_tasks_due_at_one_instant_come_in_id_order(self, stage: Stage) -> None:
        for id in ("b", "a", "C"):
            stage.create(id)

        assert [stage.claim().task_id for _ in range(3)] == ["C", "a", "b"]

    def test_a_limit_takes_so_many_at_once_under_one_token(self, stage: Stage) -> None:
        for id in "abcde":
            stage.create(id)

        taken = stage.store.claim("w1", None, LEASE, limit=3)

        assert [claim.task_id for claim in taken.claims] == ["a", "b", "c"]
        assert len({claim.token for claim in taken.claims}) == 1
        assert [claim.task_id for claim in stage.store.claim("w1", None, LEASE, limit=9).claims] == ["d", "e"]

    def test_a_claim_never_crosses_queues(self, stage: Stage) -> None:
        stage.create("a", queue="one")
        stage.create("b", queue="two")

        assert stage.store.claim("w1", ["three"], LEASE).claims == ()
        assert stage.claim(queues=["two"]).task_id == "b"
        assert stage.store.claim("w1", ["two"], LEASE).claims == ()
        assert stage.claim(queues=["two", "one"]).task_id == "a"

    def test_no_queues_named_means_every_queue(self, stage: Stage) -> None:
        for n in range(6):
            stage.create(f"t{n}", queue=f"queue {n}")
            stage.clock.advance(1)

        assert [stage.claim().queue for _ in range(6)] == [f"queue {n}" for n in range(6)]

    def test_a_queue_seen_for_the_first_time_is_found_by_a_claim_of_every_queue(self, stage: Stage) -> None:
        stage.running("a", queue="one")
        assert stage.nothing_claimable()
        stage.create("b", queue="two")

        assert stage.claim().task_id == "b"

    def test_a_token_is_made_if_none_is_given(self, stage: Stage) -> None:
        first, second = stage.running("a"), stage.running("b")

        assert first.token
        assert first.token != second.token

    def test_the_claims_of_one_attempt_are_found_by_its_token(self, stage: Stage) -> None:
        """Keeps: acked-stays."""
        for id in "abc":
            stage.create(id)
        stage.store.claim("w1", None, LEASE, token="attempt 1", limit=2)
        stage.store.claim("w1", None, LEASE, token="attempt 2", limit=2)

        assert [row.id for row in stage.store.tasks(token="attempt 1")] == ["a", "b"]
        assert [row.id for row in stage.store.tasks(token="attempt 2")] == ["c"]
        assert stage.store.tasks(token="attempt 3") == ()

    @holds("writer/claimable")
    def test_a_waiting_task_without_a_timer_is_never_claimable(self, stage: Stage) -> None:
        """Keeps: waiting-is-free."""
        stage.suspended()
        stage.clock.advance(100 * 365 * 24 * 3_600)

        assert stage.nothing_claimable()

    def test_an_ended_task_is_never_claimable(self, stage: Stage) -> None:
        """Keeps: terminal-is-final."""
        stage.ended()
        stage.clock.advance(10 * LEASE)

        assert stage.nothing_claimable()

    def test_a_delayed_task_does_not_hide_a_due_one(self, stage: Stage) -> None:
        stage.create("late", delay_seconds=50)
        stage.create("now")

        assert stage.claim().task_id == "now"

    # -- takeovers -----------------------------------------------------------------------------------------

    @holds("writer/lease-is-timing")
    def test_a_lease_holds_until_its_last_microsecond(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        stage.running()
        stage.clock.advance(LEASE - ONE_MICRO)
        assert stage.nothing_claimable()

        stage.clock.advance(ONE_MICRO)

        assert stage.claim("w2").worker == "w2"

    @holds("wake/stale-sweep", "writer/claimable-lapsed", "writer/contract-lapsed")
    def test_a_lapsed_lease_is_taken_over_under_a_new_epoch(self, stage: Stage) -> None:
        """Keeps: epochs-rise."""
        old = stage.running()
        stage.clock.advance(LEASE)

        taken = stage.store.claim("w2", None, LEASE)

        (new,) = taken.claims
        assert (new.epoch, new.worker, new.takeovers, new.cause) == (old.epoch + 1, "w2", 1, "running")
        assert new.token != old.token
        assert new.lease_until == stage.now + LEASE_MICROS
        assert taken.stale_requeued == ("t",)
        assert stage.row().takeovers == 1

    def test_the_same_worker_may_take_its_own_lapsed_task_again(self, stage: Stage) -> None:
        """Two claims of one worker are two owners. Keeps: one-writer.

        https://github.com/camunda-community-hub/pyzeebe/issues/212
        """
        old = stage.running(worker="w1")
        stage.clock.advance(LEASE)

        new = stage.claim("w1")

        assert (new.worker, new.epoch) == (old.worker, old.epoch + 1)
        assert new.lease_id != old.lease_id

    @holds("writer/claimable-lapsed")
    def test_a_lapsed_kept_claim_is_taken_over(self, stage: Stage) -> None:
        stage.suspended(keep=True)
        stage.clock.advance(LEASE - ONE_MICRO)
        assert stage.nothing_claimable()
        stage.clock.advance(ONE_MICRO)

        claim = stage.claim("w2")

        assert (claim.cause, claim.epoch, claim.takeovers) == ("kept", 2, 1)
        assert (stage.row().status, stage.row().wake_on) == (Status.RUNNING, None)

    @holds("writer/contract-kept")
    def test_a_kept_wait_stays_with_its_claim(self, stage: Stage) -> None:
        """Neither its timer nor its items make it claimable for others: its owner hears of them."""
        stage.suspended(wake_on=stage.timer(1), keep=True)
        stage.clock.advance(2)
        posted = stage.store.post("t", ExternalEvent("x"))

        assert (posted.outcome, posted.made_ready) == ("stored", False)
        assert stage.nothing_claimable()
        assert stage.store.fire_due_timers() == ()

    def test_a_task_rests_longer_after_each_takeover(self, stage: Stage) -> None:
        """Poison does not starve its neighbours. Keeps: bounded.

        https://github.com/Tencent/WeKnora/pull/3444
        """
        claim = stage.running(lease=1.0)
        for takeovers in range(1, TAKEOVERS_MAX + 1):
            rest = takeover_backoff(takeovers)
            stage.clock.advance(1.0)
            if rest:
                put_back = stage.store.claim("w", None, 1.0)
                assert (put_back.claims, put_back.stale_requeued) == ((), ("t",))
                assert stage.row().ready_at == claim.lease_until + rest
                stage.clock.advance(rest / 1e6 - ONE_MICRO)
                assert stage.nothing_claimable()
                stage.clock.advance(ONE_MICRO)
            claim = stage.claim("w", lease=1.0)
            assert (claim.takeovers, claim.epoch) == (takeovers, takeovers + 1)

    def test_a_claim_never_ends_a_task_however_often_it_was_taken_over(self, stage: Stage) -> None:
        """It answers the count, and the worker ends the task without loading it. Keeps: bounded."""
        stage.running(lease=1.0)
        for _ in range(TAKEOVERS_MAX + 2):
            stage.clock.advance(1.0)
            stage.store.requeue_stale()
            stage.clock.advance(30.0)
            claim = stage.claim(lease=1.0)

        assert claim.takeovers == TAKEOVERS_MAX + 2
        assert stage.row().status is Status.RUNNING

    def test_an_entry_resets_the_takeovers(self, stage: Stage) -> None:
        stage.running()
        stage.clock.advance(LEASE)
        claim = stage.claim()

        stage.append(claim, TaskSuspended(ExternalEvent("x")), next=Suspend(ExternalEvent("x")))

        assert stage.row().takeovers == 0

    def test_renewals_do_not_reset_the_takeovers(self, stage: Stage) -> None:
        """A task that kills its worker after a while is bounded, too (a known defect elsewhere). Keeps: bounded."""
        stage.running()
        stage.clock.advance(LEASE)
        claim = stage.claim()

        (renewal,) = stage.store.renew(claim, LEASE)

        assert (renewal.outcome, stage.row().takeovers) == ("held", 1)

    def test_neither_release_nor_a_commit_without_entries_resets_the_takeovers(self, stage: Stage) -> None:
        stage.running()
        stage.clock.advance(LEASE)
        claim = stage.claim()
        stage.append(claim)
        assert stage.row().takeovers == 1

        stage.store.release(claim)

        assert stage.claim().takeovers == 1

    def test_always_failing_tasks_do_not_keep_the_head_of_the_queue(self, stage: Stage) -> None:
        """https://github.com/Tencent/WeKnora/pull/3444"""
        for n in range(5):
            stage.create(f"bad{n}")
        bad = stage.store.claim("w1", None, LEASE, limit=5).claims
        for claim in bad:
            stage.store.fail(claim, "always", attempts_max=100)
        stage.create("good")
        stage.clock.advance(1)

        taken = [claim.task_id for claim in stage.store.claim("w1", None, LEASE, limit=6).claims]

        assert taken[0] == "good"
        assert len(taken) == 6

    @pytest.mark.parametrize("workers", [2, 5])
    def test_workers_that_take_turns_get_different_tasks(self, stage: Stage, workers: int) -> None:
        for n in range(10):
            stage.create(f"t{n}")
        handles = [stage.another() for _ in range(workers)]

        taken = [handles[n % workers].claim(f"w{n % workers}", None, LEASE).claims for n in range(11)]

        assert sorted(claim.task_id for claims in taken for claim in claims) == sorted(f"t{n}" for n in range(10))

    def test_a_constant_backlog_does_not_starve_lapsed_leases(self, stage: Stage) -> None:
        """Every claim finds all it asks for, and still the task of a dead worker is put back. Keeps: never-stuck."""
        stage.running("dead")
        for n in range(20):
            stage.create(f"due{n:02d}")
        stage.clock.advance(LEASE)
        fresh = stage.another()

        claims = [fresh.claim("w2", None, LEASE) for _ in range(3)]

        assert [len(one.claims) for one in claims] == [1, 1, 1]
        assert [id for one in claims for id in one.stale_requeued] == ["dead"]
        assert stage.row("dead").takeovers == 1
