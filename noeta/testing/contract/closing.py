"""Ends that meet: two hands end one task, a family ends at once, messages come while a task closes or waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from noeta.core import texts
from noeta.core.errors import Conflict, InvalidLease, NoetaError
from noeta.core.events import MessageTaken, ModelCalled, TaskCancelled, TaskSuspended, TaskWoken
from noeta.core.store import Appended, Child, Claim, Commit, End, Failed, Posted, PutBack, Store, Suspend
from noeta.core.task import Status
from noeta.core.wake import BACKGROUND, ControlReceived, HumanResponseReceived, SubtaskCompleted, find_wake
from noeta.testing.contract.stage import A_MESSAGE, A_WAIT, DONE, LEASE, ContractTests, Stage, at_once

ROUNDS: Final = 20
CANCEL: Final = ControlReceived("cancel", "enough")
ORDER: Final = ControlReceived("cancel", texts.PARENT_ENDED)

Rival = Callable[[Store, Claim], object]
RIVALS: Final[dict[str, Rival]] = {
    "complete": lambda store, claim: store.append(claim, 1, Commit(next=End(DONE))),
    "suspend": lambda store, claim: store.append(claim, 1, Commit((TaskSuspended(A_WAIT),), Suspend(A_WAIT))),
    "put back": lambda store, claim: store.append(claim, 1, Commit((ModelCalled("h", 1),), PutBack(1))),
    "go on": lambda store, claim: store.append(claim, 1, Commit((ModelCalled("h", 1),))),
    "release": lambda store, claim: store.release(claim),
    "resume": lambda store, claim: store.resume(claim),
    "fail": lambda store, claim: store.fail(claim, "boom"),
    "fail for good": lambda store, claim: store.fail(claim, "boom", retryable=False),
    "renew": lambda store, claim: store.renew(claim, LEASE),
    "claim": lambda store, claim: store.claim("late", None, LEASE),
    "wake": lambda store, claim: store.wake(claim.task_id, A_MESSAGE),
    "cancel": lambda store, claim: store.post(claim.task_id, CANCEL, "cancel:2"),
    "timers": lambda store, claim: store.fire_due_timers(),
    "sweep": lambda store, claim: store.requeue_stale(),
}
STATES: Final = ("pending", "suspended", "timed", "running", "lapsed")


class ClosingContract(ContractTests):
    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("rival", list(RIVALS))
    def test_a_cancel_and_anything_else_at_once_leave_one_story(self, stage: Stage, rival: str, state: str) -> None:
        """At most one terminal entry, row and answers agree with it, and nothing follows it.
        Keeps: terminal-is-final, one-writer, row-agrees.

        https://github.com/SamSaffron/term-llm/pull/918 , https://github.com/SamSaffron/term-llm/pull/790 ,
        https://github.com/dbos-inc/dbos-transact-py/pull/703
        """
        one, two = stage.another(), stage.another()
        for n in range(ROUNDS // 4):
            claim = _into(stage, state, f"t{n}")
            id = claim.task_id

            answers = at_once(
                lambda claim=claim: RIVALS[rival](one, claim),  # type: ignore[misc]
                lambda id=id: two.post(id, CANCEL, "cancel:1"),  # type: ignore[misc]
            )

            theirs, posted = answers
            assert isinstance(posted, Posted), answers
            assert not isinstance(theirs, Exception) or isinstance(theirs, Conflict), answers
            row, endings = stage.row(id), stage.endings(id)
            assert len(endings) == (row.status is Status.TERMINAL), answers
            match posted.outcome:
                case "cancelled":
                    assert endings == [TaskCancelled("enough")]
                    assert (row.epoch, row.last_seq) == (posted.epoch, posted.last_seq)
                case "stored":  # its owner, or the next one, finds it: or it ended by itself right after
                    assert endings or CANCEL in stage.items(id)
                    assert endings or row.status in (Status.RUNNING, Status.PENDING), row
                case outcome:
                    assert outcome == "ended"
                    assert endings
            _finish(stage, id)
            stage.clock.advance(100 * LEASE)
            assert stage.nothing_claimable()

    def test_of_many_cancels_at_once_one_ends_the_task(self, stage: Stage) -> None:
        """Keeps: terminal-is-final, taken-once."""
        handles = [stage.another() for _ in range(4)]
        for n in range(ROUNDS):
            id = stage.create(f"t{n}")
            keys = ["same", "same", "other", None]

            answers = at_once(*(_bound_post(store, id, key) for store, key in zip(handles, keys, strict=True)))

            outcomes = Counter(answer.outcome for answer in answers if isinstance(answer, Posted))
            assert outcomes["cancelled"] == 1 and outcomes["repeat"] <= 1, answers
            assert sum(outcomes.values()) == 4
            assert stage.endings(id) == [TaskCancelled("enough")]
            assert stage.row(id).inbox_seq == 1

    def test_a_finish_and_a_reapers_failure_never_both_end_a_task(self, stage: Stage) -> None:
        """A heartbeat is still on its way, and one more comes after the end. Keeps: terminal-is-final, one-writer.

        https://github.com/rails/solid_queue/issues/589 , https://github.com/PrefectHQ/prefect/issues/18653 ,
        https://github.com/PrefectHQ/prefect/issues/16459
        """
        one, two, three = (stage.another() for _ in range(3))
        for n in range(ROUNDS):
            id = f"t{n}"
            claim = stage.running(id)

            answers = at_once(
                lambda claim=claim: one.append(claim, 1, Commit(next=End(DONE))),  # type: ignore[misc]
                lambda claim=claim: two.fail(claim, "reaped", retryable=False),  # type: ignore[misc]
                lambda claim=claim: three.renew(claim, LEASE),  # type: ignore[misc]
            )

            assert sum(isinstance(answer, Appended | Failed) for answer in answers[:2]) == 1, answers
            assert sum(isinstance(answer, InvalidLease) for answer in answers[:2]) == 1, answers
            assert len(stage.endings(id)) == 1
            with stage.nothing_changes():
                assert stage.store.renew(claim, LEASE)[0].outcome == "lost"

    # -- families ------------------------------------------------------------------------------------------

    def test_a_parent_and_its_children_may_all_end_at_once(self, stage: Stage) -> None:
        """Nobody is refused for the other's sake; a result was told before the end, or refused.
        Keeps: children-once, terminal-is-final. https://github.com/apache/airflow/issues/27473
        """
        count = 3
        handles = [stage.another() for _ in range(count + 1)]
        for n in range(ROUNDS // 2):
            claims = _family(stage, f"t{n}", count)

            answers = at_once(*(_bound_end(store, claim) for store, claim in zip(handles, claims, strict=True)))

            assert not [answer for answer in answers if isinstance(answer, NoetaError)], answers
            told = [answer for answer in answers[1:] if isinstance(answer, Appended) and not answer.refused]
            assert stage.row(f"t{n}").inbox_seq == len(told)
            assert {stage.row(claim.task_id).status for claim in claims} == {Status.TERMINAL}

    def test_a_child_that_ends_while_its_parent_suspends_wakes_it(self, stage: Stage) -> None:
        """Whoever is first. Keeps: never-stuck, children-once. https://github.com/n8n-io/n8n/pull/31736"""
        one, two = stage.another(), stage.another()
        for n in range(ROUNDS):
            parent, child = _family(stage, f"t{n}", 1)
            wait = SubtaskCompleted(child.task_id)

            answers = at_once(
                lambda parent=parent, wait=wait: one.append(parent, 2, Commit((TaskSuspended(wait),), Suspend(wait))),  # type: ignore[misc]
                lambda child=child: two.append(child, 1, Commit(next=End(DONE))),  # type: ignore[misc]
            )

            assert all(isinstance(answer, Appended) for answer in answers), answers
            assert stage.row(parent.task_id).status is Status.PENDING
            (item,) = stage.unread(parent.task_id)
            assert find_wake(wait, [(item.number, item.item)]) is not None
            stage.append(stage.claim("w3"), next=End(DONE))

    def test_a_child_born_while_the_root_ends_is_ordered_to_end_by_one_of_them(self, stage: Stage) -> None:
        """By the root's end, or by its own birth. Keeps: never-stuck, children-once."""
        one, two = stage.another(), stage.another()
        for n in range(ROUNDS):
            root, middle = _family(stage, f"t{n}", 1)
            below = Child(f"{middle.task_id}.3-0.1", "helper", "late", group=BACKGROUND, parent=root.task_id, depth=2)

            answers = at_once(
                lambda root=root: one.append(root, 2, Commit(next=End(DONE))),  # type: ignore[misc]
                lambda middle=middle, below=below: two.append(  # type: ignore[misc]
                    middle, 1, Commit((ModelCalled("h", 1),), children=(below,))
                ),
            )

            assert all(isinstance(answer, Appended) for answer in answers), answers
            assert stage.items(below.id) == [ORDER], answers
            assert stage.items(middle.task_id) == [ORDER]
            stage.append(stage.claim("w3"), next=End(DONE))

    # -- messages ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("again", [False, True], ids=["given back", "looked at again"])
    def test_messages_sent_while_a_task_suspends_are_each_taken_once(self, stage: Stage, again: bool) -> None:
        """None is lost, none comes twice, and the waiting step does not loop for ever.
        Keeps: taken-once, wake-once, never-stuck. https://github.com/temporalio/temporal/issues/8097
        """
        sent = 40
        claim = stage.running(lease=3_600)

        def flood(store: Store) -> int:
            return sum(
                store.post("t", HumanResponseReceived(text=str(n)), f"m{n}").outcome == "stored" for n in range(sent)
            )

        def serve(store: Store) -> list[str]:
            taken: list[str] = []
            held: Claim | None = claim
            for _ in range(1_000 * sent):
                if held is None:
                    held = next(iter(store.claim("w2", None, 3_600).claims), None)
                    continue
                page = store.read("t")
                takes = tuple(MessageTaken(item.number, item.item) for item in page.unread)
                taken += [item.item.text for item in page.unread if isinstance(item.item, HumanResponseReceived)]
                if len(taken) >= sent:
                    return taken
                commit = Commit((*takes, TaskSuspended(A_WAIT)), Suspend(A_WAIT, again=again), page.inbox_seen)
                answer = store.append(held, page.row.last_seq, commit)
                assert answer.moved or answer.status is Status.SUSPENDED
                assert not answer.moved or answer.status is (Status.RUNNING if again else Status.PENDING)
                held = held if answer.status is Status.RUNNING else None
            raise AssertionError("the waiting step never came to its end")

        flooder, server = stage.another(), stage.another()
        stored, taken = at_once(lambda: [flood(flooder)], lambda: serve(server))

        assert stored == [sent], (stored, taken)
        assert isinstance(taken, list) and sorted(map(str, taken)) == sorted(map(str, range(sent))), taken


