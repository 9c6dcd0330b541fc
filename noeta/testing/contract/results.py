"""Results of children: how long they may be, and those that are there before anybody waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from noeta.core import limits, texts
from noeta.core.codec import cut, encoded_bytes
from noeta.core.errors import BadInput
from noeta.core.events import TaskCompleted, TaskFailed, TaskWoken
from noeta.core.store import Child, Claim, End, Suspend
from noeta.core.task import Status
from noeta.core.wake import (
    BACKGROUND,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    WakeCondition,
    find_wake,
)
from noeta.testing.contract.stage import A_WAIT, DONE, ContractTests, Stage

CHARACTERS: Final = {"ascii": "x", "control": "\x01", "quote": '"', "nul": "\x00", "four bytes": "\U0001f600"}
NOTICE_BYTES_MAX: Final = 200

ENDS: Final[dict[str, Callable[[Stage, Claim], object]]] = {
    "completed": lambda stage, claim: stage.append(claim, next=End(DONE)),
    "failed": lambda stage, claim: stage.append(claim, next=End(TaskFailed("code"))),
    "failed for good": lambda stage, claim: stage.store.fail(claim, "boom", retryable=False),
    "cancelled": lambda stage, claim: (stage.store.release(claim), stage.cancel(claim.task_id)),
}
WAITS: Final[dict[str, tuple[str | None, WakeCondition]]] = {
    "a child": (None, SubtaskCompleted("t.2-0.1")),
    "a member": ("t.2-0", SubtaskCompleted("t.2-0.1")),
    "a group": ("t.2-0", SubtaskGroupCompleted("t.2-0", 1)),
    "the next goal, for a child in the background": (BACKGROUND, A_WAIT),
}


def _long(character: str) -> str:
    """As much of it as an entry just holds."""
    return character * ((limits.BODY_BYTES_MAX - 1_000) // (encoded_bytes(character) - 2))


class ResultsContract(ContractTests):
    @pytest.mark.parametrize("character", list(CHARACTERS))
    @pytest.mark.parametrize(
        ("group", "most"),
        [(None, limits.RESULT_BYTES_MAX), ("t.2-0", limits.MEMBER_RESULT_BYTES_MAX)],
        ids=["alone", "in a group"],
    )
    def test_a_result_is_cut_to_what_its_parent_can_take(
        self, stage: Stage, group: str | None, most: int, character: str
    ) -> None:
        """By encoded bytes, with a notice; the child's own log holds all of it. Keeps: children-once, never-stuck."""
        parent = stage.running()
        stage.append(parent, children=(Child("t.2-0.1", "helper", "help", group=group),))
        answer = _long(CHARACTERS[character])

        stage.append(stage.claim("w2"), next=End(TaskCompleted(answer)))

        (item,) = stage.items()
        assert isinstance(item, SubtaskCompleted)
        assert most * 0.9 < encoded_bytes(item.output) < most + NOTICE_BYTES_MAX
        assert item == SubtaskCompleted("t.2-0.1", "completed", cut(answer, most, texts.RESULT_CUT), group)
        assert item.output.startswith(CHARACTERS[character] * 1_000) and item.output.endswith("are kept]")
        assert stage.events("t.2-0.1")[-1] == TaskCompleted(answer)
        stage.append(parent, TaskWoken((1,), item))

    def test_a_result_that_just_fits_is_not_cut(self, stage: Stage) -> None:
        parent = stage.running()
        stage.append(parent, children=(Child("t.2-0.1", "helper", "help", group="t.2-0"),))
        answer = "x" * (limits.MEMBER_RESULT_BYTES_MAX - 2)

        stage.append(stage.claim("w2"), next=End(TaskCompleted(answer)))

        assert stage.items() == [SubtaskCompleted("t.2-0.1", "completed", answer, "t.2-0")]

    @pytest.mark.parametrize("way", ["appended", "failed for good"])
    def test_what_a_failure_says_is_cut_too(self, stage: Stage, way: str) -> None:
        """Keeps: bounded, never-stuck."""
        parent = stage.running()
        stage.append(parent, children=(Child("t.2-0.1", "helper", "help", group="t.2-0"),))
        child = stage.claim("w2")

        if way == "appended":
            stage.append(child, next=End(TaskFailed("code", _long("\x01"))))
        else:
            stage.store.fail(child, "\x01" * 1_000_000, retryable=False)

        (item,) = stage.items()
        assert isinstance(item, SubtaskCompleted) and item.status == "failed"
        assert encoded_bytes(item.output) < limits.MEMBER_RESULT_BYTES_MAX + NOTICE_BYTES_MAX

    def test_the_longest_results_of_the_largest_group_fit_one_entry(self, stage: Stage) -> None:
        """Or its parent would wait for ever. Keeps: never-stuck, children-once, taken-once."""
        count = limits.GROUP_MEMBERS_MAX
        condition = SubtaskGroupCompleted("t.2-0", count)
        parent = stage.running()
        ids = [f"t.2-0.{n}" for n in range(1, count + 1)]
        stage.append(parent, children=tuple(Child(id, "helper", "help", group="t.2-0") for id in ids))
        stage.suspend(parent, condition)
        for claim in stage.claim_all(count):
            stage.append(claim, next=End(TaskCompleted("\x01" * limits.MEMBER_RESULT_BYTES_MAX)))
        assert stage.row().status is Status.PENDING
        claim = stage.claim()

        found = find_wake(condition, [(item.number, item.item) for item in stage.unread()])

        assert found is not None
        numbers, event = found
        assert isinstance(event, SubtaskGroupCompleted)
        assert [result.subtask_id for result in event.results] == ids
        stage.append(claim, TaskWoken(numbers, event))
        assert (stage.unread(), stage.events()[-1]) == ((), TaskWoken(numbers, event))

    # -- there before the wait -----------------------------------------------------------------------------

    @pytest.mark.parametrize("wait", list(WAITS))
    @pytest.mark.parametrize("ending", list(ENDS))
    def test_a_wait_for_what_has_ended_already_is_ready_at_once(self, stage: Stage, wait: str, ending: str) -> None:
        """No sweep has to find the pair. Keeps: never-stuck, wake-once, children-once.

        https://github.com/n8n-io/n8n/pull/31736
        """
        group, condition = WAITS[wait]
        parent = stage.running()
        stage.append(parent, children=(Child("t.2-0.1", "helper", "help", group=group),))
        ENDS[ending](stage, stage.claim("w2"))

        appended = stage.suspend(parent, condition, inbox_seen=0)

        assert (appended.status, appended.moved) == (Status.PENDING, True)
        assert (stage.row().ready_at, stage.row().wake_on) == (stage.now, None)
        claim = stage.claim("w3")
        (item,) = stage.unread()
        found = find_wake(condition, [(item.number, item.item)])
        assert found is not None
        stage.append(claim, TaskWoken(*found))

    def test_of_a_group_only_what_is_still_missing_is_waited_for(self, stage: Stage) -> None:
        """Those that ended while the decision was made are counted by the next look. Keeps: never-stuck."""
        condition = SubtaskGroupCompleted("t.2-0", 3)
        parent = stage.running()
        stage.append(parent, children=tuple(Child(f"t.2-0.{n}", "h", "g", group="t.2-0") for n in (1, 2, 3)))
        first, second, third = stage.claim_all(3, "w2")
        stage.append(first, next=End(DONE))
        known: tuple[Item, ...] = tuple(stage.items())
        stage.append(second, next=End(DONE))

        looked = stage.append(parent, next=Suspend(condition, known=known), inbox_seen=1)
        assert looked.status is Status.PENDING
        claim = stage.claim("w3")
        known = tuple(stage.items())
        waits = stage.append(claim, next=Suspend(condition, known=known), inbox_seen=2)

        assert (waits.status, stage.row().wake_missing) == (Status.SUSPENDED, 1)
        stage.append(third, next=End(DONE))
        assert stage.row().status is Status.PENDING

    def test_a_member_told_twice_counts_once(self, stage: Stage) -> None:
        """Under other keys the row may be woken too early; whoever claims it sees that and waits on.
        Keeps: children-once, wake-once."""
        condition = SubtaskGroupCompleted("g", 3)
        stage.suspended(wake_on=condition)

        for key in ("a", "a", "b", "c"):
            stage.store.post("t", SubtaskCompleted("t.2-0.1", group_id="g"), key)

        assert stage.row().status is Status.PENDING
        claim, unread = stage.claim(), [(item.number, item.item) for item in stage.unread()]
        assert find_wake(condition, unread) is None
        stage.append(claim, next=Suspend(condition, known=tuple(item for _, item in unread)))
        assert (stage.row().status, stage.row().wake_missing) == (Status.SUSPENDED, 2)

    def test_what_a_host_tells_of_a_child_does_not_take_the_place_of_its_result(self, stage: Stage) -> None:
        """Or the parent would wait for ever: what was told names no group. Keeps: children-once, never-stuck."""
        parent = stage.running()
        member = Child("t.2-0.1", "helper", "go", group="t.2-0")
        stage.append(parent, children=(member,))
        stage.suspend(parent, SubtaskGroupCompleted("t.2-0", 1))
        assert stage.store.wake("t", SubtaskCompleted(member.id, "completed", "so they say")).outcome == "stored"
        with pytest.raises(BadInput, match="key"):
            stage.store.post("t", SubtaskCompleted(member.id), f"child:{member.id}")

        stage.append(stage.claim("w2"), next=End(TaskCompleted("done")))

        assert stage.row().status is Status.PENDING
        assert stage.items()[-1] == SubtaskCompleted(member.id, "completed", "done", "t.2-0")
