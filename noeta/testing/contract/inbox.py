"""The inbox is the only door: posts, wakes, dedupe keys."""

from __future__ import annotations

import pytest

from noeta.core import codec
from noeta.core.errors import BadInput, UnknownTask
from noeta.core.events import MessageTaken, TaskFailed, TaskWoken
from noeta.core.store import End, NewTask, Posted
from noeta.core.task import Status
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    WakeEvent,
    matches_wake,
)
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, A_WAIT, ContractTests, Stage

CONDITIONS: tuple[WakeCondition, ...] = (
    SubtaskCompleted("t.2-0.0"),
    SubtaskGroupCompleted("g", members=2),
    HumanResponseReceived(),
    HumanResponseReceived("question-1"),
    ExternalEvent("deployed"),
)
EVENTS: tuple[Item, ...] = (
    SubtaskCompleted("t.2-0.0", "completed", "out"),
    SubtaskCompleted("t.2-0.1", "failed", "no"),
    HumanResponseReceived(text="hi"),
    HumanResponseReceived("question-1", "yes"),
    ExternalEvent("deployed", {"version": [1, 2]}),
    ExternalEvent("rolled back"),
    ControlReceived("close", "enough"),
)


class InboxContract(ContractTests):
    def test_items_are_numbered_from_one_and_given_back_as_posted(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        stage.create()
        for n, event in enumerate(EVENTS, start=1):
            stage.clock.advance(1)
            assert stage.store.post("t", event, key=f"key {n}") == Posted("stored", n, made_ready=False)

        unread = stage.unread()
        assert [item.number for item in unread] == list(range(1, len(EVENTS) + 1))
        assert [item.item for item in unread] == list(EVENTS)
        assert [item.key for item in unread] == [f"key {n}" for n in range(1, len(EVENTS) + 1)]
        assert [item.body for item in unread] == [codec.encode("item", event) for event in EVENTS]
        assert unread[-1].at == stage.now
        assert stage.row().inbox_seq == len(EVENTS)

    def test_nul_in_a_body_comes_back_unchanged(self, stage: Stage) -> None:
        """https://github.com/open-metadata/OpenMetadata/issues/31120"""
        stage.create()
        message = HumanResponseReceived(text="a\x00b")

        stage.store.post("t", message)
        stage.store.post("t", ExternalEvent("e", {"\x00": ["\x00"]}))

        assert stage.items() == [message, ExternalEvent("e", {"\x00": ["\x00"]})]

    @holds("wait/one-rule", "wake/match-is-stored", "status/pending")
    @pytest.mark.parametrize("condition", CONDITIONS, ids=repr)
    @pytest.mark.parametrize("event", EVENTS, ids=repr)
    def test_an_item_makes_ready_exactly_what_it_satisfies(
        self, stage: Stage, condition: WakeCondition, event: Item
    ) -> None:
        """The keys that stores compare agree with ``matches_wake``. A cancel does more than that: `cancel.py`.
        Keeps: wake-once."""
        stage.suspended(wake_on=condition)

        posted = stage.store.post("t", event)

        expected = matches_wake(condition, event)
        assert posted == Posted("stored", 1, made_ready=expected)
        row = stage.row()
        assert row.status is (Status.PENDING if expected else Status.SUSPENDED)
        if expected:
            assert (row.ready_at, row.wake_on, row.wake_key, row.wake_missing) == (stage.now, None, None, 0)
        else:
            assert (row.wake_on, row.ready_at) == (condition, None)

    @holds("status/suspended")
    @pytest.mark.parametrize("condition", [*CONDITIONS, TimerFired(4_000_000_000.5)], ids=repr)
    def test_every_condition_is_kept_as_it_is(self, stage: Stage, condition: WakeCondition) -> None:
        stage.suspended(wake_on=condition)

        assert stage.row().wake_on == condition

    def test_a_running_task_keeps_its_items_for_later(self, stage: Stage) -> None:
        stage.running()

        posted = stage.store.post("t", A_MESSAGE)

        assert posted == Posted("stored", 1, made_ready=False)
        assert (stage.row().status, stage.items()) == (Status.RUNNING, [A_MESSAGE])

    def test_an_item_that_fits_no_wait_is_kept(self, stage: Stage) -> None:
        stage.suspended()

        posted = stage.store.wake("t", ExternalEvent("other"))

        assert posted == Posted("stored", 1, made_ready=False)
        assert stage.items() == [ExternalEvent("other")]
        assert stage.nothing_claimable()

    def test_a_backing_off_task_keeps_its_backoff(self, stage: Stage) -> None:
        stage.create(delay_seconds=100)

        posted = stage.store.post("t", ControlReceived("close"))

        assert posted == Posted("stored", 1, made_ready=False)
        assert stage.nothing_claimable()

    # -- keys ----------------------------------------------------------------------------------------------

    def test_a_repeated_key_is_dropped_whatever_it_carries(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        stage.create()
        stage.store.post("t", A_MESSAGE, key="m1")

        with stage.nothing_changes():
            repeat = stage.store.post("t", HumanResponseReceived(text="other"), key="m1")
        assert repeat == Posted("repeat", 1, made_ready=False)

    def test_a_repeated_key_is_dropped_also_after_the_first_was_taken(self, stage: Stage) -> None:
        """Keeps: taken-once."""
        claim = stage.running()
        stage.store.post("t", A_MESSAGE, key="m1")
        stage.append(claim, MessageTaken(1, A_MESSAGE))

        with stage.nothing_changes():
            assert stage.store.post("t", A_MESSAGE, key="m1").outcome == "repeat"
        assert stage.unread() == ()

    def test_a_repeated_key_is_a_repeat_also_after_the_end(self, stage: Stage) -> None:
        stage.create()
        stage.store.post("t", A_MESSAGE, key="m1")
        _end(stage)

        assert stage.store.post("t", A_MESSAGE, key="m1").outcome == "repeat"
        assert stage.store.post("t", A_MESSAGE, key="m2").outcome == "ended"

    def test_a_key_belongs_to_its_task(self, stage: Stage) -> None:
        stage.create("a")
        stage.create("b")

        assert stage.store.post("a", A_MESSAGE, key="same").outcome == "stored"
        assert stage.store.post("b", A_MESSAGE, key="same").outcome == "stored"

    def test_posts_without_a_key_are_all_kept(self, stage: Stage) -> None:
        stage.create()
        for _ in range(3):
            stage.store.post("t", A_MESSAGE)

        assert stage.items() == [A_MESSAGE] * 3

    # -- who refuses ---------------------------------------------------------------------------------------

    def test_a_post_before_the_task_exists_is_refused(self, stage: Stage) -> None:
        """Not kept for later, not half created. https://github.com/inngest/inngest/issues/1433"""
        with pytest.raises(UnknownTask):
            stage.store.post("t", A_MESSAGE, key="m1")
        with pytest.raises(UnknownTask):
            stage.store.wake("t", A_MESSAGE)
        assert stage.store.tasks() == ()

        stage.store.create(NewTask("t", "agent", "goal", queue="mine"))

        assert stage.unread() == ()
        assert stage.row().queue == "mine"

    def test_an_ended_task_refuses_every_item(self, stage: Stage) -> None:
        """Keeps: terminal-is-final."""
        stage.ended()

        with stage.nothing_changes():
            for event in (*EVENTS, ControlReceived("cancel")):
                assert stage.store.post("t", event) == Posted("ended", None, made_ready=False)
            assert stage.store.wake("t", A_MESSAGE) == Posted("ended", None, made_ready=False)

    def test_nobody_posts_a_timer(self, stage: Stage) -> None:
        """Keeps: timers-once."""
        stage.suspended(wake_on=stage.timer(10))

        with stage.nothing_changes():
            with pytest.raises(BadInput):
                stage.store.post("t", TimerFired(9e9))
            with pytest.raises(BadInput):
                stage.store.wake("t", TimerFired(9e9))

    # -- wakes ---------------------------------------------------------------------------------------------

    @holds("wake/exactly-once")
    def test_a_wake_that_is_still_unread_is_not_stored_twice(self, stage: Stage) -> None:
        """One reply delivered twice is one turn. Keeps: wake-once.

        https://github.com/inngest/inngest/issues/1433
        """
        stage.suspended()
        assert stage.store.wake("t", A_MESSAGE).made_ready

        with stage.nothing_changes():
            assert stage.store.wake("t", A_MESSAGE) == Posted("repeat", None, made_ready=False)
        claim = stage.claim()
        with stage.nothing_changes():
            assert stage.store.wake("t", A_MESSAGE).outcome == "repeat"

        stage.append(claim, TaskWoken((1,), A_MESSAGE))
        assert stage.unread() == ()

    def test_wakes_with_other_payloads_are_all_kept(self, stage: Stage) -> None:
        stage.suspended()

        outcomes = [stage.store.wake("t", HumanResponseReceived(text=text)).outcome for text in ("a", "b", "a")]

        assert outcomes == ["stored", "stored", "repeat"]
        assert [item.body for item in stage.unread()] == [
            codec.encode("item", HumanResponseReceived(text=text)) for text in ("a", "b")
        ]

    def test_wakes_with_other_payloads_are_kept_also_during_another_wait(self, stage: Stage) -> None:
        """Two events of one kind before anybody waits for them are two events. Keeps: wake-once."""
        stage.suspended(wake_on=SubtaskCompleted("t.2-0.0"))

        events = [ExternalEvent("deploy", payload) for payload in (1, 2, 1)]
        outcomes = [stage.store.wake("t", event).outcome for event in events]

        assert outcomes == ["stored", "stored", "repeat"]

    def test_a_second_result_of_one_child_in_one_wait_is_dropped(self, stage: Stage) -> None:
        """Keeps: children-once."""
        stage.suspended(wake_on=SubtaskGroupCompleted("g", members=2))
        assert stage.store.wake("t", SubtaskCompleted("t.2-0.0", "completed", "x", "g")).outcome == "stored"

        with stage.nothing_changes():
            again = stage.store.wake("t", SubtaskCompleted("t.2-0.0", "failed", "y", "g"))
        assert again.outcome == "repeat"

    def test_a_group_is_completed_by_its_members_alone(self, stage: Stage) -> None:
        """A claimer builds the event: one that was posted would be counted as one member. Keeps: children-once."""
        group = SubtaskGroupCompleted("g", members=2)
        stage.suspended(wake_on=group)

        with stage.nothing_changes(), pytest.raises(BadInput, match="SubtaskGroupCompleted"):
            stage.store.post("t", group, "k")
        with stage.nothing_changes(), pytest.raises(BadInput, match="SubtaskGroupCompleted"):
            stage.store.wake("t", group)

    def test_the_same_wake_in_the_next_wait_is_a_new_one(self, stage: Stage) -> None:
        """Keeps: wake-once."""
        stage.suspended()
        for _ in range(3):
            assert stage.store.wake("t", A_MESSAGE) == Posted("stored", stage.row().inbox_seq, made_ready=True)
            claim = stage.claim()
            (item,) = stage.unread()
            stage.append(claim, TaskWoken((item.number,), A_MESSAGE))
            stage.suspend(claim)

        assert stage.row().wake_on == A_WAIT

    def test_a_wake_without_identity_clash_is_kept_per_kind(self, stage: Stage) -> None:
        stage.suspended(wake_on=ExternalEvent("a"))

        kinds: tuple[WakeEvent, ...] = (ExternalEvent("b"), ExternalEvent("c"), ExternalEvent("a"))
        assert [stage.store.wake("t", kind).made_ready for kind in kinds] == [False, False, True]

    def test_ten_thousand_characters_of_identity_are_refused(self, stage: Stage) -> None:
        stage.create()

        with stage.nothing_changes(), pytest.raises(BadInput):
            stage.store.post("t", ExternalEvent("k" * 10_000))


def _end(stage: Stage) -> None:
    claim = stage.claim()
    stage.append(claim, next=End(TaskFailed("why")))
