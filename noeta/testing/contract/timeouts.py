"""Waits with a time limit: when it is over the store puts the stored condition itself into the inbox."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import pytest

from noeta.core import codec
from noeta.core.errors import BadInput
from noeta.core.events import TaskSuspended, TaskWoken
from noeta.core.ids import micros
from noeta.core.store import Post, Posted, Suspend
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, WakeEvent, find_wake, timed_out
from noeta.testing.contract.stage import LEASE, ONE_MICRO, ContractTests, Stage

Limited = HumanResponseReceived | ExternalEvent


def _question(limit: float | None = None) -> Limited:
    return HumanResponseReceived("question-1", timeout_at=limit)


def _event(limit: float | None = None) -> Limited:
    return ExternalEvent("deployed", timeout_at=limit)


KINDS: Final[dict[str, Callable[[float | None], Limited]]] = {"a question": _question, "an event": _event}
REAL: Final[dict[str, WakeEvent]] = {
    "a question": HumanResponseReceived("question-1", "yes"),
    "an event": ExternalEvent("deployed", {"version": 2}),
}
_of_both_kinds = pytest.mark.parametrize("kind", list(KINDS))


def limited(stage: Stage, kind: str, seconds: float = 7.5) -> Limited:
    """Task t waits so long, at the most; the condition."""
    condition = KINDS[kind](stage.clock.now() + seconds)
    stage.suspended(wake_on=condition)
    return condition


class TimeoutsContract(ContractTests):
    @_of_both_kinds
    def test_a_limit_never_ends_a_wait_early(self, stage: Stage, kind: str) -> None:
        """Keeps: timers-once."""
        condition = limited(stage, kind)
        row = stage.row()
        assert (row.status, row.wake_on, row.ready_at) == (
            Status.SUSPENDED,
            condition,
            micros(condition.timeout_at or 0),
        )
        stage.clock.advance(7.5 - ONE_MICRO)
        assert stage.store.fire_due_timers() == ()
        assert stage.nothing_claimable()

        stage.clock.advance(ONE_MICRO)

        assert stage.store.fire_due_timers() == ("t",)

    @_of_both_kinds
    @pytest.mark.parametrize("by", ["the poll", "a claim"])
    def test_a_limit_that_is_over_is_the_stored_condition_byte_for_byte(self, stage: Stage, kind: str, by: str) -> None:
        """Under the key of the wait. Keeps: timers-once, never-stuck."""
        condition = limited(stage, kind, 7.123_456)
        stage.clock.advance(1_000)

        if by == "the poll":
            assert stage.store.fire_due_timers() == ("t",)
            assert (stage.row().status, stage.row().ready_at) == (Status.PENDING, stage.now)
        else:
            taken = stage.store.claim("w2", None, LEASE)
            assert (taken.timers_fired, taken.claims[0].cause) == (("t",), "suspended")

        (item,) = stage.unread()
        assert (item.item, item.body) == (condition, codec.encode("wake_on", condition))
        assert (item.number, item.at, item.key) == (1, stage.now, "timer:t:2")
        assert timed_out(item.item)
        assert stage.row().wake_on is None

    @_of_both_kinds
    def test_a_real_event_before_the_limit_wins(self, stage: Stage, kind: str) -> None:
        """The limit is forgotten with the wait. Keeps: wake-once, timers-once."""
        limited(stage, kind)
        stage.clock.advance(7)

        assert stage.store.wake("t", REAL[kind]) == Posted("stored", 1, made_ready=True)

        assert stage.row().ready_at == stage.now
        stage.clock.advance(100)
        assert stage.store.fire_due_timers() == ()
        claim = stage.claim()
        assert (claim.cause, stage.items()) == ("pending", [REAL[kind]])
        stage.append(claim, TaskWoken((1,), REAL[kind]))
        stage.suspend(claim, KINDS[kind](None))
        assert stage.row().ready_at is None
        assert stage.nothing_claimable()

    @_of_both_kinds
    def test_a_real_event_after_the_limit_is_another_item(self, stage: Stage, kind: str) -> None:
        """It ends the wait, if it came before anybody looked; the limit is left over. Keeps: wake-once."""
        condition = limited(stage, kind)
        stage.clock.advance(8)
        stage.store.fire_due_timers()

        assert stage.store.wake("t", REAL[kind]) == Posted("stored", 2, made_ready=False)

        unread = [(item.number, item.item) for item in stage.unread()]
        assert unread == [(1, condition), (2, REAL[kind])]
        assert find_wake(condition, unread) == ((2,), REAL[kind])

    def test_a_null_payload_and_a_limit_that_is_over_are_told_apart(self, stage: Stage) -> None:
        """Keeps: wake-once."""
        condition = limited(stage, "an event")
        stage.clock.advance(8)
        stage.store.fire_due_timers()

        assert stage.store.wake("t", ExternalEvent("deployed")).outcome == "stored"

        over, real = stage.unread()
        assert (over.item, real.item) == (condition, ExternalEvent("deployed", None))
        assert (timed_out(over.item), timed_out(real.item)) == (True, False)
        assert over.body != real.body

    def test_a_null_payload_ends_a_limited_wait(self, stage: Stage) -> None:
        limited(stage, "an event")

        assert stage.store.wake("t", ExternalEvent("deployed")).made_ready

    @_of_both_kinds
    def test_nobody_posts_the_end_of_a_limit(self, stage: Stage, kind: str) -> None:
        """The store alone says that nothing came. Keeps: timers-once."""
        condition = limited(stage, kind)
        claim = stage.running("other")

        for post in (
            lambda: stage.store.post("t", condition),
            lambda: stage.store.wake("t", condition),
            lambda: stage.append(claim, posts=(Post("t", condition, "k"),)),
            lambda: stage.store.post("t", KINDS[kind](0.0)),
        ):
            with stage.nothing_changes(), pytest.raises(BadInput) as refused:
                post()
            assert refused.value.field.endswith(".timeout_at")

    @_of_both_kinds
    @pytest.mark.parametrize("limit", [math.nan, math.inf, -math.inf, 1e18])
    def test_a_limit_is_an_instant_that_a_calendar_can_name(self, stage: Stage, kind: str, limit: float) -> None:
        claim = stage.running()
        condition = KINDS[kind](limit)

        with stage.nothing_changes(), pytest.raises(BadInput) as refused:
            stage.append(claim, next=Suspend(condition))

        assert refused.value.field == "wake_on.timeout_at"

    @_of_both_kinds
    def test_a_limit_in_the_past_is_over_at_once(self, stage: Stage, kind: str) -> None:
        condition = limited(stage, kind, -5.0)

        assert stage.store.fire_due_timers() == ("t",)
        assert stage.items() == [condition]

    @_of_both_kinds
    def test_a_limit_is_over_once(self, stage: Stage, kind: str) -> None:
        """Put back to the same wait, it is the same limit. Keeps: timers-once."""
        condition = limited(stage, kind)
        stage.clock.advance(8)
        claim = stage.claim()
        stage.append(claim, next=Suspend(condition))
        assert stage.store.fire_due_timers() == ("t",)
        stage.claim()
        stage.clock.advance(LEASE)
        stage.claim("w2")

        assert [item.key for item in stage.unread()] == ["timer:t:2"]

    @_of_both_kinds
    def test_the_next_wait_has_its_own_limit(self, stage: Stage, kind: str) -> None:
        """Keeps: timers-once."""
        first = limited(stage, kind)
        stage.clock.advance(8)
        claim = stage.claim()
        stage.append(claim, TaskWoken((1,), first))
        second = KINDS[kind](stage.clock.now() + 5)
        stage.append(claim, TaskSuspended(second), next=Suspend(second))
        assert stage.nothing_claimable()
        stage.clock.advance(5)

        assert stage.store.fire_due_timers() == ("t",)
        assert [(item.key, item.item) for item in stage.unread()] == [("timer:t:4", second)]

    @_of_both_kinds
    def test_the_owner_of_a_kept_wait_hears_that_its_limit_is_over(self, stage: Stage, kind: str) -> None:
        """Nobody else fires it. Keeps: timers-once, one-writer."""
        claim = stage.running()
        stage.suspend(claim, KINDS[kind](stage.clock.now() + 7.5), keep=True)
        before = stage.row()
        due = [stage.store.renew(claim, LEASE)[0].timer_due]
        stage.clock.advance(7.5)

        due += [renewal.timer_due for renewal in stage.store.renew(claim, LEASE)]

        assert due == [False, True]
        assert stage.store.fire_due_timers() == ()
        assert stage.nothing_claimable()
        assert (stage.row().kept, stage.row().ready_at, stage.unread()) == (True, before.ready_at, ())

    @_of_both_kinds
    def test_an_order_ends_a_limited_wait(self, stage: Stage, kind: str) -> None:
        limited(stage, kind)

        assert stage.store.post("t", ControlReceived("close")).made_ready

        stage.clock.advance(8)
        assert stage.store.fire_due_timers() == ()
        assert stage.items() == [ControlReceived("close")]
