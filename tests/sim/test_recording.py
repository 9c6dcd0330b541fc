"""The record of what a process asked of its store says what was asked and what was answered, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from invariants import LAWS_BY_KEY, RunFacts, check_all, gather
from invariants.evidence import Answer, Attempt, LogEntry, Verb
from noeta.backends.stores.around import AroundStore, Call
from noeta.backends.stores.memory import MemoryStore
from noeta.chaos.recording import MemorySink, RecordingStore, sent_of
from noeta.core import codec
from noeta.core.errors import BadInput, CommitUnknown, Conflict, NoetaError, StoreUnavailable
from noeta.core.events import MessageTaken, ModelCalled, ModelReplied, TaskCompleted, TaskSuspended
from noeta.core.ids import sha256_text
from noeta.core.store import Append, Claim, Commit, Continue, End, NewTask, Suspend
from noeta.core.wake import ControlReceived, ExternalEvent, HumanResponseReceived, TimerFired
from noeta.core.world import ProcessDied

T = TypeVar("T")
CALLED = ModelCalled("hash", 1)


class Breaking(AroundStore):
    """Raises ``error`` at every call, after the inner store has done it if ``lands``."""

    error: BaseException | None = None
    lands = False

    def around(self, call: Call, do: Callable[[], T]) -> T:
        if self.error is None:
            return do()
        if self.lands:
            do()
        raise self.error


class Bench:
    """A recording store over a store that can be broken, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.memory = MemoryStore(lambda: self.now)
        self.broken = Breaking(self.memory)
        self.sink = MemorySink()
        self.store = RecordingStore(self.broken, self.sink, process="w1#2", clock=lambda: round(self.now * 1e6))

    def claimed(self, task: str = "t") -> Claim:
        self.store.create(NewTask(task, "agent", "goal"))
        return self.store.claim("w1", None, 10.0, token=f"token-{task}").claims[0]

    @property
    def last(self) -> Attempt:
        return self.sink.attempts[-1]

    def hashes(self, task: str = "t") -> tuple[str, ...]:
        return tuple(sha256_text(entry.body) for entry in self.memory.read(task).entries)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_append_is_recorded_with_the_hashes_the_log_will_hold(bench: Bench) -> None:
    claim = bench.claimed()

    bench.store.append(claim, 1, Commit((CALLED, ModelReplied("hi")), End(TaskCompleted("hi"))))

    attempt = bench.last
    assert attempt.verb is Verb.APPEND
    assert (attempt.process, attempt.worker, attempt.task) == ("w1#2", "w1", "t")
    assert (attempt.epoch, attempt.token, attempt.expected_seq) == (1, "token-t", 1)
    assert attempt.hashes == bench.hashes()[1:]
    assert attempt.may_hold_back
    assert (attempt.answer, attempt.answer_seq, attempt.sent_at) == (Answer.OK, 4, 100_000_000)


def test_create_is_recorded_with_its_first_entry(bench: Bench) -> None:
    bench.store.create(NewTask("t", "agent", "goal"))

    assert bench.last.verb is Verb.CREATE
    assert bench.last.hashes == bench.hashes()
    assert (bench.last.first_seq, bench.last.answer_seq) == (1, 1)


def test_claim_is_recorded_once_it_is_known_what_it_took(bench: Bench) -> None:
    claim = bench.claimed()
    taken = bench.last

    assert bench.store.claim("w1", None, 10.0).claims == ()

    assert bench.last is taken
    assert (taken.verb, taken.task, taken.epoch, taken.token) == (Verb.CLAIM, "t", 1, "token-t")
    assert (taken.lease_until, taken.answer, taken.answer_seq) == (claim.lease_until, Answer.OK, 1)


def test_an_adopted_task_is_recorded_as_claimed(bench: Bench) -> None:
    bench.store.create(NewTask("t", "agent", "goal"))
    bench.broken.error, bench.broken.lands = CommitUnknown("lost"), True
    with pytest.raises(CommitUnknown):
        bench.store.claim("w1", None, 10.0, token="mine")
    bench.broken.error = None

    bench.store.tasks(token="mine")

    assert (bench.last.verb, bench.last.task, bench.last.epoch) == (Verb.CLAIM, "t", 1)


