"""How tasks are born."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noeta.core.errors import DuplicateTask
from noeta.core.events import TaskCompleted, TaskCreated
from noeta.core.store import Created, End, NewTask
from noeta.core.task import Status
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import ContractTests, Stage, at_once

TASK = NewTask("t", "agent", "do it", queue="q", interactive=True)


class BirthContract(ContractTests):
    @holds("status/pending")
    def test_a_new_task_is_pending_and_may_be_claimed_at_once(self, stage: Stage) -> None:
        created = stage.store.create(TASK)

        row = stage.row()
        assert created == Created("t", created=True)
        assert (row.id, row.queue, row.status, row.kept) == ("t", "q", Status.PENDING, False)
        assert (row.ready_at, row.created_at) == (stage.now, stage.now)
        assert (row.epoch, row.last_seq, row.inbox_seq, row.takeovers, row.fail_attempts) == (0, 1, 0, 0, 0)
        assert (row.worker, row.token, row.lease_until, row.wake_on, row.wake_key, row.wake_missing) == (
            *(None,) * 5,
            0,
        )
        assert (row.parent, row.group) == (None, None)

    def test_its_first_entry_says_what_was_asked_of_whom(self, stage: Stage) -> None:
        """Keeps: gapless-log."""
        stage.store.create(TASK)

        (entry,) = stage.page().entries
        assert entry.event == TaskCreated("agent", "do it", interactive=True)
        assert (entry.seq, entry.epoch, entry.at) == (1, 0, stage.now)

    @holds("writer/claimable")
    def test_a_delayed_task_is_not_claimable_before_its_time(self, stage: Stage) -> None:
        """A task that merely waits is started once, however long. Keeps: timers-once.

        https://github.com/celery/kombu/issues/337
        """
        stage.create(delay_seconds=3_600)
        stage.clock.advance(3_599.999_999)
        assert stage.nothing_claimable()

        stage.clock.advance(0.000_001)

        assert stage.claim().task_id == "t"
        assert stage.nothing_claimable()

    def test_a_repeat_with_the_same_content_changes_nothing(self, stage: Stage) -> None:
        stage.store.create(TASK)

        with stage.nothing_changes():
            assert stage.store.create(TASK) == Created("t", created=False)

    def test_the_delay_is_no_content(self, stage: Stage) -> None:
        stage.store.create(TASK)

        with stage.nothing_changes():
            assert not stage.store.create(replace(TASK, delay_seconds=99.0)).created

    @pytest.mark.parametrize(
        "other",
        [
            replace(TASK, agent="else"),
            replace(TASK, goal="else"),
            replace(TASK, queue="else"),
            replace(TASK, interactive=False),
        ],
        ids=["agent", "goal", "queue", "interactive"],
    )
    def test_an_id_with_other_content_is_refused(self, stage: Stage, other: NewTask) -> None:
        stage.store.create(TASK)

        with stage.nothing_changes(), pytest.raises(DuplicateTask):
            stage.store.create(other)

    def test_a_task_that_ended_is_never_born_again(self, stage: Stage) -> None:
        """Keeps: terminal-is-final."""
        stage.store.create(TASK)
        claim = stage.claim()
        stage.append(claim, next=End(TaskCompleted("done")))

        with stage.nothing_changes():
            assert not stage.store.create(TASK).created
        assert stage.nothing_claimable()

    def test_many_who_create_one_task_create_it_once(self, stage: Stage) -> None:
        """Keeps: acked-stays."""
        handles = [stage.another() for _ in range(4)]

        answers = at_once(*(lambda store=store: store.create(TASK) for store in handles))

        assert sorted(answer.created for answer in answers if isinstance(answer, Created)) == [False] * 3 + [True]
        assert stage.row().last_seq == 1

    @pytest.mark.parametrize(
        "id",
        ["x" * 200, "ä-ש-日本-😀", 'it\'s "quoted"', "100%s {x} $1 :name", "back\\slash", "two\nlines", " "],
    )
    def test_any_name_without_a_dot_is_an_id(self, stage: Stage, id: str) -> None:
        stage.store.create(NewTask(id, id, "goal", queue=id))

        claim = stage.claim(id, queues=[id])
        assert (claim.task_id, claim.queue, claim.worker) == (id, id, id)
        assert [row.id for row in stage.store.tasks(queue=id)] == [id]
