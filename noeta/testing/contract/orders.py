"""Orders to end: what the children hear when a task ends, and how a running step hears of an order at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from noeta.core import texts
from noeta.core.errors import BadInput
from noeta.core.events import Ending, MessageTaken, TaskCancelled, TaskCompleted, TaskFailed, TaskWoken
from noeta.core.store import Child, Claim, End, Post, PutBack
from noeta.core.task import Shape
from noeta.core.wake import ControlReceived, Item
from noeta.testing.contract.stage import A_MESSAGE, DONE, LEASE, ContractTests, Stage

ORDER: Final = ControlReceived("cancel", texts.PARENT_ENDED)
KEY: Final = "cancel:parent"


def _ends(entry: Ending) -> Callable[[Stage, Claim], object]:
    return lambda stage, claim: stage.append(claim, next=End(entry))


def _cancelled_in_its_wait(stage: Stage, claim: Claim) -> None:
    stage.suspend(claim)
    assert stage.cancel(claim.task_id).outcome == "cancelled"


ENDS: Final[dict[str, Callable[[Stage, Claim], object]]] = {
    "completed": _ends(TaskCompleted("done")),
    "failed": _ends(TaskFailed("code")),
    "cancelled by its owner": _ends(TaskCancelled("why")),
    "failed for good": lambda stage, claim: stage.store.fail(claim, "boom", retryable=False),
    "failed at the bound": lambda stage, claim: stage.store.fail(claim, "boom", attempts_max=1),
    "cancelled in its wait": _cancelled_in_its_wait,
}
_however_it_ends = pytest.mark.parametrize("ending", list(ENDS))


def child(place: str) -> Child:
    return Child(f"t.2-0.{place}", "helper", "help")


def in_every_shape(stage: Stage) -> dict[str, Claim]:
    """The children of a parent that runs, by what they do: claimed in the order of their ids, then moved there."""
    parent = stage.running()
    places = ["1", "2", "3", "4", "5", "6"]
    stage.append(parent, children=tuple(map(child, places)))
    pending, rests, waits, runs, kept, ended = (stage.claim(f"w{place}") for place in places)
    stage.store.release(pending)
    stage.append(rests, next=PutBack(1_000))
    stage.suspend(waits, stage.timer(1_000))
    stage.suspend(kept, stage.timer(1_000), keep=True)
    stage.append(ended, next=End(DONE))
    return {"parent": parent, "pending": pending, "rests": rests, "waits": waits, "runs": runs, "kept": kept}


class OrdersContract(ContractTests):
    @_however_it_ends
    def test_the_unfinished_children_of_an_ended_task_are_ordered_to_end(self, stage: Stage, ending: str) -> None:
        """Each once, in the transaction of the end, whatever it is doing. Keeps: children-once, never-stuck."""
        claims = in_every_shape(stage)
        before = {id: stage.row(id) for id in map("t.2-0.{}".format, range(1, 7))}

        ENDS[ending](stage, claims["parent"])

        assert stage.row().shape is Shape.TERMINAL
        for name in ("pending", "rests", "waits", "runs", "kept"):
            id = claims[name].task_id
            (item,) = stage.unread(id)
            assert (item.key, item.item, item.number) == (KEY, ORDER, before[id].inbox_seq + 1), name
        for name in ("runs", "kept"):
            id = claims[name].task_id
            assert stage.row(id) == replace(before[id], inbox_seq=1), name
        assert stage.row("t.2-0.6") == before["t.2-0.6"]

    @_however_it_ends
    def test_a_child_that_was_ordered_to_end_may_be_claimed_at_once(self, stage: Stage, ending: str) -> None:
        """It rests no longer, and waits no longer. Keeps: never-stuck."""
        claims = in_every_shape(stage)
        stage.clock.advance(1)

        ENDS[ending](stage, claims["parent"])

        for name in ("pending", "rests", "waits"):
            row = stage.row(claims[name].task_id)
            assert (row.shape, row.wake_on, row.wake_key) == (Shape.PENDING, None, None), name
        assert [stage.row(claims[name].task_id).ready_at for name in ("rests", "waits")] == [stage.now] * 2
        taken = stage.store.claim("w9", None, LEASE, limit=10)
        assert {claim.task_id for claim in taken.claims} == {"t.2-0.1", "t.2-0.2", "t.2-0.3"}
        assert taken.timers_fired == ()

    @_however_it_ends
    def test_the_owner_of_a_child_hears_of_the_order_with_its_renewal(self, stage: Stage, ending: str) -> None:
        """Running or kept, with no item of its own kind. Keeps: terminal-is-final."""
        claims = in_every_shape(stage)
        owned = [claims["runs"], claims["kept"]]
        assert [renewal.ordered for renewal in stage.store.renew(owned, LEASE)] == [False, False]

        ENDS[ending](stage, claims["parent"])

        renewals = stage.store.renew(owned, LEASE)
        assert [(one.outcome, one.ordered) for one in renewals] == [("held", True)] * 2

    def test_a_completion_that_did_not_land_orders_nobody(self, stage: Stage) -> None:
        """Keeps: children-once."""
        parent = stage.running()
        stage.append(parent, children=(child("1"),))
        stage.store.post("t", A_MESSAGE)

        appended = stage.append(parent, next=End(TaskCompleted("early")), inbox_seen=0)

        assert appended.moved
        assert stage.unread(child("1").id) == ()

    def test_a_failure_that_is_tried_again_orders_nobody(self, stage: Stage) -> None:
        parent = stage.running()
        stage.append(parent, children=(child("1"),))

        stage.store.fail(parent, "boom")

        assert stage.unread(child("1").id) == ()

    def test_an_order_goes_one_level_down(self, stage: Stage) -> None:
        """Whoever ends the child orders its children, and so on. Keeps: children-once."""
        parent = stage.running()
        stage.append(parent, children=(child("1"),))
        middle = stage.claim("w2")
        below = Child(f"{middle.task_id}.3-0.1", "helper", "deeper", root="t", depth=2)
        stage.append(middle, children=(below,))

        stage.append(parent, next=End(TaskFailed("code")))
        assert stage.unread(below.id) == ()

        stage.append(middle, TaskWoken((1,), ORDER), next=End(TaskCancelled(texts.PARENT_ENDED)))
        assert stage.items(below.id) == [ORDER]

    def test_nobody_outside_the_family_is_ordered(self, stage: Stage) -> None:
        """Ids that look alike are no family."""
        other = stage.running("t2")
        stage.append(other, children=(Child("t2.2-0.1", "helper", "help"),))
        stage.claim("w2")
        stage.create("t3")
        stage.claim("w3")
        parent = stage.running()
        stage.append(parent, children=(child("1"),))

        stage.append(parent, next=End(DONE))

        asked = {row.id: row.inbox_seq for row in stage.store.tasks()}
        assert asked == {"t": 0, "t.2-0.1": 1, "t2": 0, "t2.2-0.1": 0, "t3": 0}

    def test_a_child_born_with_its_parents_end_is_ordered_to_end(self, stage: Stage) -> None:
        """Keeps: never-stuck."""
        parent = stage.running()

        stage.append(parent, next=End(TaskFailed("code")), children=(child("1"), child("2")))

        assert [stage.items(child(place).id) for place in "12"] == [[ORDER], [ORDER]]

    def test_a_post_of_the_ending_commit_comes_before_the_order(self, stage: Stage) -> None:
        parent = stage.running()
        stage.append(parent, children=(child("1"),))

        stage.append(parent, next=End(DONE), posts=(Post(child("1").id, A_MESSAGE, "last words"),))

        assert stage.items(child("1").id) == [A_MESSAGE, ORDER]

    def test_the_key_of_the_order_is_nobody_elses(self, stage: Stage) -> None:
        """Or whoever took it first would keep the child from hearing. Keeps: children-once, never-stuck."""
        parent = stage.running()
        stage.append(parent, children=(child("1"),))
        stage.claim("w2")
        with pytest.raises(BadInput, match="key"):
            stage.store.post(child("1").id, ORDER, KEY)

        stage.append(parent, next=End(DONE))

        assert stage.items(child("1").id) == [ORDER]

    def test_an_ordered_child_ends_and_finds_its_parent_gone(self, stage: Stage) -> None:
        """Keeps: terminal-is-final, never-stuck."""
        parent = stage.running()
        stage.append(parent, children=(child("1"),))
        stage.append(parent, next=End(DONE))
        claim = stage.claim("w2")

        ended = stage.append(claim, TaskWoken((1,), ORDER), next=End(TaskCancelled(texts.PARENT_ENDED)))

        assert ended.refused == (f"child:{claim.task_id}",)
        assert stage.endings() == [DONE]
        assert stage.nothing_claimable()

    def test_hundreds_of_children_are_all_ordered(self, stage: Stage) -> None:
        """Keeps: children-once."""
        parent = stage.running()
        stage.append(parent, children=tuple(child(str(n)) for n in range(250)))

        stage.append(parent, next=End(TaskFailed("code")))

        assert {row.inbox_seq for row in stage.store.tasks(limit=1_000) if row.id != "t"} == {1}

    # -- how a running step hears --------------------------------------------------------------------------

    @pytest.mark.parametrize("action", ["cancel", "close"])
    @pytest.mark.parametrize("keep", [False, True], ids=["running", "kept"])
    def test_a_renewal_says_ordered_exactly_while_an_order_is_unread(
        self, stage: Stage, action: str, keep: bool
    ) -> None:
        """Keeps: terminal-is-final, taken-once."""
        claim = stage.suspended(keep=True) if keep else stage.running()
        heard = [_ordered(stage, claim)]
        stage.store.post("t", A_MESSAGE)
        heard.append(_ordered(stage, claim))
        order: Item = ControlReceived(action, "enough")
        stage.store.post("t", order)
        heard += [_ordered(stage, claim), _ordered(stage, claim)]
        stage.append(claim, MessageTaken(1, A_MESSAGE))
        heard.append(_ordered(stage, claim))
        stage.append(claim, MessageTaken(2, order))
        heard.append(_ordered(stage, claim))

        assert heard == [False, False, True, True, True, False]

    def test_a_renewal_of_many_says_which_of_them_are_ordered(self, stage: Stage) -> None:
        claims = [stage.running(f"t{n}") for n in range(6)]
        for n in (1, 4):
            stage.store.post(f"t{n}", ControlReceived("close"))
        stage.store.release(claims[4])
        stage.store.post("t3", A_MESSAGE)

        renewals = stage.store.renew(claims, LEASE)

        assert [(one.task_id, one.outcome, one.ordered) for one in renewals] == [
            ("t0", "held", False),
            ("t1", "held", True),
            ("t2", "held", False),
            ("t3", "held", False),
            ("t4", "lost", False),
            ("t5", "held", False),
        ]


def _ordered(stage: Stage, claim: Claim) -> bool:
    (renewal,) = stage.store.renew(claim, LEASE)
    assert renewal.outcome == "held"
    return renewal.ordered