def test_renewals_say_which_leases_were_granted(bench: Bench) -> None:
    held, lapsed = bench.claimed("held"), bench.claimed("lapsed")
    bench.memory.release(lapsed)
    bench.now = 105.0

    bench.store.renew([held, lapsed], 10.0)

    granted, lost = bench.sink.attempts[-2:]
    assert (granted.answer, granted.lease_until) == (Answer.OK, 115_000_000)
    assert (lost.answer, lost.lease_until) == (Answer.CONFLICT, lapsed.lease_until)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (Conflict("no"), Answer.CONFLICT),
        (StoreUnavailable("no"), Answer.UNAVAILABLE),
        (CommitUnknown("who knows"), Answer.UNKNOWN),
        (BadInput("field", "no"), Answer.REFUSED),
    ],
)
def test_errors_are_recorded_as_what_they_say_of_the_write(bench: Bench, error: NoetaError, answer: Answer) -> None:
    claim = bench.claimed()
    bench.broken.error = error

    with pytest.raises(type(error)):
        bench.store.append(claim, 1, Commit((CALLED,)))

    assert bench.last.answer is answer
    assert bench.last.count == 1


@pytest.mark.parametrize("error", [ProcessDied(), RuntimeError("a bug")])
def test_what_was_never_answered_stays_open(bench: Bench, error: BaseException) -> None:
    claim = bench.claimed()
    bench.broken.error = error

    with pytest.raises(type(error)):
        bench.store.append(claim, 1, Commit((CALLED,)))

    assert bench.last.verb is Verb.APPEND
    assert bench.last.is_open


def test_a_batch_is_recorded_commit_by_commit(bench: Bench) -> None:
    good, stale = bench.claimed("good"), bench.claimed("stale")

    bench.store.append_many([Append(good, 1, Commit((CALLED,))), Append(stale, 7, Commit((CALLED,)))])

    assert [(one.task, one.answer) for one in bench.sink.attempts[-2:]] == [
        ("good", Answer.OK),
        ("stale", Answer.CONFLICT),
    ]


def test_a_failure_that_ends_the_task_is_recorded_with_the_entry_it_wrote(bench: Bench) -> None:
    claim = bench.claimed()

    bench.store.fail(claim, "it broke", retryable=False)

    assert (bench.last.verb, bench.last.hashes) == (Verb.FAIL, bench.hashes()[1:])
    assert (bench.last.first_seq, bench.last.answer_seq) == (2, 2)


def test_a_failure_that_will_be_tried_again_writes_no_entry(bench: Bench) -> None:
    bench.store.fail(bench.claimed(), "it broke")

    assert (bench.last.hashes, bench.last.answer) == ((), Answer.OK)


@pytest.mark.parametrize(("error", "answer"), [(CommitUnknown("lost"), Answer.UNKNOWN), (ProcessDied(), None)])
def test_a_failure_that_nobody_answered_is_recorded_with_the_entry_that_it_may_have_written(
    bench: Bench, error: BaseException, answer: Answer | None
) -> None:
    claim = bench.claimed()
    bench.broken.error, bench.broken.lands = error, True

    with pytest.raises(type(error)):
        bench.store.fail(claim, "it broke", retryable=False)

    assert (bench.last.verb, bench.last.answer, bench.last.expected_seq) == (Verb.FAIL, answer, None)
    assert bench.last.hashes == bench.hashes()[1:]


def test_a_failure_that_was_refused_and_yet_landed_is_convicted(bench: Bench) -> None:
    """The whole way: recorded, read beside the log, judged. Keeps: acked-stays."""
    claim = bench.claimed()
    bench.broken.error, bench.broken.lands = Conflict("no"), True

    with pytest.raises(Conflict):
        bench.store.fail(claim, "it broke", retryable=False)

    log = [
        LogEntry("t", one.seq, one.epoch, one.at, one.event, sha256_text(one.body))
        for one in bench.memory.read("t").entries
    ]
    report = check_all(gather(RunFacts(), log=log, attempts=bench.sink.attempts), [LAWS_BY_KEY["acked-stays"]])
    assert report["acked-stays"].codes == {"refused-landed": 1}


def test_posts_wakes_and_releases_are_recorded(bench: Bench) -> None:
    claim = bench.claimed()
    message = HumanResponseReceived(text="hello")
    bench.store.post("t", message, "key")
    bench.store.wake("t", ExternalEvent("rain"))
    bench.store.append(claim, 1, Commit((MessageTaken(1, message),), Continue(), 2))
    bench.store.release(claim)

    post, wake, _, release = bench.sink.attempts[-4:]
    assert (post.verb, post.key, post.answer_seq) == (Verb.POST, "key", 1)
    assert (wake.verb, wake.answer_seq) == (Verb.WAKE, 2)
    assert (release.verb, release.answer) == (Verb.RELEASE, Answer.OK)
    assert len({one.id for one in bench.sink.attempts}) == len(bench.sink.attempts)


