"""Each kind of fault does what it says, over every store, and a fault that never fired is visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from noeta.backends.stores.around import WRITE_VERBS
from noeta.core.errors import CommitUnknown, Conflict, InvalidLease, StoreUnavailable
from noeta.core.events import ModelCalled, ModelReplied, TaskCancelled, TaskCompleted
from noeta.core.store import Child, Claim, Commit, End, NewTask
from noeta.core.task import Status
from noeta.core.wake import ControlReceived, HumanResponseReceived, SubtaskCompleted
from noeta.testing.contract.stage import at_once
from noeta.testing.faults import Fault, FaultyStore, Kind
from noeta.testing.store_contract import Stage

CALLED = ModelCalled("h", 1)
LEASE = 60.0


def write(store: FaultyStore, claim: Claim, expected_seq: int = 1) -> None:
    store.append(claim, expected_seq, Commit((CALLED,)))


def test_unavailable_means_that_nothing_was_sent(stage: Stage) -> None:
    claim = stage.running()
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, "append")])

    with stage.nothing_changes(), pytest.raises(StoreUnavailable):
        write(store, claim)

    write(store, claim)
    assert stage.row().last_seq == 2
    assert store.unfired() == ()


def test_landed_means_that_only_the_answer_was_lost(stage: Stage) -> None:
    claim = stage.running()
    store = FaultyStore(stage.store, [Fault(Kind.LANDED, "append")])

    with pytest.raises(CommitUnknown):
        write(store, claim)

    assert stage.events()[-1] == CALLED


def test_what_the_store_refuses_has_not_landed_and_no_fault_struck(stage: Stage) -> None:
    claim = stage.running()
    fault = Fault(Kind.LANDED, "append")
    store = FaultyStore(stage.store, [fault])

    with stage.nothing_changes(), pytest.raises(Conflict):
        write(store, claim, expected_seq=7)

    assert (store.fired, store.unfired()) == ([], (fault,))


def test_not_landed_means_that_it_never_arrives(stage: Stage) -> None:
    claim = stage.running()
    store = FaultyStore(stage.store, [Fault(Kind.NOT_LANDED, "append")])

    with stage.nothing_changes(), pytest.raises(CommitUnknown):
        write(store, claim)
    store.land_now()

    assert (stage.row().last_seq, store.under_way) == (1, 0)


def test_a_late_write_lands_after_so_many_further_calls(stage: Stage) -> None:
    """None may still become all, until a higher epoch exists. Keeps: acked-stays."""
    claim = stage.running()
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "append", later_calls=2)])
    with pytest.raises(CommitUnknown):
        write(store, claim)
    assert store.under_way == 1

    assert store.task("t").last_seq == 1
    assert store.task("t").last_seq == 2

    assert [landing.refusal for landing in store.landings] == [None]


def test_a_late_write_lands_when_the_test_releases_it(stage: Stage) -> None:
    claim = stage.running()
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "append")])
    with pytest.raises(CommitUnknown):
        write(store, claim)
    for _ in range(20):
        assert store.task("t").last_seq == 1

    store.land_now()

    assert store.task("t").last_seq == 2


def test_a_late_write_is_stopped_by_a_higher_epoch(stage: Stage) -> None:
    """Keeps: one-writer, acked-stays."""
    claim = stage.running()
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "append")])
    with pytest.raises(CommitUnknown):
        write(store, claim)
    stage.clock.advance(LEASE)
    stage.append(stage.claim("w2"), ModelReplied("mine"))

    store.land_now()

    (landing,) = store.landings
    assert isinstance(landing.refusal, InvalidLease)
    assert stage.events()[1:] == [ModelReplied("mine")]


def test_a_late_post_is_stopped_by_its_key_and_a_late_create_by_its_content(stage: Stage) -> None:
    """An unknown post or create is repeated, and the late one changes nothing. Keeps: taken-once."""
    message = HumanResponseReceived(text="hi")
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "create"), Fault(Kind.LANDS_LATER, "post")])
    with pytest.raises(CommitUnknown):
        store.create(NewTask("t", "agent", "goal"))
    store.create(NewTask("t", "agent", "goal"))
    with pytest.raises(CommitUnknown):
        store.post("t", message, "m1")
    store.post("t", message, "m1")

    with stage.nothing_changes():
        store.land_now()
    assert len(store.landings) == 2


def test_an_unknown_claim_is_found_by_its_token(stage: Stage) -> None:
    stage.create()
    store = FaultyStore(stage.store, [Fault(Kind.LANDED, "claim")])

    with pytest.raises(CommitUnknown):
        store.claim("w1", None, LEASE, token="attempt")

    assert [row.id for row in store.tasks(token="attempt")] == ["t"]


def test_a_late_claim_just_runs_out(stage: Stage) -> None:
    stage.create()
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "claim")])
    with pytest.raises(CommitUnknown):
        store.claim("w1", None, LEASE, token="late")
    assert store.tasks(token="late") == ()

    store.land_now()
    assert [row.id for row in store.tasks(token="late")] == ["t"]
    stage.clock.advance(LEASE)

    assert stage.claim("w2").epoch == 2


def test_a_slow_call_waits_through_the_given_sleep(stage: Stage) -> None:
    waited: list[float] = []
    store = FaultyStore(stage.store, [Fault(Kind.SLOW, "tasks", 2, seconds=7.5)], sleep=waited.append)

    store.tasks()
    assert waited == []
    store.tasks()

    assert waited == [7.5]


def test_faults_strike_by_verb_occurrence_and_task(stage: Stage) -> None:
    a, b = stage.running("a"), stage.running("b")
    fault = Fault(Kind.UNAVAILABLE, "append", 2, task_id="b")
    store = FaultyStore(stage.store, [fault])

    write(store, a)
    write(store, b)
    write(store, a, 2)
    with pytest.raises(StoreUnavailable):
        write(store, b, 2)

    assert [(one.fault, one.call_number, one.task_id) for one in store.fired] == [(fault, 4, "b")]
    assert store.calls("append") == 4


def test_a_fault_may_strike_several_calls_in_a_row(stage: Stage) -> None:
    stage.create()
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, "task", 2, times=3)])
    struck = []
    for _ in range(6):
        try:
            store.task("t")
            struck.append(False)
        except StoreUnavailable:
            struck.append(True)

    assert struck == [False, True, True, True, False, False]


def test_a_fault_that_never_fired_is_visible(stage: Stage) -> None:
    often = Fault(Kind.UNAVAILABLE, "tasks", times=2)
    never = Fault(Kind.LANDED, "append", 9)
    store = FaultyStore(stage.store, [often, never])
    with pytest.raises(StoreUnavailable):
        store.tasks()

    assert store.unfired() == (often, never)
    store.heal()
    assert store.tasks() == ()
    assert store.unfired() == ()


def test_calls_from_many_threads_are_all_counted(stage: Stage) -> None:
    stage.create()
    store = FaultyStore(stage.store, [Fault(Kind.UNAVAILABLE, "task", 10, times=5)])

    def ask() -> int:
        failed = 0
        for _ in range(10):
            try:
                store.task("t")
            except StoreUnavailable:
                failed += 1
        return failed

    answers = at_once(*[ask] * 4)

    assert sum(answer for answer in answers if isinstance(answer, int)) == 5
    assert store.calls("task") == 40
    assert store.unfired() == ()


@pytest.mark.parametrize("kind", [Kind.UNAVAILABLE, Kind.NOT_LANDED, Kind.LANDED])
@pytest.mark.parametrize("ends", ["append", "fail", "post"])
def test_no_failure_comes_between_a_childs_end_and_its_parents_wake(stage: Stage, ends: str, kind: Kind) -> None:
    """Whatever fails: before the end nothing has happened, and after it the parent is ready without another call.
    Keeps: children-once, never-stuck. https://github.com/n8n-io/n8n/pull/31736
    """
    parent = stage.running()
    wait = SubtaskCompleted("t.2-0.1")
    stage.append(parent, children=(Child(wait.subtask_id, "agent", "goal"),))
    stage.suspend(parent, wait)
    child = stage.claim("w2")
    if ends == "post":
        stage.store.release(child)
    everything = [Fault(Kind.UNAVAILABLE, verb, 1, times=1_000) for verb in WRITE_VERBS if verb != ends]
    store = FaultyStore(stage.store, [Fault(kind, ends), Fault(Kind.UNAVAILABLE, ends, 2, times=1_000), *everything])
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: store.append(child, 1, Commit(next=End(TaskCompleted("done")))),
        "fail": lambda: store.fail(child, "boom", retryable=False),
        "post": lambda: store.post(child.task_id, ControlReceived("cancel")),
    }

    with pytest.raises((StoreUnavailable, CommitUnknown)):
        calls[ends]()

    landed = kind is Kind.LANDED
    assert (stage.row(child.task_id).status is Status.TERMINAL) == landed
    assert stage.row().status is (Status.PENDING if landed else Status.SUSPENDED)
    assert [getattr(item, "subtask_id", None) for item in stage.items()] == [wait.subtask_id] * landed


def test_a_cancel_that_lands_late_ends_the_task_once(stage: Stage) -> None:
    """An unknown cancel is sent again under its key. Keeps: terminal-is-final, taken-once."""
    stage.create()
    store = FaultyStore(stage.store, [Fault(Kind.LANDS_LATER, "post")])
    with pytest.raises(CommitUnknown):
        store.post("t", ControlReceived("cancel"), "cancel:1")
    assert store.post("t", ControlReceived("cancel"), "cancel:1").outcome == "cancelled"

    with stage.nothing_changes():
        store.land_now()

    assert len(store.landings) == 1
    assert stage.endings() == [TaskCancelled()]


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Fault(Kind.LANDED, "read"),
        lambda: Fault(Kind.UNAVAILABLE, "explode"),
        lambda: Fault(Kind.UNAVAILABLE, "append", 0),
        lambda: Fault(Kind.UNAVAILABLE, "append", times=0),
        lambda: Fault(Kind.LANDED, "append", later_calls=1),
        lambda: Fault(Kind.LANDS_LATER, "append", later_calls=0),
        lambda: Fault(Kind.SLOW, "append"),
        lambda: replace(Fault(Kind.UNAVAILABLE, "append"), seconds=1.0),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(bad: object) -> None:
    assert callable(bad)
    with pytest.raises(ValueError, match=r"verb|kind|occurrence|later_calls|seconds"):
        bad()
