"""What an append may do, and what stops it: epoch, token, lease and expected seq."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noeta.core import codec
from noeta.core.errors import BadInput, Conflict, InvalidLease, UnknownTask
from noeta.core.events import (
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskCompleted,
    TaskWoken,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from noeta.core.store import Append, Appended, Commit, End
from noeta.core.task import Status
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, LEASE, ONE_MICRO, ContractTests, Stage

CALLED = ModelCalled("hash", 1)
ODD_VALUES = {
    "nul": "a\x00b",
    "escapes": '\\ " \b \f \n \r \t \x1f \x7f',
    "right to left": "שלום \u202e abc",
    "astral": "😀 \U0010ffff",
    "separators": "\u2028\u2029\ufeff",
    "looks like an escape": "\\u0000 \\ud800",
    "numbers": [0, -1, 2**63 - 1, -(2**63), 0.1, -0.0, 1e308, 5e-324],
    "others": [None, True, False, {}, [], ""],
    "keys": {"": 1, "a b": 2, "\x00": 3, "$ref": 4},
}


class FenceContract(ContractTests):
    def test_entries_are_numbered_without_a_gap_and_carry_epoch_and_time(self, stage: Stage) -> None:
        """Keeps: gapless-log."""
        claim = stage.running()
        stage.clock.advance(3)
        first = stage.append(claim, CALLED, ModelReplied("hi"))
        stage.clock.advance(4)

        second = stage.append(claim, CALLED)

        assert first == Appended(2, 3, stage.now - 4_000_000, Status.RUNNING, moved=False, inbox_seq=0)
        assert (second.first_seq, second.last_seq) == (4, 4)
        entries = stage.page().entries
        assert [entry.seq for entry in entries] == [1, 2, 3, 4]
        assert [entry.epoch for entry in entries] == [0, 1, 1, 1]
        assert [entry.at for entry in entries[1:]] == [first.at, first.at, second.at]
        assert stage.row().last_seq == 4

    @pytest.mark.parametrize("name", sorted(ODD_VALUES))
    def test_bodies_come_back_with_the_same_bytes(self, stage: Stage, name: str) -> None:
        """NUL, odd text and numbers at the edges are kept as they are. Keeps: acked-stays.

        https://github.com/kestra-io/kestra/pull/10653 , https://github.com/encode/django-rest-framework/issues/5235
        """
        claim = stage.running()
        value = ODD_VALUES[name]
        text = value if isinstance(value, str) else name
        event = ModelReplied(text, (ToolCall("2-0", "tool", {"value": value}),), "tool_use")

        stage.append(claim, event)

        entry = stage.page().entries[-1]
        assert entry.event == event
        assert entry.body == codec.encode("entry", event)

    def test_a_megabyte_in_one_entry_comes_back(self, stage: Stage) -> None:
        """https://github.com/temporalio/features/issues/487"""
        claim = stage.running()
        event = ToolFinished("2-0", "é\x00" * 500_000)

        stage.append(claim, event)

        assert stage.events()[-1] == event

    def test_a_commit_without_entries_writes_no_entry(self, stage: Stage) -> None:
        claim = stage.running()

        appended = stage.append(claim)

        assert (appended.first_seq, appended.last_seq, stage.row().last_seq) == (2, 1, 1)

    @holds("writer/expected-seq", "writer/refused-writes-nothing")
    @pytest.mark.parametrize("expected_seq", [0, 1, 3, 99])
    def test_an_append_that_does_not_know_the_end_of_the_log_is_refused(self, stage: Stage, expected_seq: int) -> None:
        """Keeps: gapless-log, one-writer."""
        claim = stage.running()
        stage.append(claim, CALLED)

        with stage.nothing_changes(), pytest.raises(Conflict) as refused:
            stage.append(claim, CALLED, expected_seq=expected_seq)
        assert not isinstance(refused.value, InvalidLease)
        assert "'t'" in str(refused.value)
        assert str(expected_seq) in str(refused.value)

    @holds(
        "guarantee/reclaimed-cannot-write",
        "writer/refused-writes-nothing",
        "writer/enforced",
        "writer/contract-lapsed",
    )
    def test_the_old_owner_writes_nothing_after_a_takeover(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        old = stage.running()
        stage.clock.advance(LEASE)
        stage.claim("w2")

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(old, CALLED)

    @holds("writer/fence")
    def test_an_epoch_that_wrote_is_never_written_under_again(self, stage: Stage) -> None:
        """The newest entry never goes back to an older owner. Keeps: gapless-log, epochs-rise.

        https://github.com/langchain-ai/langgraph/issues/8796
        """
        claims = [stage.running()]
        for n in range(3):
            stage.append(claims[-1], CALLED)
            stage.clock.advance(LEASE)
            claims.append(stage.claim(f"w{n}"))
            for old in claims[:-1]:
                with pytest.raises(InvalidLease):
                    stage.append(old, CALLED)

        epochs = [entry.epoch for entry in stage.page().entries]
        assert epochs == sorted(epochs)

    @holds("writer/epoch-and-lease")
    def test_a_lease_that_is_over_writes_nothing_even_if_nobody_took_the_task(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        claim = stage.running()
        stage.clock.advance(LEASE - ONE_MICRO)
        stage.append(claim, CALLED)
        stage.clock.advance(ONE_MICRO)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(claim, CALLED)

    def test_an_append_does_not_extend_the_lease(self, stage: Stage) -> None:
        claim = stage.running()
        stage.clock.advance(LEASE / 2)

        stage.append(claim, CALLED)

        assert stage.row().lease_until == claim.lease_until

    @holds("writer/claims-first", "writer/epoch-and-lease", "writer/fence")
    def test_another_token_or_epoch_is_another_owner(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        claim = stage.running()

        for forged in (
            replace(claim, token="other"),
            replace(claim, epoch=claim.epoch - 1),
            replace(claim, epoch=claim.epoch + 1),
        ):
            with stage.nothing_changes(), pytest.raises(InvalidLease):
                stage.append(forged, CALLED)

    def test_the_workers_name_is_no_fence(self, stage: Stage) -> None:
        claim = stage.running()

        stage.append(replace(claim, worker="renamed"), CALLED)

        assert stage.row().last_seq == 2

    @holds("writer/claims-first", "writer/epoch-and-lease")
    def test_a_released_claim_writes_nothing(self, stage: Stage) -> None:
        claim = stage.running()
        stage.store.release(claim)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(claim, CALLED)

    def test_a_suspended_tasks_last_owner_writes_nothing(self, stage: Stage) -> None:
        claim = stage.suspended()

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(claim, CALLED)

    def test_a_swept_claim_writes_nothing(self, stage: Stage) -> None:
        """Not even after its task was put back and is nobody's. Keeps: one-writer."""
        claim = stage.running()
        stage.clock.advance(LEASE)
        stage.store.requeue_stale()

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(claim, CALLED)

    def test_an_append_to_an_unknown_task_names_it(self, stage: Stage) -> None:
        claim = stage.running()

        with stage.nothing_changes(), pytest.raises(UnknownTask):
            stage.store.append(replace(claim, task_id="nobody"), 1, Commit((CALLED,)))

    def test_of_two_recoverers_with_one_stale_list_one_writes(self, stage: Stage) -> None:
        """Zero rows taken means stop. Keeps: one-writer.

        https://github.com/dbos-inc/dbos-transact-py/issues/742
        """
        stage.running()
        stage.clock.advance(LEASE)
        stale = [row.id for row in stage.store.tasks(status=Status.RUNNING)]
        assert stale == ["t"]

        first = stage.another().claim("r1", None, LEASE)
        second = stage.another().claim("r2", None, LEASE)

        assert [claim.worker for claim in first.claims] == ["r1"]
        assert second.claims == ()

    # -- items ---------------------------------------------------------------------------------------------

    @holds("wake/release-consumes", "outcome/wake-recovery-error")
    def test_an_item_is_taken_by_the_append_that_records_it(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)

        stage.append(claim, MessageTaken(1, A_MESSAGE))

        assert stage.unread() == ()
        assert stage.row().inbox_seq == 1

    @holds("outcome/wake-recovery-error")
    @pytest.mark.parametrize("number", [1, 2, 2**63 - 1])
    def test_an_item_that_is_not_unread_cannot_be_taken(self, stage: Stage, number: int) -> None:
        """Keeps: taken-once."""
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)
        stage.append(claim, MessageTaken(1, A_MESSAGE))

        with stage.nothing_changes(), pytest.raises(Conflict):
            stage.append(claim, CALLED, MessageTaken(number, A_MESSAGE))

    def test_one_commit_takes_an_item_once(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        claim = stage.running()
        stage.store.post("t", A_MESSAGE)

        with stage.nothing_changes(), pytest.raises(BadInput):
            stage.append(claim, MessageTaken(1, A_MESSAGE), TaskWoken((1,), A_MESSAGE))

    def test_one_entry_takes_many_items(self, stage: Stage) -> None:
        claim = stage.running()
        for n in range(3):
            stage.store.post("t", A_MESSAGE, key=f"k{n}")

        stage.append(claim, TaskWoken((1, 3), A_MESSAGE))

        assert [item.number for item in stage.unread()] == [2]

    # -- batches -------------------------------------------------------------------------------------------

    def test_a_batch_answers_each_member_in_its_place(self, stage: Stage) -> None:
        claims = [stage.running(id) for id in "abc"]
        stage.store.release(claims[1])
        commit = Commit((CALLED, ToolStarted("2-0", 1)))

        answers = stage.store.append_many([Append(claim, 1, commit) for claim in claims])

        assert [type(answer) for answer in answers] == [Appended, InvalidLease, Appended]
        assert [stage.row(id).last_seq for id in "abc"] == [3, 1, 3]

    def test_a_refused_member_touches_no_other(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        claims = [stage.running(id) for id in "abcd"]
        stage.store.post("d", A_MESSAGE)
        appends = [
            Append(claims[0], 1, Commit((CALLED,), End(TaskCompleted("a")))),
            Append(claims[1], 9, Commit((CALLED,))),
            Append(replace(claims[2], task_id="nobody"), 1, Commit((CALLED,))),
            Append(claims[3], 1, Commit((MessageTaken(1, A_MESSAGE), MessageTaken(2, A_MESSAGE)))),
        ]

        answers = stage.store.append_many(appends)

        assert [type(answer) for answer in answers] == [Appended, Conflict, UnknownTask, Conflict]
        assert [stage.row(id).last_seq for id in "abcd"] == [3, 1, 1, 1]
        assert stage.row("a").status is Status.TERMINAL
        assert len(stage.unread("d")) == 1

    def test_two_commits_of_one_task_are_no_batch(self, stage: Stage) -> None:
        claim = stage.running()

        with stage.nothing_changes(), pytest.raises(BadInput):
            stage.store.append_many([Append(claim, 1, Commit((CALLED,))), Append(claim, 2, Commit((CALLED,)))])

    def test_one_bad_member_refuses_a_batch_before_any_effect(self, stage: Stage) -> None:
        claims = [stage.running(id) for id in "ab"]
        bad = Commit((ModelReplied("\ud800"),))

        with stage.nothing_changes(), pytest.raises(BadInput):
            stage.store.append_many([Append(claims[0], 1, Commit((CALLED,))), Append(claims[1], 1, bad)])

    def test_an_empty_batch_is_no_error(self, stage: Stage) -> None:
        assert stage.store.append_many([]) == ()

    def test_a_batch_of_many_tasks_lands(self, stage: Stage) -> None:
        for n in range(100):
            stage.create(f"t{n:03}")
        claims = stage.claim_all(100)

        answers = stage.store.append_many([Append(claim, 1, Commit((CALLED,))) for claim in claims])

        assert all(isinstance(answer, Appended) and answer.last_seq == 2 for answer in answers)
        assert {row.last_seq for row in stage.store.tasks()} == {2}
