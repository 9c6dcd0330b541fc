"""How tasks end, and how failures are bounded."""

from __future__ import annotations

import pytest

from noeta.core import limits, texts
from noeta.core.errors import InvalidLease
from noeta.core.events import Ending, ModelReplied, TaskCancelled, TaskCompleted, TaskCreated, TaskFailed
from noeta.core.store import Continue, End, Failed, PutBack, Suspend
from noeta.core.task import FAIL_ATTEMPTS_MAX, Status, fail_backoff
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, A_WAIT, LEASE, ContractTests, Stage

ENDINGS: tuple[Ending, ...] = (
    TaskCompleted("answer"),
    TaskCompleted(),
    TaskFailed("code", "text"),
    TaskCancelled("why"),
)


class EndingsContract(ContractTests):
    @holds("status/terminal")
    @pytest.mark.parametrize("ending", ENDINGS, ids=repr)
    def test_an_ended_task_has_its_ending_as_its_last_entry_and_no_owner(self, stage: Stage, ending: Ending) -> None:
        """Keeps: terminal-is-final, row-agrees."""
        claim = stage.running()

        appended = stage.append(claim, ModelReplied("bye"), next=End(ending))

        assert (appended.first_seq, appended.last_seq, appended.status) == (2, 3, Status.TERMINAL)
        assert stage.events()[1:] == [ModelReplied("bye"), ending]
        row = stage.row()
        assert (row.status, row.last_seq, row.kept) == (Status.TERMINAL, 3, False)
        assert (row.worker, row.token, row.lease_until, row.ready_at, row.wake_on, row.wake_key) == (None,) * 6

    @pytest.mark.parametrize("next", [Continue(), Suspend(A_WAIT), PutBack(), End(TaskFailed("x"))], ids=repr)
    def test_nothing_follows_an_ending(self, stage: Stage, next: Continue | Suspend | PutBack | End) -> None:
        """Keeps: terminal-is-final."""
        claim = stage.ended()

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(claim, next=next)

    @holds("status/terminal")
    def test_no_verb_leaves_the_terminal_status(self, stage: Stage) -> None:
        """Keeps: terminal-is-final. https://github.com/rails/solid_queue/issues/589"""
        claim = stage.ended()

        with stage.nothing_changes():
            with pytest.raises(InvalidLease):
                stage.store.release(claim)
            with pytest.raises(InvalidLease):
                stage.store.fail(claim, "late")
            with pytest.raises(InvalidLease):
                stage.store.fail(claim, "late", retryable=False)
            assert stage.store.renew(claim, LEASE)[0].outcome == "lost"
            stage.clock.advance(10 * LEASE)
            assert stage.store.requeue_stale() == ()
            assert stage.store.fire_due_timers() == ()
            assert stage.nothing_claimable()
            assert stage.store.post("t", A_MESSAGE).outcome == "ended"

    def test_an_ending_stamps_what_was_never_read(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        claim = stage.running()
        stage.store.post("t", A_MESSAGE, key="m")

        stage.append(claim, next=End(TaskCompleted()))

        page = stage.page()
        assert (page.unread, page.inbox_seen) == ((), 1)
        assert stage.store.post("t", A_MESSAGE, key="m").outcome == "repeat"

    def test_a_kept_task_can_end(self, stage: Stage) -> None:
        claim = stage.suspended(keep=True)

        assert stage.append(claim, next=End(TaskCancelled())).status is Status.TERMINAL

    # -- failures ------------------------------------------------------------------------------------------

    def test_a_failed_step_rests_and_is_tried_again(self, stage: Stage) -> None:
        """Keeps: bounded."""
        claim = stage.running()

        failed = stage.store.fail(claim, "boom")

        assert failed == Failed(Status.PENDING, 1, 1)
        row = stage.row()
        assert (row.status, row.fail_attempts, row.ready_at) == (Status.PENDING, 1, stage.now + fail_backoff(1))
        assert (row.worker, row.token, row.lease_until) == (None, None, None)
        assert stage.nothing_claimable()
        stage.clock.advance(fail_backoff(1) / 1e6)
        assert stage.claim().fail_attempts == 1

    @holds("error/any-other")
    def test_at_the_bound_the_log_says_why_the_task_failed(self, stage: Stage) -> None:
        """Keeps: bounded, row-agrees. (Elsewhere such an end leaves no entry.)"""
        stage.create()
        for attempt in range(1, FAIL_ATTEMPTS_MAX + 1):
            stage.clock.advance(60)
            failed = stage.store.fail(stage.claim(), f"boom {attempt}")

        assert failed == Failed(Status.TERMINAL, FAIL_ATTEMPTS_MAX, 2)
        assert stage.events() == [
            TaskCreated("agent", "goal of t"),
            TaskFailed(texts.TOO_MANY_FAILURES, "boom 3"),
        ]
        assert (stage.row().status, stage.row().fail_attempts) == (Status.TERMINAL, FAIL_ATTEMPTS_MAX)
        assert stage.nothing_claimable()

    def test_the_failed_attempts_entry_stands_under_the_owners_epoch(self, stage: Stage) -> None:
        """Keeps: gapless-log."""
        claim = stage.running()

        stage.store.fail(claim, "no", retryable=False)

        entry = stage.page().entries[-1]
        assert (entry.seq, entry.epoch, entry.at) == (2, claim.epoch, stage.now)

    def test_a_failure_that_is_not_retryable_ends_the_task_at_once(self, stage: Stage) -> None:
        claim = stage.running()

        assert stage.store.fail(claim, "no", retryable=False).status is Status.TERMINAL
        assert isinstance(stage.events()[-1], TaskFailed)

    def test_the_bound_can_be_one(self, stage: Stage) -> None:
        claim = stage.running()

        assert stage.store.fail(claim, "no", attempts_max=1) == Failed(Status.TERMINAL, 1, 2)

    def test_failing_stamps_what_was_never_read_only_at_the_end(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)
        stage.store.fail(claim, "once")
        assert stage.items() == [A_MESSAGE]
        stage.clock.advance(60)

        stage.store.fail(stage.claim(), "no", retryable=False)

        assert stage.unread() == ()

    def test_a_failure_needs_the_claim(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        old = stage.running()
        stage.clock.advance(LEASE)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.fail(old, "lapsed")
        stage.claim("w2")
        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.store.fail(old, "taken over")

    @pytest.mark.parametrize(
        ("reason", "kept"),
        [
            ("nul \x00 here", "nul \x00 here"),
            ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
            ("x" * 100_000, "x" * limits.REASON_CHARS_MAX),
            ("", ""),
        ],
        ids=["nul", "surrogate", "long", "empty"],
    )
    def test_an_error_path_never_fails_on_its_own_text(self, stage: Stage, reason: str, kept: str) -> None:
        """https://github.com/kestra-io/kestra/pull/10653"""
        claim = stage.running()

        stage.store.fail(claim, reason, retryable=False)

        assert stage.events()[-1] == TaskFailed(texts.TOO_MANY_FAILURES, kept)

    def test_failures_without_end_overflow_nothing(self, stage: Stage) -> None:
        """https://github.com/graphile/worker/issues/611"""
        stage.create()
        for attempt in range(1, 80):
            stage.clock.advance(60)
            assert stage.store.fail(stage.claim(), "again", attempts_max=1_000).fail_attempts == attempt
            ready_at = stage.row().ready_at
            assert ready_at is not None and ready_at - stage.now <= 30_000_000
