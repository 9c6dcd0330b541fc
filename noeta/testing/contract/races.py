"""Real concurrency: several handles, several threads, and a law that must hold whoever was first."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from noeta.core.errors import Conflict, InvalidLease
from noeta.core.events import (
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
)
from noeta.core.store import Appended, Claim, Claims, Commit, End, Failed, Posted, Store, Suspend
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived
from noeta.testing.contract.holds import holds
from noeta.testing.contract.stage import A_MESSAGE, A_WAIT, DEADLINE_SECONDS, LEASE, ContractTests, Stage, at_once

ROUNDS = 20
TRIES = 1_000
"""Claims pass over a row that somebody holds for a moment; so often in a row nobody does."""


class RacesContract(ContractTests):
    @holds("scale/one-host", "writer/pg-skip-locked")
    @pytest.mark.parametrize(("workers", "tasks"), [(4, 40), (8, 8)])
    def test_many_workers_never_take_a_task_twice(self, stage: Stage, workers: int, tasks: int) -> None:
        """Keeps: one-writer."""
        for n in range(tasks):
            stage.create(f"t{n:03}")

        def drain(store: Store, worker: str) -> list[str]:
            taken: list[str] = []
            idle = 0
            while idle < 3:
                claims = store.claim(worker, None, LEASE).claims
                taken += [claim.task_id for claim in claims]
                idle = 0 if claims else idle + 1
            return taken

        answers = at_once(*(_bound(drain, stage.another(), f"w{n}") for n in range(workers)))

        assert all(isinstance(answer, list) for answer in answers), answers
        taken = [id for answer in answers if isinstance(answer, list) for id in answer]
        assert sorted(taken) == [f"t{n:03}" for n in range(tasks)]
        assert {row.epoch for row in stage.store.tasks()} == {1}

    def test_of_many_workers_one_takes_the_only_task(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        handles = [stage.another() for _ in range(5)]
        for n in range(ROUNDS):
            stage.create(f"t{n}")

            answers = at_once(*(_bound(lambda s, w: s.claim(w, None, LEASE), s, str(i)) for i, s in enumerate(handles)))

            taken = [claim for answer in answers if isinstance(answer, Claims) for claim in answer.claims]
            assert [claim.task_id for claim in taken] == [f"t{n}"], answers

    def test_of_many_workers_one_takes_a_lapsed_task_over(self, stage: Stage) -> None:
        """Keeps: one-writer, epochs-rise."""
        handles = [stage.another() for _ in range(4)]
        for n in range(ROUNDS):
            old = stage.running(f"t{n}", lease=1.0)
            stage.clock.advance(1.0)

            answers = at_once(*(_bound(lambda s, w: s.claim(w, None, 999), s, str(i)) for i, s in enumerate(handles)))

            taken = [claim for answer in answers if isinstance(answer, Claims) for claim in answer.claims]
            if not taken:  # everybody found the row locked by another, who put it back
                taken = [stage.claim(lease=999)]
            assert [(claim.task_id, claim.epoch) for claim in taken] == [(f"t{n}", old.epoch + 1)]
            assert stage.row(f"t{n}").takeovers == 1

    @holds("writer/two-conditions")
    def test_of_two_appends_at_one_seq_one_lands(self, stage: Stage) -> None:
        """Keeps: one-writer, gapless-log."""
        claim = stage.running(lease=3_600)
        first, second = stage.another(), stage.another()
        for n in range(ROUNDS):
            commits = [Commit((ModelReplied(f"{n} {who}"),)) for who in "ab"]

            answers = at_once(
                _bound(Store.append, first, claim, n + 1, commits[0]),
                _bound(Store.append, second, claim, n + 1, commits[1]),
            )

            assert sorted(type(answer).__name__ for answer in answers) == ["Appended", "Conflict"], answers
            winner = next(i for i, answer in enumerate(answers) if isinstance(answer, Appended))
            assert stage.events()[-1] == commits[winner].entries[0]
        assert stage.row().last_seq == ROUNDS + 1

    @holds(
        "scale/several-hosts",
        "writer/two-conditions",
        "writer/frozen",
        "writer/contract-racing",
        "writer/wrong-guess",
    )
    def test_two_racing_runners_never_both_append(self, stage: Stage) -> None:
        """An old owner that wakes up and its successor write at the same time. Keeps: one-writer.

        https://github.com/langchain-ai/langgraph/issues/8796
        """
        zombie, successor = stage.another(), stage.another()
        for n in range(ROUNDS):
            id = f"t{n}"
            old = stage.running(id, lease=1.0)
            stage.clock.advance(1.0)

            def take_over_and_write() -> str:
                for _ in range(TRIES):  # the zombie may just hold the row
                    if claims := successor.claim("w2", None, 3_600).claims:
                        break
                (claim,) = claims
                successor.append(claim, 1, Commit((ModelReplied("new"),)))
                return "new"

            answers = at_once(_bound(Store.append, zombie, old, 1, Commit((ModelReplied("old"),))), take_over_and_write)

            assert isinstance(answers[0], InvalidLease), answers
            assert answers[1] == "new"
            assert stage.events(id)[1:] == [ModelReplied("new")]

    def test_an_append_and_a_release_by_one_claim_end_in_order(self, stage: Stage) -> None:
        """Keeps: one-writer."""
        writer, other = stage.another(), stage.another()
        for n in range(ROUNDS):
            claim = stage.running(f"t{n}")

            answers = at_once(
                _bound(Store.append, writer, claim, 1, Commit((ModelCalled("h", 1),))),
                _bound(Store.release, other, claim),
            )

            assert answers[1] is Status.PENDING
            landed = isinstance(answers[0], Appended)
            assert landed or isinstance(answers[0], InvalidLease), answers
            assert stage.row(f"t{n}").last_seq == 1 + landed
            assert stage.claim("cleans up").task_id == f"t{n}"

    @pytest.mark.parametrize("posters", [2, 6])
    def test_posts_under_one_key_are_stored_once(self, stage: Stage, posters: int) -> None:
        """Keeps: taken-once."""
        stage.suspended()
        handles = [stage.another() for _ in range(posters)]
        for n in range(ROUNDS):
            answers = at_once(*(_bound(Store.post, store, "t", A_MESSAGE, f"key {n}") for store in handles))

            outcomes = Counter(answer.outcome for answer in answers if isinstance(answer, Posted))
            assert outcomes == {"stored": 1, "repeat": posters - 1}, answers
            assert stage.row().inbox_seq == n + 1

    def test_wakes_at_once_are_stored_once(self, stage: Stage) -> None:
        """Keeps: wake-once."""
        stage.suspended()
        handles = [stage.another() for _ in range(4)]

        answers = at_once(*(_bound(Store.wake, store, "t", A_MESSAGE) for store in handles))

        assert Counter(a.outcome for a in answers if isinstance(a, Posted)) == {"stored": 1, "repeat": 3}
        assert sum(a.made_ready for a in answers if isinstance(a, Posted)) == 1

    def test_posts_at_once_are_numbered_without_a_gap(self, stage: Stage) -> None:
        """Keeps: acked-stays."""
        stage.create()

        def post_many(store: Store, who: str) -> list[int | None]:
            return [store.post("t", A_MESSAGE, f"{who} {n}").number for n in range(20)]

        answers = at_once(*(_bound(post_many, stage.another(), f"p{n}") for n in range(4)))

        numbers = [number for answer in answers if isinstance(answer, list) for number in answer]
        assert sorted(numbers, key=str) == sorted(range(1, 81), key=str)
        assert [item.number for item in stage.unread()] == list(range(1, 81))

    def test_a_wake_and_a_suspension_at_once_lose_nothing(self, stage: Stage) -> None:
        """Whoever is first, the task is ready afterwards. Keeps: wake-once, never-stuck.

        https://github.com/inngest/inngest/issues/1433
        """
        poster, owner = stage.another(), stage.another()
        claim = stage.running(lease=3_600)
        for n in range(ROUNDS):
            reply = HumanResponseReceived(text=str(n))

            answers = at_once(
                lambda reply=reply: poster.wake("t", reply),  # type: ignore[misc]
                _bound(_suspend, owner, claim, n),
            )

            assert all(not isinstance(answer, Exception) for answer in answers), answers
            assert stage.row().status is Status.PENDING
            claim = stage.claim(lease=3_600)
            assert stage.items() == [reply]
            stage.append(claim, TaskWoken((n + 1,), reply))

    def test_of_an_end_a_failure_and_a_sweep_one_decides(self, stage: Stage) -> None:
        """Keeps: terminal-is-final. https://github.com/rails/solid_queue/issues/589"""
        one, two, three, four = (stage.another() for _ in range(4))
        for n in range(ROUNDS):
            id = f"t{n}"
            claim = stage.running(id, lease=1.0)
            works: list[Callable[[], object]] = [
                _bound(Store.append, one, claim, 1, Commit(next=End(TaskCompleted("done")))),
                lambda claim=claim: two.fail(claim, "reaped", retryable=False),  # type: ignore[misc]
                _bound(Store.renew, three, claim, 5.0),
                lambda: _lapse_and_sweep(stage, four),
            ]

            answers = at_once(*works)

            ended = [answer for answer in answers[:2] if isinstance(answer, Appended | Failed)]
            row = stage.row(id)
            endings = [event for event in stage.events(id) if isinstance(event, TaskCompleted | TaskFailed)]
            assert len(endings) == len(ended) <= 1, answers
            assert (row.status is Status.TERMINAL) == bool(endings)
            if not endings:
                stage.clock.advance(5.0)
                stage.append(stage.claim("finisher"), next=End(TaskCompleted()))
            assert stage.store.renew(claim, LEASE)[0].outcome == "lost"

    def test_messages_sent_while_a_task_closes_are_taken_or_refused(self, stage: Stage) -> None:
        """Taken and refused together are what was sent; the closing step does not loop for ever.

        Keeps: taken-once. https://github.com/temporalio/temporal/issues/4137
        """
        claim = stage.running(lease=3_600)
        sent = 60
        stop = threading.Event()

        def flood(store: Store) -> Counter[str]:
            outcomes: Counter[str] = Counter()
            for n in range(sent):
                outcomes[store.post("t", A_MESSAGE, f"m{n}").outcome] += 1
            stop.set()
            return outcomes

        def close(store: Store) -> int:
            taken, last_seq = 0, 1
            for _ in range(10 * sent):
                page = store.read("t", last_seq)
                takes = tuple(MessageTaken(item.number, A_MESSAGE) for item in page.unread)
                ends = End(TaskCompleted("done"))
                appended = store.append(claim, last_seq, Commit(takes, ends, page.inbox_seen))
                taken, last_seq = taken + len(takes), appended.last_seq
                if appended.status is Status.TERMINAL:
                    return taken
            raise AssertionError("the closing step never came to its end")

        answers = at_once(_bound(flood, stage.another()), _bound(close, stage.another()))

        outcomes, taken = answers
        assert isinstance(outcomes, Counter) and isinstance(taken, int), answers
        assert outcomes["stored"] == taken
        assert outcomes["stored"] + outcomes["ended"] == sent
        assert stop.wait(DEADLINE_SECONDS)

    @holds("scale/one-host", "writer/enforced")
    def test_every_interleaving_of_two_workers_keeps_the_log_in_epoch_order(self, stage: Stage) -> None:
        """Both claim, write and lose the task again and again while time runs. Keeps: gapless-log, one-writer."""
        stage.create()
        wrote: list[tuple[int, int]] = []

        def work(store: Store, worker: str) -> int:
            done = 0
            for n in range(30):
                stage.clock.advance(0.4)
                for claim in store.claim(worker, None, 1.0).claims:
                    last_seq = claim.last_seq
                    for _ in range(3):
                        try:
                            answer = store.append(claim, last_seq, Commit((ModelReplied(f"{worker} {n}"),)))
                        except Conflict:
                            break
                        wrote.append((answer.last_seq, claim.epoch))
                        last_seq, done = answer.last_seq, done + 1
            return done

        answers = at_once(*(_bound(work, stage.another(), f"w{n}") for n in range(3)))

        assert all(isinstance(answer, int) for answer in answers), answers
        entries = stage.page().entries
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        epochs = [entry.epoch for entry in entries]
        assert epochs == sorted(epochs)
        assert sorted(wrote) == [(entry.seq, entry.epoch) for entry in entries[1:]]


def _suspend(store: Store, claim: Claim, seen: int) -> Appended:
    row = store.task(claim.task_id)
    return store.append(claim, row.last_seq, Commit((TaskSuspended(A_WAIT),), Suspend(A_WAIT), seen))


def _lapse_and_sweep(stage: Stage, store: Store) -> tuple[str, ...]:
    stage.clock.advance(1.0)
    return store.requeue_stale()


def _bound(work: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """A call with its arguments, for ``at_once``; verbs of ``Store`` are looked up on the handle."""
    if getattr(Store, getattr(work, "__name__", ""), None) is work:
        store, *rest = args
        return lambda: getattr(store, work.__name__)(*rest)
    return lambda: work(*args)
