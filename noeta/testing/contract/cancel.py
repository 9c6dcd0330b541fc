"""Cancelling: a task that nobody runs ends in the transaction that posts it, a running one finds the order.

The edges below are all the states in which a cancel can meet a task. What the children hear is in `orders.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from noeta.core import limits
from noeta.core.errors import InvalidLease, UnknownTask
from noeta.core.events import MessageTaken, ModelCalled, TaskCancelled, TaskCompleted, TaskWoken
from noeta.core.store import Child, Claim, Commit, End, Post, Posted, PutBack
from noeta.core.task import Status
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
)
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, DONE, LEASE, ContractTests, Stage

CANCEL: Final = ControlReceived("cancel", "enough")
CHILD: Final = Child("t.2-0.1", "helper", "help")


def _put_back(stage: Stage) -> Claim:
    claim = stage.running()
    stage.append(claim, ModelCalled("h", 1), next=PutBack(100))
    return claim


def _failed_once(stage: Stage) -> Claim:
    claim = stage.running()
    stage.store.fail(claim, "boom")
    return claim


def _released(stage: Stage) -> Claim:
    claim = stage.running()
    stage.store.release(claim)
    return claim


def _swept(stage: Stage) -> Claim:
    claim = _lapsed(stage)
    assert stage.store.requeue_stale() == ("t",)
    return claim


def _lapsed(stage: Stage, *, keep: bool = False) -> Claim:
    claim = stage.suspended(keep=True) if keep else stage.running()
    stage.clock.advance(LEASE)
    return claim


def _woken(stage: Stage) -> Claim:
    claim = stage.suspended()
    stage.store.wake("t", A_MESSAGE)
    return claim


def _timer_due(stage: Stage) -> Claim:
    claim = stage.suspended(wake_on=stage.timer(10))
    stage.clock.advance(10)
    return claim


def _awaits_children(stage: Stage, group: str | None) -> Claim:
    claim = stage.running()
    stage.append(claim, children=(replace(CHILD, group=group),))
    stage.suspend(claim, SubtaskCompleted(CHILD.id) if group is None else SubtaskGroupCompleted(group, 1))
    return claim


NOBODY_RUNS_IT: Final[dict[str, Callable[[Stage], object]]] = {
    "pending": lambda stage: stage.create(),
    "delayed": lambda stage: stage.create(delay_seconds=100),
    "put back for later": _put_back,
    "backing off": _failed_once,
    "released": _released,
    "swept": _swept,
    "woken, not yet claimed": _woken,
    "suspended": lambda stage: stage.suspended(),
    "suspended on a question": lambda stage: stage.suspended(wake_on=HumanResponseReceived("question-1")),
    "suspended on a timer": lambda stage: stage.suspended(wake_on=stage.timer(10)),
    "suspended on a timer that is due": _timer_due,
    "suspended with a time limit": lambda stage: stage.suspended(
        wake_on=ExternalEvent("deployed", timeout_at=stage.clock.now() + 10)
    ),
    "suspended on a child": lambda stage: _awaits_children(stage, None),
    "suspended on a group": lambda stage: _awaits_children(stage, "g"),
    "running, lapsed": _lapsed,
    "kept, lapsed": lambda stage: _lapsed(stage, keep=True),
}
SOMEBODY_RUNS_IT: Final[dict[str, Callable[[Stage], Claim]]] = {
    "running": lambda stage: stage.running(),
    "kept": lambda stage: stage.suspended(keep=True),
    "kept, its timer due": lambda stage: stage.suspended(wake_on=stage.timer(0), keep=True),
}

_at_every_edge = pytest.mark.parametrize("edge", list(NOBODY_RUNS_IT))
_while_it_runs = pytest.mark.parametrize("edge", list(SOMEBODY_RUNS_IT))


class CancelContract(ContractTests):
    @holds("status/any-can-be-cancelled")
    @_at_every_edge
    def test_a_cancel_ends_at_once_what_nobody_runs(self, stage: Stage, edge: str) -> None:
        """Exactly one terminal entry, the row agrees with it, and no retry follows.
        Keeps: terminal-is-final, epochs-rise, row-agrees, gapless-log.

        https://github.com/SamSaffron/term-llm/pull/918 , https://github.com/dbos-inc/dbos-transact-py/pull/703
        """
        NOBODY_RUNS_IT[edge](stage)
        before = stage.row()

        posted = stage.cancel(key="cancel:1")

        number, epoch, seq = before.inbox_seq + 1, before.epoch + 1, before.last_seq + 1
        assert posted == Posted("cancelled", number, made_ready=False, epoch=epoch, last_seq=seq)
        assert stage.row() == replace(
            before,
            status=Status.TERMINAL,
            kept=False,
            epoch=epoch,
            worker=None,
            token=None,
            lease_until=None,
            ready_at=None,
            wake_on=None,
            wake_key=None,
            wake_missing=0,
            inbox_seq=number,
            last_seq=seq,
            takeovers=0,
        )
        entry = stage.page().entries[-1]
        assert (entry.seq, entry.epoch, entry.at, entry.event) == (seq, epoch, stage.now, TaskCancelled("enough"))
        assert stage.endings() == [TaskCancelled("enough")]
        assert stage.unread() == ()

    @_at_every_edge
    def test_nothing_starts_a_cancelled_task_again(self, stage: Stage, edge: str) -> None:
        """No claim, no sweep, no timer, no item. Keeps: terminal-is-final."""
        NOBODY_RUNS_IT[edge](stage)
        stage.cancel()
        cancelled = stage.page()
        stage.clock.advance(100 * LEASE)

        assert stage.store.fire_due_timers() == ()
        assert "t" not in stage.store.requeue_stale()
        assert "t" not in [claim.task_id for claim in stage.store.claim("late", None, LEASE, limit=10).claims]
        assert stage.store.post("t", A_MESSAGE) == Posted("ended", None, made_ready=False)
        assert stage.page() == cancelled

    @_at_every_edge
    def test_a_second_cancel_changes_nothing(self, stage: Stage, edge: str) -> None:
        """Under the same key it is a repeat, also after the end. Keeps: terminal-is-final, taken-once."""
        NOBODY_RUNS_IT[edge](stage)
        number = stage.cancel(key="cancel:1").number

        with stage.nothing_changes():
            assert stage.cancel(key="cancel:1") == Posted("repeat", number, made_ready=False)
            assert stage.cancel(key="cancel:2") == Posted("ended", None, made_ready=False)
            assert stage.cancel() == Posted("ended", None, made_ready=False)

    @pytest.mark.parametrize("keep", [False, True], ids=["running", "kept"])
    def test_the_owner_of_a_lapsed_claim_is_refused_after_a_cancel(self, stage: Stage, keep: bool) -> None:
        """Its late result does not overwrite the end. Keeps: one-writer, terminal-is-final, epochs-rise.

        https://github.com/SamSaffron/term-llm/pull/790 , https://github.com/langchain-ai/langgraph/pull/8862
        """
        old = _lapsed(stage, keep=keep)
        stage.cancel()

        with stage.nothing_changes():
            for late in (Commit((ModelCalled("h", 1),)), Commit(next=End(TaskCompleted("late")))):
                for seq in (old.last_seq, stage.row().last_seq):
                    with pytest.raises(InvalidLease):
                        stage.store.append(old, seq, late)
            with pytest.raises(InvalidLease):
                stage.store.fail(old, "late")
            with pytest.raises(InvalidLease):
                stage.store.release(old)
            (renewal,) = stage.store.renew(old, LEASE)
        assert (renewal.outcome, renewal.ordered) == ("lost", False)
        assert stage.row().epoch == old.epoch + 1

    def test_a_cancelled_task_leaves_no_item_unread(self, stage: Stage) -> None:
        """Its keys are known all the same. Keeps: taken-once."""
        stage.create()
        for n in range(3):
            stage.store.post("t", A_MESSAGE, key=f"m{n}")

        assert stage.cancel().number == 4

        page = stage.page()
        assert (page.unread, page.inbox_seen) == ((), 4)
        assert stage.store.post("t", A_MESSAGE, key="m1") == Posted("repeat", 2, made_ready=False)

    @pytest.mark.parametrize(
        ("reason", "kept"),
        [("", ""), ("nul \x00 here", "nul \x00 here"), ("x" * 100_000, "x" * limits.REASON_CHARS_MAX)],
        ids=["none", "nul", "long"],
    )
    def test_the_entry_says_why_as_far_as_it_fits(self, stage: Stage, reason: str, kept: str) -> None:
        stage.create()

        assert stage.cancel(reason=reason).outcome == "cancelled"

        assert stage.events()[-1] == TaskCancelled(kept)

    def test_a_task_that_does_not_exist_cannot_be_cancelled(self, stage: Stage) -> None:
        with pytest.raises(UnknownTask):
            stage.cancel("nobody", "cancel:1")
        assert stage.store.tasks() == ()

        stage.create("nobody")
        assert stage.row("nobody").status is Status.PENDING

    def test_an_ended_task_keeps_its_ending(self, stage: Stage) -> None:
        """A cancel does not overwrite a result. Keeps: terminal-is-final."""
        stage.ended()

        with stage.nothing_changes():
            assert stage.cancel(key="cancel:1") == Posted("ended", None, made_ready=False)
        assert stage.endings() == [DONE]

    def test_a_close_is_no_cancel(self, stage: Stage) -> None:
        """It ends a wait, not the task."""
        stage.suspended()

        posted = stage.store.post("t", ControlReceived("close"))

        assert posted == Posted("stored", 1, made_ready=True)
        assert stage.row().status is Status.PENDING

    def test_a_cancel_within_a_commit_is_an_order_like_any_other(self, stage: Stage) -> None:
        """Only a post of its own can end a task: a commit decides about its own task alone."""
        stage.suspended("other")
        claim = stage.running()

        stage.append(claim, posts=(Post("other", CANCEL, "stop"),))

        assert (stage.row("other").status, stage.items("other")) == (Status.PENDING, [CANCEL])

    # -- while somebody runs it ----------------------------------------------------------------------------

    @_while_it_runs
    def test_a_cancel_leaves_a_running_task_to_its_owner(self, stage: Stage, edge: str) -> None:
        """The owner hears of it with its next renewal, and writes the one ending itself. Keeps: one-writer."""
        claim = SOMEBODY_RUNS_IT[edge](stage)
        before = stage.row()

        posted = stage.cancel(key="cancel:1")

        assert posted == Posted("stored", 1, made_ready=False)
        assert stage.row() == replace(before, inbox_seq=1)
        (renewal,) = stage.store.renew(claim, LEASE)
        assert (renewal.outcome, renewal.ordered, renewal.inbox_seq) == ("held", True, 1)
        stage.append(claim, MessageTaken(1, CANCEL), next=End(TaskCancelled("enough")))
        assert stage.endings() == [TaskCancelled("enough")]
        assert stage.page().entries[-1].epoch == claim.epoch
        assert stage.cancel(key="cancel:1") == Posted("repeat", 1, made_ready=False)

    @_while_it_runs
    def test_a_cancel_is_an_order_until_the_very_end_of_the_lease(self, stage: Stage, edge: str) -> None:
        """Keeps: one-writer."""
        SOMEBODY_RUNS_IT[edge](stage)
        stage.clock.advance(LEASE - 1e-6)
        assert stage.cancel(key="early").outcome == "stored"

        stage.clock.advance(1e-6)

        assert stage.cancel(key="late").outcome == "cancelled"
        assert (stage.unread(), stage.endings()) == ((), [TaskCancelled("enough")])

    def test_a_cancel_that_nobody_took_waits_for_the_next_owner(self, stage: Stage) -> None:
        """The repeat of it is a repeat, and the order is not lost. Keeps: taken-once, never-stuck."""
        stage.running()
        stage.cancel(key="cancel:1")
        stage.clock.advance(LEASE)

        assert stage.cancel(key="cancel:1") == Posted("repeat", 1, made_ready=False)
        claim = stage.claim("w2")
        assert stage.items() == [CANCEL]
        stage.append(claim, TaskWoken((1,), CANCEL), next=End(TaskCancelled("enough")))
        assert stage.endings() == [TaskCancelled("enough")]

    def test_a_key_of_another_item_does_not_cancel(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        stage.create()
        stage.store.post("t", A_MESSAGE, key="m1")

        with stage.nothing_changes():
            assert stage.cancel(key="m1") == Posted("repeat", 1, made_ready=False)

    # -- the parent ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("state", ["pending", "suspended", "lapsed"])
    def test_a_cancelled_child_tells_its_parent_once(self, stage: Stage, state: str) -> None:
        """In the transaction that ends it; its old owner can add nothing. Keeps: children-once, never-stuck."""
        parent = stage.running(lease=10 * LEASE)
        stage.append(parent, children=(CHILD,))
        stage.suspend(parent, SubtaskCompleted(CHILD.id))
        if state != "pending":
            child = stage.claim("w2")
            if state == "suspended":
                stage.suspend(child)
            stage.clock.advance(LEASE)

        assert stage.cancel(CHILD.id).outcome == "cancelled"
        stage.cancel(CHILD.id)

        row = stage.row()
        assert (row.status, row.ready_at, row.inbox_seq) == (Status.PENDING, stage.now, 1)
        (item,) = stage.unread()
        assert (item.key, item.item) == (f"child:{CHILD.id}", SubtaskCompleted(CHILD.id, "cancelled", "enough"))

    def test_a_cancelled_member_counts_for_its_group(self, stage: Stage) -> None:
        """Keeps: children-once."""
        parent = stage.running()
        ids = [f"t.2-0.{n}" for n in (1, 2)]
        stage.append(parent, children=tuple(Child(id, "helper", "help", group="t.2-0") for id in ids))
        stage.suspend(parent, SubtaskGroupCompleted("t.2-0", 2))

        missing = [(stage.cancel(id).outcome, stage.row().wake_missing) for id in ids]

        assert missing == [("cancelled", 1), ("cancelled", 0)]
        assert stage.items() == [SubtaskCompleted(id, "cancelled", "enough", "t.2-0") for id in ids]
        assert stage.row().status is Status.PENDING

    def test_a_child_can_be_cancelled_when_its_parent_has_ended(self, stage: Stage) -> None:
        """Keeps: never-stuck."""
        parent = stage.running()
        stage.append(parent, children=(CHILD,))
        stage.append(parent, next=End(DONE))

        assert stage.cancel(CHILD.id).outcome == "cancelled"

        assert stage.unread(CHILD.id) == ()
        assert stage.endings(CHILD.id) == [TaskCancelled("enough")]
