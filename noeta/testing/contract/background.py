"""Children in the background: they belong to the root, which hears of them as of a message."""

from __future__ import annotations

from typing import Final

import pytest

from noeta.core import limits, texts
from noeta.core.codec import encoded_bytes
from noeta.core.errors import BadInput
from noeta.core.events import (
    Ending,
    MessageTaken,
    ModelCalled,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    ToolFinished,
)
from noeta.core.store import Child, Claim, End
from noeta.core.task import Status
from noeta.core.wake import (
    BACKGROUND,
    NEXT_GOAL,
    ControlReceived,
    HumanResponseReceived,
    SubtaskCompleted,
    WakeCondition,
)
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_WAIT, DONE, ContractTests, Stage

MIDDLE: Final = Child("t.2-0.1", "helper", "help")
BELOW: Final = Child(f"{MIDDLE.id}.3-0.1", "helper", "on its own", group=BACKGROUND, parent="t", root="t", depth=2)
OWN: Final = Child("t.2-0.2", "helper", "on its own", group=BACKGROUND)
ORDER: Final = ControlReceived("cancel", texts.PARENT_ENDED)


def tree(stage: Stage, *, bear: bool = True) -> tuple[Claim, Claim]:
    """A root and a child of it, both running; the child has borne one in the background unless told otherwise."""
    root = stage.running()
    stage.append(root, children=(MIDDLE,))
    middle = stage.claim("w2")
    if bear:
        stage.append(middle, ToolFinished("3-0", "started", children=(BELOW.id,)), children=(BELOW,))
    return root, middle


