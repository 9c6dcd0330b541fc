"""Parents and children: born with a commit, results posted once, posts to other tasks, groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noeta.core import limits
from noeta.core.errors import BadInput, Conflict, DuplicateTask, InvalidLease
from noeta.core.events import (
    Ending,
    ModelCalled,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
)
from noeta.core.store import Child, Claim, Commit, Continue, End, NewTask, Post, Suspend
from noeta.core.task import Status
from noeta.core.wake import ExternalEvent, Item, SubtaskCompleted, SubtaskGroupCompleted
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, LEASE, ContractTests, Stage, at_once

CHILD = Child("t.2-0.0", "helper", "help")
DONE = TaskCompleted("done")
GROUP = SubtaskGroupCompleted("g", members=3)


def members(count: int = 3) -> tuple[Child, ...]:
    return tuple(Child(f"t.2-0.{n}", "helper", f"part {n}", group="g") for n in range(count))


def end(stage: Stage, id: str, entry: Ending = DONE) -> None:
    """Claim tasks until this one comes, and end it."""
    claim = stage.claim(f"worker of {id}")
    assert claim.task_id == id, claim
    stage.append(claim, next=End(entry))


class FamilyContract(ContractTests):
    @holds("subtask/ordinary-task", "tool/children-with-result")
    def test_a_child_is_born_with_the_commit_that_records_its_call(self, stage: Stage) -> None:
        """Keeps: children-once."""
        claim = stage.running(queue="q")

        stage.append(claim, ToolFinished("2-0", "started"), children=(replace(CHILD, group="g", interactive=True),))

        row = stage.row(CHILD.id)
        assert (row.status, row.parent, row.group, row.queue) == (Status.PENDING, "t", "g", "q")
        assert (row.ready_at, row.created_at, row.last_seq, row.epoch) == (stage.now, stage.now, 1, 0)
        assert stage.events(CHILD.id) == [TaskCreated("helper", "help", True, "t", "g", "t", 1)]

    def test_a_child_says_under_which_root_and_how_deep_it_stands(self, stage: Stage) -> None:
        claim = stage.running()
        stage.append(claim, children=(CHILD,))
        child = stage.claim("w2")
        deeper = Child(f"{CHILD.id}.5-0.1", "helper", "deeper", root="t", depth=2)

        stage.append(child, children=(deeper,))

        (born,) = stage.events(deeper.id)
        assert born == TaskCreated("helper", "deeper", False, CHILD.id, None, "t", 2)
        assert stage.row(deeper.id).parent == CHILD.id

    @holds("writer/refused-writes-nothing", "tool/clean-up", "tool/children-crash")
    def test_a_refused_commit_leaves_no_child(self, stage: Stage) -> None:
        """Keeps: children-once."""
        claim = stage.running()
        stage.clock.advance(LEASE)

        with stage.nothing_changes(), pytest.raises(InvalidLease):
            stage.append(claim, ToolFinished("2-0", "started"), children=(CHILD,))

    def test_a_claim_of_a_child_names_parent_and_group(self, stage: Stage) -> None:
        claim = stage.running()
        stage.append(claim, children=(replace(CHILD, group="g"),))

        child = stage.claim("w2")

        assert (child.task_id, child.parent, child.group) == (CHILD.id, "t", "g")

    @holds("tool/children-ids")
    @pytest.mark.parametrize("id", ["t", "other.2-0.0", "t2.2-0.0", "x"])
    def test_a_childs_id_is_derived_from_its_parents(self, stage: Stage, id: str) -> None:
        claim = stage.running()

        with stage.nothing_changes(), pytest.raises(BadInput):
            stage.append(claim, children=(replace(CHILD, id=id),))

    def test_a_child_born_again_with_the_same_content_is_the_same_child(self, stage: Stage) -> None:
        """Keeps: children-once."""
        claim = stage.running()
        stage.append(claim, children=(CHILD,))
        end(stage, CHILD.id)

        stage.append(claim, ModelCalled("h", 1), children=(CHILD,))

        assert stage.row(CHILD.id).status is Status.TERMINAL

    def test_a_child_with_other_content_refuses_the_whole_commit(self, stage: Stage) -> None:
        claim = stage.running()
        stage.append(claim, children=(CHILD,))

        with stage.nothing_changes(), pytest.raises((DuplicateTask, Conflict)):
            stage.append(
                claim,
                ToolFinished("2-0", "again"),
                children=(Child("t.2-0.1", "helper", "new"), replace(CHILD, goal="other")),
            )

    @holds("wait/subtask-delivered")
    @pytest.mark.parametrize(
        ("ending", "status", "output"),
        [
            (TaskCompleted("42"), "completed", "42"),
            (TaskCompleted(), "completed", ""),
            (TaskFailed("code", "text"), "failed", "code: text"),
            (TaskCancelled("stop"), "cancelled", "stop"),
        ],
        ids=["completed", "no answer", "failed", "cancelled"],
    )
    def test_a_childs_end_wakes_its_parent_with_the_result(
        self, stage: Stage, ending: Ending, status: str, output: str
    ) -> None:
        """In the child's last commit: there is nothing between to die in. Keeps: children-once.

        https://github.com/n8n-io/n8n/pull/31736
        """
        claim = stage.running()
        stage.append(claim, children=(CHILD,))
        stage.suspend(claim, SubtaskCompleted(CHILD.id))

        end(stage, CHILD.id, ending)

        assert stage.row().status is Status.PENDING
        (item,) = stage.unread()
        assert (item.key, item.item) == (f"child:{CHILD.id}", SubtaskCompleted(CHILD.id, status, output))

    @holds("wait/subtask-delivered")
    def test_a_child_that_ends_before_its_parent_waits_is_not_missed(self, stage: Stage) -> None:
        """Keeps: children-once, never-stuck."""
        claim = stage.running()
        stage.append(claim, ToolFinished("2-0", "started"), children=(CHILD,))
        end(stage, CHILD.id)

        appended = stage.suspend(claim, SubtaskCompleted(CHILD.id), inbox_seen=0)

        assert appended.status is Status.PENDING

    def test_a_child_that_fails_too_often_tells_its_parent(self, stage: Stage) -> None:
        """Keeps: children-once, never-stuck."""
        claim = stage.running()
        stage.append(claim, children=(CHILD,))
        stage.suspend(claim, SubtaskCompleted(CHILD.id))
        child = stage.claim("w2")

        stage.store.fail(child, "boom", retryable=False)

        assert stage.row().status is Status.PENDING
        (item,) = stage.items()
        assert isinstance(item, SubtaskCompleted) and item.status == "failed" and "boom" in item.output

    def test_a_completion_that_did_not_land_posts_no_result(self, stage: Stage) -> None:
        """Keeps: children-once."""
        claim = stage.running()
        stage.append(claim, children=(CHILD,))
        child = stage.claim("w2")
        stage.store.post(CHILD.id, A_MESSAGE)

        appended = stage.append(child, next=End(TaskCompleted("early")), inbox_seen=0)

        assert appended.moved
        assert stage.items() == []

    def test_a_child_whose_parent_ended_ends_all_the_same(self, stage: Stage) -> None:
        claim = stage.running()
        stage.append(claim, children=(CHILD,))
        stage.append(claim, next=End(TaskCompleted()))
        child = stage.claim("w2")

        appended = stage.append(child, next=End(TaskCompleted()))

        assert appended.status is Status.TERMINAL
        assert appended.refused == (f"child:{CHILD.id}",)

    # -- posts ---------------------------------------------------------------------------------------------

    def test_a_post_lands_with_its_commit_and_wakes(self, stage: Stage) -> None:
        stage.suspended("other", ExternalEvent("go"))
        claim = stage.running()

        appended = stage.append(claim, ModelCalled("h", 1), posts=(Post("other", ExternalEvent("go", 7), "k"),))

        assert appended.refused == ()
        assert stage.row("other").status is Status.PENDING
        (item,) = stage.unread("other")
        assert (item.item, item.key) == (ExternalEvent("go", 7), "k")

    def test_a_refused_commit_posts_nothing(self, stage: Stage) -> None:
        stage.create("other")
        stage.claim("w2")
        claim = stage.running()

        with stage.nothing_changes(), pytest.raises(Conflict):
            stage.append(claim, posts=(Post("other", A_MESSAGE, "k"),), expected_seq=9)

    @holds("tool/key-for-posts")
    def test_a_repeated_post_is_dropped_and_not_refused(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        stage.suspended("other")
        claim = stage.running()
        post = Post("other", A_MESSAGE, "k")

        stage.append(claim, posts=(post,))
        again = stage.append(claim, posts=(post, replace(post, item=ExternalEvent("x"))))

        assert again.refused == ()
        assert stage.items("other") == [A_MESSAGE]

    def test_posts_to_ended_and_unknown_tasks_are_told_and_fail_nothing(self, stage: Stage) -> None:
        stage.ended("gone")
        stage.suspended("there")
        claim = stage.running()
        posts = tuple(Post(id, A_MESSAGE, f"k of {id}") for id in ("gone", "there", "never"))

        appended = stage.append(claim, ModelCalled("h", 1), posts=posts)

        assert sorted(appended.refused) == ["k of gone", "k of never"]
        assert stage.items("there") == [A_MESSAGE]
        assert stage.row().last_seq == 2

    def test_a_task_may_post_to_itself(self, stage: Stage) -> None:
        claim = stage.running()

        appended = stage.append(claim, posts=(Post("t", A_MESSAGE, "note"),), next=Continue())

        assert appended.refused == ()
        assert stage.items() == [A_MESSAGE]

    def test_many_posts_of_one_commit_all_land(self, stage: Stage) -> None:
        for n in range(20):
            stage.suspended(f"o{n}")
        claim = stage.running()

        stage.append(claim, posts=tuple(Post(f"o{n}", A_MESSAGE, "k") for n in range(20)))

        assert {row.status for row in stage.store.tasks() if row.id != "t"} == {Status.PENDING}

    def test_a_thousand_children_are_born_at_once(self, stage: Stage) -> None:
        """https://github.com/oban-bg/oban/issues/791"""
        claim = stage.running()
        many = tuple(Child(f"t.2-0.{n}", "helper", "part") for n in range(limits.COMMIT_PARTS_MAX))

        stage.append(claim, children=many)

        assert len(stage.store.tasks(status=Status.PENDING, limit=2_000)) == limits.COMMIT_PARTS_MAX
        with stage.nothing_changes(), pytest.raises(BadInput):
            stage.append(claim, children=(*many, Child("t.2-0.9999", "helper", "one too many")))

    def test_parent_and_child_that_post_to_each_other_both_get_through(self, stage: Stage) -> None:
        """No deadlock reaches a caller. https://github.com/apache/airflow/issues/27473"""
        rounds = 25
        parent = stage.running(lease=600)
        stage.append(parent, children=(CHILD,))
        child = stage.claim("w2", lease=600)

        def talk(claim: Claim, to: str) -> list[str]:
            store = stage.another()
            refused: list[str] = []
            for n in range(rounds):
                row = store.task(claim.task_id)
                post = Post(to, ExternalEvent("hello"), f"{claim.task_id} {n}")
                refused += store.append(claim, row.last_seq, Commit((ModelCalled("h", 1),), posts=(post,))).refused
                store.renew(claim, 600)
            return refused

        answers = at_once(lambda: talk(parent, CHILD.id), lambda: talk(child, "t"))

        assert answers == [[], []]
        assert (stage.row().inbox_seq, stage.row(CHILD.id).inbox_seq) == (rounds, rounds)

    # -- groups --------------------------------------------------------------------------------------------

    @holds("wait/group-delivered")
    def test_a_group_wakes_its_parent_with_its_last_member(self, stage: Stage) -> None:
        """Failed and cancelled members count, too. Keeps: children-once."""
        claim = stage.running()
        stage.append(claim, children=members())
        stage.suspend(claim, GROUP)
        assert stage.row().wake_missing == 3

        endings: tuple[Ending, ...] = (TaskCompleted("a"), TaskFailed("b"), TaskCancelled("c"))
        missing = []
        for n, ending in enumerate(endings):
            end(stage, f"t.2-0.{n}", ending)
            missing.append((stage.row().status, stage.row().wake_missing))

        assert missing == [(Status.SUSPENDED, 2), (Status.SUSPENDED, 1), (Status.PENDING, 0)]
        assert [getattr(item, "group_id", None) for item in stage.items()] == ["g"] * 3

    def test_members_that_ended_before_the_wait_are_counted(self, stage: Stage) -> None:
        """Keeps: children-once, never-stuck."""
        claim = stage.running()
        stage.append(claim, children=members())
        end(stage, "t.2-0.0")
        known = tuple(stage.items())

        appended = stage.append(claim, TaskSuspended(GROUP), next=Suspend(GROUP, known=known), inbox_seen=1)

        assert (appended.status, stage.row().wake_missing) == (Status.SUSPENDED, 2)
        end(stage, "t.2-0.1")
        assert stage.row().status is Status.SUSPENDED
        end(stage, "t.2-0.2")
        assert stage.row().status is Status.PENDING

    @holds("wait/group-delivered")
    def test_a_group_that_ended_before_the_wait_is_looked_at_again(self, stage: Stage) -> None:
        """Keeps: children-once, never-stuck."""
        claim = stage.running()
        stage.append(claim, children=members())
        for n in range(3):
            end(stage, f"t.2-0.{n}")

        assert stage.suspend(claim, GROUP, inbox_seen=0).status is Status.PENDING

    @pytest.mark.parametrize("keep", [False, True])
    def test_a_wait_for_a_group_that_is_known_to_have_ended_is_no_wait(self, stage: Stage, keep: bool) -> None:
        """No later item would end it. Keeps: never-stuck."""
        claim = stage.running()
        stage.append(claim, children=members())
        for n in range(3):
            end(stage, f"t.2-0.{n}")
        known: tuple[Item, ...] = tuple(stage.items())

        appended = stage.append(claim, TaskSuspended(GROUP), next=Suspend(GROUP, keep, known), inbox_seen=3)

        assert appended.status is (Status.RUNNING if keep else Status.PENDING)

    def test_one_append_takes_the_whole_group(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        claim = stage.running()
        stage.append(claim, children=members())
        stage.suspend(claim, GROUP)
        for n in range(3):
            end(stage, f"t.2-0.{n}")
        claim = stage.claim()
        results = tuple(item for item in stage.items() if isinstance(item, SubtaskCompleted))

        stage.append(claim, TaskWoken((1, 2, 3), SubtaskGroupCompleted("g", 3, results)))

        assert stage.unread() == ()

    @holds("wait/group-matches")
    def test_members_of_another_group_do_not_count(self, stage: Stage) -> None:
        claim = stage.running()
        stage.suspend(claim, GROUP)

        for n in range(4):
            stage.store.post("t", SubtaskCompleted(f"x{n}", group_id="other"))

        assert (stage.row().status, stage.row().wake_missing) == (Status.SUSPENDED, 3)

    @holds("wait/subtask-matches")
    def test_a_wait_for_one_member_ends_with_that_member(self, stage: Stage) -> None:
        claim = stage.running()
        stage.append(claim, children=members())
        stage.suspend(claim, SubtaskCompleted("t.2-0.1"))

        end(stage, "t.2-0.0")
        assert stage.row().status is Status.SUSPENDED
        end(stage, "t.2-0.1")
        assert stage.row().status is Status.PENDING

    def test_created_tasks_have_no_parent(self, stage: Stage) -> None:
        stage.store.create(NewTask("alone", "agent", "goal"))

        assert (stage.row("alone").parent, stage.row("alone").group) == (None, None)