def test_an_owner_that_goes_on_with_a_kept_task_is_recorded_with_its_fence(bench: Bench) -> None:
    claim = bench.claimed()
    wait = ExternalEvent("rain")
    bench.store.append(claim, 1, Commit((TaskSuspended(wait),), Suspend(wait, keep=True)))
    bench.store.resume(claim)
    with pytest.raises(Conflict):
        bench.store.resume(replace(claim, token="other"))

    resumed, refused = bench.sink.attempts[-2:]
    assert (resumed.verb, resumed.answer) == (Verb.RESUME, Answer.OK)
    assert (resumed.epoch, resumed.token, resumed.hashes) == (claim.epoch, claim.token, ())
    assert (refused.verb, refused.answer, refused.token) == (Verb.RESUME, Answer.CONFLICT, "other")


def test_reads_are_not_recorded(bench: Bench) -> None:
    bench.claimed()
    before = bench.sink.attempts

    bench.store.read("t")
    bench.store.task("t")
    bench.store.tasks()
    bench.store.requeue_stale()

    assert bench.sink.attempts == before


def test_a_cancel_that_ends_its_task_is_recorded_with_the_entry_it_wrote(bench: Bench) -> None:
    bench.claimed()
    bench.now = 200.0  # the lease is over: nobody runs the task
    order = ControlReceived("cancel", "enough")

    bench.store.post("t", order, "k")

    attempt = bench.last
    assert (attempt.outcome, attempt.epoch, attempt.token) == ("cancelled", 2, None)
    assert (attempt.expected_seq, attempt.answer_seq) == (1, 2)
    assert attempt.hashes == bench.hashes()[1:]
    assert attempt.item == sha256_text(codec.encode("item", order))


@pytest.mark.parametrize("outcome", ["stored", "repeat", "ended"])
def test_a_cancel_that_ends_nothing_is_recorded_without_an_entry(bench: Bench, outcome: str) -> None:
    claim = bench.claimed()
    order = ControlReceived("cancel", "enough")
    if outcome == "repeat":
        bench.memory.post("t", order, "k")
    if outcome == "ended":
        bench.memory.append(claim, 1, Commit((), End(TaskCompleted("hi"))))

    bench.store.post("t", order, "k")

    assert (bench.last.outcome, bench.last.hashes, bench.last.epoch) == (outcome, (), None)
    assert bench.last.answer_seq == (None if outcome == "ended" else 1)


def test_a_cancel_of_unknown_outcome_may_have_ended_its_task(bench: Bench) -> None:
    bench.store.create(NewTask("t", "agent", "goal"))
    bench.broken.error, bench.broken.lands = CommitUnknown("lost"), True

    with pytest.raises(CommitUnknown):
        bench.store.post("t", ControlReceived("cancel", "x" * 5_000), "k")

    assert bench.last.is_open
    assert bench.last.hashes == bench.hashes()[1:]


def test_a_wake_is_recorded_with_what_it_posts(bench: Bench) -> None:
    bench.store.create(NewTask("t", "agent", "goal"))

    bench.store.wake("t", ExternalEvent("rain"))

    assert (bench.last.verb, bench.last.hashes, bench.last.outcome) == (Verb.WAKE, (), "stored")
    assert bench.last.item == sha256_text(bench.memory.read("t").unread[0].body)


def test_a_claim_is_recorded_with_what_it_took(bench: Bench) -> None:
    claim = bench.claimed()
    wait = TimerFired(101.0)
    bench.memory.append(claim, 1, Commit((TaskSuspended(wait),), Suspend(wait)))
    bench.now = 102.0

    bench.store.claim("w1", None, 10.0)

    assert (bench.last.verb, bench.last.outcome) == (Verb.CLAIM, "suspended")


def test_what_a_client_says_of_its_post_names_the_bytes(bench: Bench) -> None:
    bench.store.create(NewTask("t", "agent", "goal"))
    item = HumanResponseReceived(text="hello")

    sent = sent_of("t", "k", item, bench.store.post("t", item, "k"), 7)

    assert (sent.outcome, sent.number, sent.at, sent.wakes) == ("stored", 1, 7, "human:next-goal")
    assert sent.item == sha256_text(bench.memory.read("t").unread[0].body)