class BackgroundContract(ContractTests):
    @holds("subtask/root-owns")
    def test_a_child_in_the_background_belongs_to_the_root(self, stage: Stage) -> None:
        """Keeps: children-once."""
        tree(stage)

        row = stage.row(BELOW.id)
        assert (row.parent, row.group, row.status, row.ready_at) == ("t", BACKGROUND, Status.PENDING, stage.now)
        assert stage.events(BELOW.id) == [TaskCreated("helper", "on its own", False, "t", BACKGROUND, "t", 2)]
        claim = stage.claim("w3")
        assert (claim.task_id, claim.parent, claim.group) == (BELOW.id, "t", BACKGROUND)

    @pytest.mark.parametrize("bears", ["the root", "a child of it"])
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
    def test_its_result_comes_to_the_root_as_a_message_and_wakes_it(
        self, stage: Stage, bears: str, ending: Ending, status: str, output: str
    ) -> None:
        """Once, under the child's key. Keeps: children-once, wake-once."""
        if bears == "the root":
            root = stage.running()
            stage.append(root, children=(OWN,))
            id = OWN.id
        else:
            root, middle = tree(stage)
            stage.suspend(middle)
            id = BELOW.id
        stage.suspend(root)
        claim = stage.claim("w3")
        assert claim.task_id == id

        ended = stage.append(claim, next=End(ending))

        assert ended.refused == ()
        assert (stage.row().status, stage.row().ready_at) == (Status.PENDING, stage.now)
        (item,) = stage.unread()
        told = texts.CHILD_ENDED.format(child=id, status=status, output=output)
        assert (item.key, item.item) == (f"child:{id}", HumanResponseReceived(NEXT_GOAL, told, sender=id))

    @pytest.mark.parametrize(
        "condition", [HumanResponseReceived("question-1"), SubtaskCompleted(BELOW.id)], ids=["a question", "a result"]
    )
    def test_its_result_ends_no_other_wait(self, stage: Stage, condition: WakeCondition) -> None:
        """It is kept for the next turn. Keeps: wake-once."""
        root, _ = tree(stage)
        stage.suspend(root, condition)

        stage.append(stage.claim("w3"), next=End(DONE))

        assert (stage.row().status, stage.row().wake_on) == (Status.SUSPENDED, condition)
        assert stage.row().inbox_seq == 1

    def test_whoever_bore_it_hears_nothing_of_it(self, stage: Stage) -> None:
        """Neither of its end, nor does it end with it. Keeps: children-once."""
        _, middle = tree(stage)
        stage.suspend(middle)

        stage.append(stage.claim("w3"), next=End(DONE))

        assert (stage.row(MIDDLE.id).status, stage.row(MIDDLE.id).inbox_seq) == (Status.SUSPENDED, 0)

    @pytest.mark.parametrize("together", [False, True], ids=["later", "in the same commit"])
    def test_it_outlives_whoever_bore_it(self, stage: Stage, together: bool) -> None:
        _, middle = tree(stage, bear=not together)

        stage.append(middle, next=End(DONE), children=(BELOW,) if together else ())

        assert stage.unread(BELOW.id) == ()
        assert stage.row(BELOW.id).parent == "t"

    def test_it_is_ordered_to_end_with_the_root(self, stage: Stage) -> None:
        """Keeps: children-once, never-stuck."""
        root, _ = tree(stage)

        stage.append(root, next=End(DONE))

        assert (stage.items(MIDDLE.id), stage.items(BELOW.id)) == ([ORDER], [ORDER])

    def test_born_under_a_root_that_has_ended_it_has_its_order_at_once(self, stage: Stage) -> None:
        """Nobody else would ever give it one. Keeps: never-stuck, children-once."""
        root, middle = tree(stage, bear=False)
        stage.append(root, next=End(DONE))

        stage.append(middle, MessageTaken(1, ORDER), children=(BELOW,))

        (item,) = stage.unread(BELOW.id)
        assert (item.key, item.item, item.number) == ("cancel:parent", ORDER, 1)
        row = stage.row(BELOW.id)
        assert (row.status, row.parent, row.ready_at) == (Status.PENDING, "t", stage.now)
        claim = stage.claim("w3")
        assert claim.task_id == BELOW.id
        assert stage.append(claim, next=End(TaskCancelled())).refused == (f"child:{BELOW.id}",)

    def test_born_twice_it_is_one_child_with_one_order(self, stage: Stage) -> None:
        """Keeps: children-once."""
        root, middle = tree(stage)
        stage.append(middle, ModelCalled("h", 1), children=(BELOW, BELOW))
        assert stage.unread(BELOW.id) == ()
        stage.append(root, next=End(DONE))

        stage.append(middle, ModelCalled("h", 2), children=(BELOW,))

        assert stage.items(BELOW.id) == [ORDER]
        assert len(stage.events(BELOW.id)) == 1

    def test_born_again_after_its_end_it_stays_ended(self, stage: Stage) -> None:
        """Keeps: terminal-is-final, children-once."""
        root, middle = tree(stage)
        stage.append(stage.claim("w3"), next=End(DONE))
        stage.append(root, next=End(DONE))
        before = stage.page(BELOW.id)

        stage.append(middle, ModelCalled("h", 1), children=(BELOW,))

        assert stage.page(BELOW.id) == before

    def test_any_task_above_may_be_its_owner(self, stage: Stage) -> None:
        _, middle = tree(stage, bear=False)
        deep = Child(f"{MIDDLE.id}.3-0.1", "helper", "deeper", root="t", depth=2)
        stage.append(middle, children=(deep,))
        bottom = stage.claim("w3")

        stage.append(
            bottom, children=(Child(f"{deep.id}.4-0.1", "h", "g", group=BACKGROUND, parent=MIDDLE.id, depth=3),)
        )

        assert stage.row(f"{deep.id}.4-0.1").parent == MIDDLE.id

    @pytest.mark.parametrize(
        "owner", ["other", "t.2-0.2", "t.2", "t.2-0.1.3", BELOW.id, f"{MIDDLE.id}x", "", "T"], ids=repr
    )
    def test_its_owner_stands_above_whoever_bears_it(self, stage: Stage, owner: str) -> None:
        """Rows are locked in the order of ids, and that of a task above sorts first."""
        _, middle = tree(stage, bear=False)
        stage.create("other")

        with stage.nothing_changes(), pytest.raises(BadInput) as refused:
            stage.append(middle, children=(Child(BELOW.id, "helper", "help", group=BACKGROUND, parent=owner),))

        assert refused.value.field == "child.parent"

    def test_cancelled_it_tells_the_root(self, stage: Stage) -> None:
        """Keeps: children-once."""
        root, _ = tree(stage)
        stage.suspend(root, A_WAIT)

        assert stage.cancel(BELOW.id).outcome == "cancelled"

        assert stage.row().status is Status.PENDING
        told = texts.CHILD_ENDED.format(child=BELOW.id, status="cancelled", output="enough")
        assert stage.items() == [HumanResponseReceived(NEXT_GOAL, told, sender=BELOW.id)]

    def test_failed_too_often_it_tells_the_root(self, stage: Stage) -> None:
        """Keeps: children-once, never-stuck."""
        root, _ = tree(stage)
        stage.suspend(root, A_WAIT)

        stage.store.fail(stage.claim("w3"), "boom", retryable=False)

        (item,) = stage.items()
        assert isinstance(item, HumanResponseReceived) and item.sender == BELOW.id and "boom" in item.text
        assert stage.row().status is Status.PENDING

    def test_its_result_is_cut_where_a_message_would_be_too_long(self, stage: Stage) -> None:
        root, _ = tree(stage)
        claim = stage.claim("w3")

        stage.append(claim, next=End(TaskCompleted("\x00" * (limits.RESULT_BYTES_MAX // 4))))

        (item,) = stage.items()
        assert isinstance(item, HumanResponseReceived)
        assert encoded_bytes(item.text) < limits.RESULT_BYTES_MAX + 1_000
        assert item.text.endswith("are kept]")
        stage.append(root, MessageTaken(1, item))
        assert stage.events()[-1] == MessageTaken(1, item)