def _into(stage: Stage, state: str, id: str) -> Claim:
    """A task in this state, and the claim it is or was under. Nothing else is claimable."""
    claim = stage.running(id)
    match state:
        case "pending":
            stage.store.release(claim)
        case "suspended":
            stage.suspend(claim)
        case "timed":
            stage.suspend(claim, stage.timer(0))
        case "lapsed":
            stage.clock.advance(LEASE)
    return claim


def _finish(stage: Stage, id: str) -> None:
    """What the worker does that finds the order."""
    if stage.row(id).status is Status.TERMINAL:
        return
    assert any(item.item == CANCEL for item in stage.unread(id))
    stage.clock.advance(100 * LEASE)
    claim = stage.claim("finisher")
    assert claim.task_id == id
    numbers = tuple(item.number for item in stage.unread(id))
    stage.append(claim, TaskWoken(numbers, CANCEL), next=End(TaskCancelled("enough")))


def _family(stage: Stage, id: str, children: int) -> list[Claim]:
    """A parent and its children, all running."""
    parent = stage.running(id)
    born = tuple(Child(f"{id}.2-0.{n}", "helper", "help") for n in range(1, children + 1))
    stage.append(parent, ModelCalled("h", 1), children=born)
    return [parent, *(stage.claim("w2") for _ in born)]


def _bound_post(store: Store, id: str, key: str | None) -> Callable[[], Posted]:
    return lambda: store.post(id, CANCEL, key)


def _bound_end(store: Store, claim: Claim) -> Callable[[], Appended]:
    """The end of a task, whatever is in its inbox by then."""
    seq = store.task(claim.task_id).last_seq
    return lambda: store.append(claim, seq, Commit(next=End(DONE), inbox_seen=1_000))
