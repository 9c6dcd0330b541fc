"""Random life on the reference store: the laws accept all of it, and refuse what is then tampered with.

Workers claim, write, freeze and write late; clients post; clocks move. Whatever the store lets happen is a run of
a correct store, so no law may find an anomaly in it. Each tampering is what one kind of broken store would leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariants import (
    Answer,
    Attempt,
    FinalRow,
    LogEntry,
    RunFacts,
    Sample,
    Sent,
    Verb,
    Verdict,
    check_all,
    gather,
)
from noeta.backends.stores.memory import MemoryStore
from noeta.core import codec
from noeta.core.errors import Conflict
from noeta.core.events import (
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    TaskCompleted,
    TaskSuspended,
    TaskWoken,
)
from noeta.core.fold import fold
from noeta.core.ids import micros, sha256_text
from noeta.core.store import Claim, Commit, Continue, End, NewTask, Next, Suspend
from noeta.core.task import Status
from noeta.core.wake import HumanResponseReceived, TimerFired, WakeCondition, matches_wake

LAWS = (
    "one-writer",
    "epochs-rise",
    "gapless-log",
    "acked-stays",
    "terminal-is-final",
    "row-agrees",
    "taken-once",
    "wake-once",
)
STEPS = st.lists(st.tuples(st.sampled_from("ccwwwwlpptrns"), st.integers(0, 4)), min_size=5, max_size=60)
EVENTFUL = (("c", 0), ("w", 0), ("p", 0), ("w", 0), ("t", 4), ("c", 1), ("l", 0))
"""A turn, a message taken, a lapsed lease, a takeover, and a late write that is refused."""

HUMAN = HumanResponseReceived()


@dataclass
class Life:
    """One task on the reference store, and all that would be recorded of it."""

    now: float = 1_000.0
    claims: list[Claim] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    log: list[LogEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=lambda: self.now)
        self.store.create(NewTask("t", "agent", "goal", interactive=True))

    def live(self, steps: Sequence[tuple[str, int]]) -> Life:
        for what, choice in steps:
            self.now += 0.25
            match what:
                case "c":
                    self.claim(f"w{choice}")
                case "w" if self.claims:
                    self.write(self.claims[-1], choice)
                case "l" if self.claims:  # a frozen worker wakes up and writes under the claim it remembers
                    self.write(self.claims[choice % len(self.claims)], choice)
                case "p":
                    self.post(f"k{choice}")
                case "t":
                    self.now += choice
                case "r" if self.claims:
                    self.release(self.claims[-1])
                case "n" if self.claims:
                    self.renew(self.claims[-1])
                case _:
                    pass
            self.samples.append(self.row().as_sample())
        for entry in self.store.read("t").entries:
            self.log.append(LogEntry("t", entry.seq, entry.epoch, entry.at, entry.event, sha256_text(entry.body)))
        return self

    def row(self) -> FinalRow:
        page = self.store.read("t")
        return FinalRow(micros(self.now), page.row, page.unread)

    def record(self, verb: Verb, claim: Claim, answer: Answer, **more: object) -> None:
        now = micros(self.now)
        one = Attempt(
            f"op{len(self.attempts)}", f"{claim.worker}#1", claim.worker, verb, "t", now, claim.epoch, claim.token
        )
        self.attempts.append(replace(one, answer=answer, answered_at=now, **more))  # type: ignore[arg-type]

    def claim(self, worker: str) -> None:
        for claim in self.store.claim(worker, None, 3.0).claims:
            self.claims.append(claim)
            self.record(Verb.CLAIM, claim, Answer.OK, lease_until=claim.lease_until, answer_seq=claim.last_seq)

    def renew(self, claim: Claim) -> None:
        (renewal,) = self.store.renew(claim, 3.0)
        held = renewal.outcome == "held"
        answer = Answer.OK if held else Answer.CONFLICT
        self.record(Verb.RENEW, claim, answer, lease_until=renewal.lease_until if held else None)

    def release(self, claim: Claim) -> None:
        try:
            self.store.release(claim)
        except Conflict:
            return

    def post(self, key: str) -> None:
        answer = self.store.post("t", HUMAN, key)
        self.sent.append(Sent("t", key, answer.number, answer.outcome, micros(self.now)))

    def write(self, claim: Claim, choice: int) -> None:
        """What a worker would write next. One that was frozen read the log in time, so it may be refused."""
        page = self.store.read("t")
        state = fold("t", page.entries)
        if state.status is Status.TERMINAL:
            return
        entries: tuple[Event, ...] = ()
        next: Next = Continue()
        if state.status is Status.SUSPENDED and state.wake_on is not None:
            woken = [one for one in page.unread if matches_wake(state.wake_on, one.item)][:1]
            entries = tuple(TaskWoken((one.number,), one.item) for one in woken)
            next = next if woken else Suspend(state.wake_on)
        elif page.unread and isinstance(page.unread[0].item, HumanResponseReceived) and choice < 3:
            entries = (MessageTaken(page.unread[0].number, page.unread[0].item),)
        elif choice < 2:
            entries = (ModelCalled("r", 1), ModelReplied("hello"))
        elif choice < 4:
            wake_on: WakeCondition = HUMAN if choice == 2 else TimerFired(self.now + 1)
            entries, next = (TaskSuspended(wake_on),), Suspend(wake_on)
        else:
            next = End(TaskCompleted("done"))
        self.append(claim, page.row.last_seq, Commit(entries, next, page.inbox_seen))

    def append(self, claim: Claim, expected: int, commit: Commit) -> None:
        ending = (commit.next.entry,) if isinstance(commit.next, End) else ()
        hashes = tuple(sha256_text(codec.encode("entry", event)) for event in (*commit.entries, *ending))
        sent = {"expected_seq": expected, "hashes": hashes, "may_hold_back": bool(ending)}
        try:
            answer = self.store.append(claim, expected, commit)
        except Conflict:
            self.record(Verb.APPEND, claim, Answer.CONFLICT, **sent)
        else:
            self.record(Verb.APPEND, claim, Answer.OK, answer_seq=answer.last_seq, **sent)

    def verdicts(self) -> dict[str, Verdict]:
        evidence = gather(
            RunFacts(renewals_recorded=True),
            log=self.log,
            attempts=self.attempts,
            samples=self.samples,
            finals=[self.row()],
            sent=self.sent,
        )
        return {one.law.key: one.verdict for one in check_all(evidence).laws}


@settings(deadline=None)
@given(STEPS)
def test_nothing_that_a_correct_store_lets_happen_breaks_a_law(steps: list[tuple[str, int]]) -> None:
    verdicts = Life().live(steps).verdicts()

    assert [key for key in LAWS if verdicts[key] is Verdict.INVALID] == []


def loses_the_last_entry(life: Life) -> None:
    life.log.pop()


def keeps_a_refused_write(life: Life) -> None:
    refused = [one for one in life.attempts if one.answer is Answer.CONFLICT and one.hashes]
    last = life.log[-1]
    late = replace(refused[-1], expected_seq=last.seq)
    life.attempts = [late if one is refused[-1] else one for one in life.attempts]
    life.log.append(
        replace(last, seq=last.seq + 1, epoch=late.epoch or 0, event=ModelCalled("r", 1), body_hash=late.hashes[0])
    )


def changes_a_body(life: Life) -> None:
    life.log[-1] = replace(life.log[-1], body_hash="other")


def gives_an_epoch_twice(life: Life) -> None:
    one = next(one for one in reversed(life.attempts) if one.verb is Verb.CLAIM)
    life.attempts.append(replace(one, worker="w9", token="stolen"))


def takes_an_item_again(life: Life) -> None:
    took = next(entry for entry in life.log if isinstance(entry.event, MessageTaken | TaskWoken))
    life.log.append(replace(took, seq=life.log[-1].seq + 1, epoch=life.log[-1].epoch, body_hash="again"))


@pytest.mark.parametrize(
    ("tampers", "law"),
    [
        (loses_the_last_entry, "acked-stays"),
        (loses_the_last_entry, "row-agrees"),
        (keeps_a_refused_write, "acked-stays"),
        (changes_a_body, "acked-stays"),
        (gives_an_epoch_twice, "epochs-rise"),
        (takes_an_item_again, "taken-once"),
    ],
)
@settings(deadline=None, max_examples=30)
@given(steps=STEPS)
def test_tampering_is_found_by_its_law(tampers: Callable[[Life], None], law: str, steps: list[tuple[str, int]]) -> None:
    life = Life().live([*EVENTFUL, *steps])
    assert life.verdicts()[law] is not Verdict.INVALID

    tampers(life)

    assert life.verdicts()[law] is Verdict.INVALID
