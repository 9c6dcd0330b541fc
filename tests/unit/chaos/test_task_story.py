"""What only a run knows of a task: how each claim ended, by the record of who held it, and what struck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from invariants import Answer, Attempt, FaultSeen, LogEntry, RunFacts, TaskEvidence, Verb
from invariants.evidence import Held
from noeta.chaos.nemesis import CRASHED, SELF_KILLED
from noeta.chaos.report.task_story import story_of
from noeta.chaos.schedule import Kind
from noeta.core.events import ModelCalled, TaskCancelled
from tests.unit.story.logs import CREATED, Dated, log_of, second

LOG: tuple[Dated, ...] = ((0, 0.0, CREATED), (1, 1.0, ModelCalled("h", 1)), (2, 9.0, ModelCalled("h", 2)))
CLAIM = Attempt("w1/1", "w1#1", "w1-1", Verb.CLAIM, "t", 0, epoch=1, lease_until=second(4.0), answer=Answer.OK)


def entries(*dated: Dated) -> tuple[LogEntry, ...]:
    return tuple(LogEntry("t", one.seq, one.epoch, one.at, one.event, f"hash{one.seq}") for one in log_of(*dated))


def asked(verb: Verb, answer: Answer | None, **fields: object) -> Attempt:
    """Something the holder of epoch 1 asked."""
    return replace(CLAIM, id=f"w1/{verb}", verb=verb, answer=answer, lease_until=None, **fields)  # type: ignore[arg-type]


def ends(*attempts: Attempt, log: tuple[Dated, ...] = LOG) -> list[str]:
    """How the claim of epoch 1 ended."""
    _, seen = story_of(TaskEvidence("t", log=entries(*log), attempts=(CLAIM, *attempts)), RunFacts())
    return list(seen.ends[1])


def test_the_holders_are_named_with_their_processes_and_no_client_is_one() -> None:
    cancel = Attempt("c/1", "client", "client", Verb.POST, "t", 0, epoch=2)
    log = entries(*LOG[:2], (2, 9.0, TaskCancelled()))
    _, seen = story_of(TaskEvidence("t", log=log, attempts=(CLAIM, cancel)), RunFacts())

    assert seen.holders == {1: "w1-1 in process w1#1"}


@pytest.mark.parametrize(
    ("attempts", "sentence"),
    [
        ([], "the lease of w1-1 ran out"),
        ([asked(Verb.RELEASE, Answer.OK)], "w1-1 gave the task back"),
        ([asked(Verb.FAIL, Answer.OK)], "w1-1 met an error of its own, and gave the task back"),
    ],
)
def test_a_claim_ends_as_its_holder_recorded_it(attempts: list[Attempt], sentence: str) -> None:
    assert ends(*attempts) == [sentence]


@pytest.mark.parametrize(
    ("answer", "hashes", "what"),
    [
        (Answer.CONFLICT, ("x",), "was refused: it held the task no longer"),
        (Answer.UNAVAILABLE, ("x",), "was refused, and wrote nothing"),
        (Answer.UNKNOWN, ("x",), "had no answer; it had not landed"),
        (None, ("hash2",), "had no answer; it had landed"),
    ],
)
def test_an_append_without_a_good_answer_says_what_became_of_it(
    answer: Answer | None, hashes: tuple[str, ...], what: str
) -> None:
    append = asked(Verb.APPEND, answer, expected_seq=1, hashes=hashes)

    assert f"w1-1's append of seq 2 {what}" in ends(append)


def test_a_lease_that_still_ran_when_the_next_wrote_did_not_run_out() -> None:
    renewed = replace(CLAIM, id="w1/renew", verb=Verb.RENEW, lease_until=second(20.0))

    assert ends(renewed) == []


@pytest.mark.parametrize("kind", [*Kind, SELF_KILLED, CRASHED])
def test_every_kind_of_fault_has_words(kind: str) -> None:
    fault = FaultSeen(second(2.0), kind, "w1#1", second(3.0), held=(Held("t", 1),))
    _, seen = story_of(TaskEvidence("t", log=entries(*LOG), attempts=(CLAIM,)), RunFacts((fault,)))
    words = [mark.words for mark in seen.marks]

    assert words
    assert not any("was struck by" in one for one in words), words


def test_a_fault_that_did_not_touch_the_task_is_none_of_its_story() -> None:
    faults = (
        FaultSeen(second(2.0), Kind.KILL, "w1#1", held=(Held("u", 1),)),
        FaultSeen(second(10.0), Kind.DB_KILL, "server"),
    )
    _, seen = story_of(TaskEvidence("t", log=entries(*LOG), attempts=(CLAIM,)), RunFacts(faults))

    assert seen.marks == ()
