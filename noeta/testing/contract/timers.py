"""Timers: never early, never twice, and the stored condition is the event."""

from __future__ import annotations

import pytest

from noeta.core import codec
from noeta.core.events import TaskWoken
from noeta.core.store import Suspend
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, TimerFired
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import LEASE, ONE_MICRO, ContractTests, Stage, at_once


class TimersContract(ContractTests):
    @holds("wait/timer-delivered", "wait/timer-matches")
    def test_a_timer_never_fires_early(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        stage.suspended(wake_on=stage.timer(7.5))
        stage.clock.advance(7.5 - ONE_MICRO)
        assert stage.store.fire_due_timers() == ()
        assert stage.nothing_claimable()

        stage.clock.advance(ONE_MICRO)

        assert stage.store.fire_due_timers() == ("t",)

    @holds("wait/same-dataclass")
    def test_a_fired_timer_is_the_stored_condition_byte_for_byte(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        condition = stage.timer(7.123_456)
        stage.suspended(wake_on=condition)
        stage.clock.advance(1_000)

        stage.store.fire_due_timers()

        (item,) = stage.unread()
        assert (item.item, item.body) == (condition, codec.encode("wake_on", condition))
        assert (item.number, item.at, item.key) == (1, stage.now, "timer:t:2")
        row = stage.row()
        assert (row.status, row.ready_at, row.wake_on, row.inbox_seq) == (Status.PENDING, stage.now, None, 1)

    @holds("writer/claimable")
    def test_a_claim_needs_no_sweep_to_take_a_due_timer(self, stage: Stage) -> None:
        """Keeps: never-stuck."""
        condition = stage.timer(5)
        stage.suspended(wake_on=condition)
        stage.clock.advance(5)

        taken = stage.store.claim("w2", None, LEASE)

        (claim,) = taken.claims
        assert (taken.timers_fired, taken.stale_requeued) == (("t",), ())
        assert (claim.cause, claim.epoch, claim.takeovers, claim.inbox_seq) == ("suspended", 2, 0, 1)
        assert stage.items() == [condition]

    def test_a_timer_fires_once(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        stage.suspended(wake_on=stage.timer(5))
        stage.clock.advance(5)
        assert stage.store.fire_due_timers() == ("t",)

        assert stage.store.fire_due_timers() == ()
        stage.claim()
        stage.clock.advance(LEASE)
        stage.claim()

        assert len(stage.unread()) == 1

    def test_a_wait_put_back_after_its_timer_fired_gets_no_second_item(self, stage: Stage) -> None:
        """The same wait is the same timer. Keeps: timers-once."""
        condition = stage.timer(5)
        stage.suspended(wake_on=condition)
        stage.clock.advance(5)
        claim = stage.claim()

        stage.append(claim, next=Suspend(condition))
        stage.claim()

        assert len(stage.unread()) == 1

    def test_the_next_wait_has_its_own_timer(self, stage: Stage) -> None:
        stage.suspended(wake_on=stage.timer(5))
        stage.clock.advance(5)
        claim = stage.claim()
        stage.append(claim, TaskWoken((1,), stage.items()[0]))
        second = stage.timer(5)
        stage.suspend(claim, second)
        assert stage.nothing_claimable()
        stage.clock.advance(5)

        assert stage.store.fire_due_timers() == ("t",)
        assert stage.items() == [second]

    def test_an_old_unread_timer_does_not_end_a_later_wait(self, stage: Stage) -> None:
        stage.suspended(wake_on=stage.timer(5))
        stage.clock.advance(5)
        claim = stage.claim()

        stage.suspend(claim, stage.timer(100))

        assert stage.row().status is Status.SUSPENDED
        assert stage.nothing_claimable()

    def test_a_timer_that_something_else_overtook_does_not_fire(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        stage.suspended(wake_on=stage.timer(5))
        stage.store.post("t", ControlReceived("close"))
        stage.claim()
        stage.clock.advance(6)

        assert stage.store.fire_due_timers() == ()
        assert stage.items() == [ControlReceived("close")]

    def test_a_timer_in_the_past_is_due_at_once(self, stage: Stage) -> None:
        stage.suspended(wake_on=TimerFired(-5.0))

        assert stage.store.fire_due_timers() == ("t",)
        assert stage.items() == [TimerFired(-5.0)]

    @holds("guarantee/for-months")
    def test_a_timer_in_the_year_9999_waits(self, stage: Stage) -> None:
        """https://github.com/lincolnloop/django-absurd/pull/89"""
        stage.suspended(wake_on=TimerFired(253_402_300_799.5))
        stage.clock.advance(10**9)

        assert stage.store.fire_due_timers() == ()
        assert stage.row().ready_at == 253_402_300_799_500_000

    def test_the_poll_fires_the_longest_due_first_and_at_most_its_limit(self, stage: Stage) -> None:
        for n in (3, 1, 2):
            stage.suspended(f"t{n}", stage.timer(n))
        stage.clock.advance(10)

        assert stage.store.fire_due_timers(limit=2) == ("t1", "t2")
        assert stage.store.fire_due_timers(limit=2) == ("t3",)

    def test_the_poll_leaves_every_other_task_alone(self, stage: Stage) -> None:
        stage.suspended("waits")
        stage.running("runs", lease=1_000)
        stage.ended("done")
        stage.suspended("kept", stage.timer(1), keep=True)
        stage.create("pending")
        stage.clock.advance(20)

        with stage.nothing_changes():
            assert stage.store.fire_due_timers() == ()

    @pytest.mark.parametrize("pollers", [2, 6])
    def test_pollers_at_once_fire_each_timer_once(self, stage: Stage, pollers: int) -> None:
        """Keeps: timers-once."""
        for n in range(12):
            stage.suspended(f"t{n:02}", stage.timer(1))
        stage.clock.advance(1)
        handles = [stage.another() for _ in range(pollers)]

        answers = at_once(*(store.fire_due_timers for store in handles))

        fired: list[str] = []
        for answer in answers:
            assert isinstance(answer, tuple), answer
            fired += answer
        assert sorted(fired) == [f"t{n:02}" for n in range(12)]
        assert all(len(stage.unread(id)) == 1 for id in fired)

    def test_timers_and_claims_at_once_fire_each_timer_once(self, stage: Stage) -> None:
        """Keeps: timers-once, one-writer."""
        for n in range(10):
            stage.suspended(f"t{n}", stage.timer(1))
        stage.clock.advance(1)
        poller, claimer = stage.another(), stage.another()

        at_once(lambda: list(poller.fire_due_timers()), lambda: [str(claimer.claim("w2", None, LEASE, limit=10))])
        stage.store.claim("w3", None, LEASE, limit=10)

        rows = stage.store.tasks()
        assert {row.status for row in rows} == {Status.RUNNING}
        assert {(row.epoch, row.inbox_seq) for row in rows} == {(2, 1)}
