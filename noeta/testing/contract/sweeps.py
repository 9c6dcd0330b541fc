"""The stale sweep: what it puts back, when, and what it leaves alone."""

from __future__ import annotations

import pytest

from noeta.core.task import Status, takeover_backoff
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import LEASE, ONE_MICRO, ContractTests, Stage, at_once


class SweepsContract(ContractTests):
    def test_nothing_lapsed_is_nothing_swept(self, stage: Stage) -> None:
        stage.create("pending")
        assert stage.store.requeue_stale() == ()

    @holds("wake/stale-sweep", "stopping/reclaimed")
    def test_a_lapsed_task_is_put_back_and_the_takeover_counted(self, stage: Stage) -> None:
        claim = stage.running(queue="q")
        stage.clock.advance(LEASE - ONE_MICRO)
        assert stage.store.requeue_stale() == ()
        stage.clock.advance(ONE_MICRO)

        assert stage.store.requeue_stale() == ("t",)

        row = stage.row()
        assert (row.status, row.queue, row.takeovers, row.epoch) == (Status.PENDING, "q", 1, claim.epoch)
        assert (row.worker, row.token, row.lease_until) == (None, None, None)
        assert row.ready_at == claim.lease_until + takeover_backoff(1)
        assert stage.claim(queues=["q"]).epoch == claim.epoch + 1

    def test_a_lapsed_kept_task_is_put_back(self, stage: Stage) -> None:
        stage.suspended(keep=True)
        stage.clock.advance(LEASE)

        assert stage.store.requeue_stale() == ("t",)

        row = stage.row()
        assert (row.status, row.kept, row.wake_on, row.takeovers) == (Status.PENDING, False, None, 1)

    def test_a_swept_task_is_swept_once(self, stage: Stage) -> None:
        stage.running()
        stage.clock.advance(LEASE)
        stage.store.requeue_stale()

        with stage.nothing_changes():
            assert stage.store.requeue_stale() == ()

    def test_the_sweep_leaves_every_other_task_alone(self, stage: Stage) -> None:
        stage.suspended("waits")
        stage.suspended("timed", stage.timer(1))
        stage.ended("done")
        stage.running("runs", lease=1_000)
        stage.create("pending")
        stage.clock.advance(500)

        with stage.nothing_changes():
            assert stage.store.requeue_stale() == ()

    def test_a_renewed_lease_is_not_stale(self, stage: Stage) -> None:
        claim = stage.running()
        stage.clock.advance(LEASE / 2)
        stage.store.renew(claim, LEASE)
        stage.clock.advance(LEASE / 2)

        assert stage.store.requeue_stale() == ()
        stage.clock.advance(LEASE / 2)
        assert stage.store.requeue_stale() == ("t",)

    def test_the_sweep_takes_the_longest_lapsed_first_and_at_most_its_limit(self, stage: Stage) -> None:
        for n in (3, 1, 2):
            stage.running(f"t{n}", lease=float(n))
        stage.clock.advance(LEASE)

        assert stage.store.requeue_stale(limit=2) == ("t1", "t2")
        assert stage.store.requeue_stale(limit=2) == ("t3",)

    def test_the_sweep_works_in_every_queue(self, stage: Stage) -> None:
        for n in range(5):
            stage.running(f"t{n}", queue=f"q{n}")
        stage.clock.advance(LEASE)

        assert sorted(stage.store.requeue_stale()) == [f"t{n}" for n in range(5)]

    def test_sweeping_goes_on_when_the_sweeper_was_itself_killed(self, stage: Stage) -> None:
        """Recovery is no task and holds nothing. Keeps: never-stuck.

        https://github.com/procrastinate-org/procrastinate/issues/1408
        """
        for n in range(4):
            stage.running(f"t{n}")
        stage.clock.advance(LEASE)
        stage.another().requeue_stale(limit=1)  # and is never seen again

        assert len(stage.store.requeue_stale()) == 3

    def test_a_task_fenced_off_by_a_sweep_is_finished_by_its_next_owner(self, stage: Stage) -> None:
        stage.running()
        stage.clock.advance(LEASE)
        stage.store.requeue_stale()

        claim = stage.claim("w2")
        stage.append(claim)

        assert (claim.takeovers, claim.cause) == (1, "pending")

    @pytest.mark.parametrize("sweepers", [2, 6])
    def test_sweepers_at_once_put_each_task_back_once(self, stage: Stage, sweepers: int) -> None:
        for n in range(12):
            stage.create(f"t{n:02}")
        stage.store.claim("w1", None, LEASE, limit=12)
        stage.clock.advance(LEASE)
        handles = [stage.another() for _ in range(sweepers)]

        answers = at_once(*(store.requeue_stale for store in handles))

        swept: list[str] = []
        for answer in answers:
            assert isinstance(answer, tuple), answer
            swept += answer
        assert sorted(swept) == [f"t{n:02}" for n in range(12)]
        assert {row.takeovers for row in stage.store.tasks()} == {1}
