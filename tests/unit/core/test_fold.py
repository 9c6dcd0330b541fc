"""Folding a log: what each entry means, and which logs are refused."""

from __future__ import annotations

import itertools
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core import codec, texts
from noeta.core.errors import UnreadableLog
from noeta.core.events import (
    Entry,
    Event,
    MessageTaken,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSuspended,
    TaskWoken,
    ToolFinished,
    ToolStarted,
    TurnFailed,
)
from noeta.core.fold import advance, fold
from noeta.core.model import CallMade, ModelSaid, Said, ToolAnswered, UserSaid
from noeta.core.task import Status
from noeta.core.wake import (
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
)
from tests.unit.core.logs import CALLED, CHAT, CREATED, entries, folded, replied, valid_logs


@pytest.mark.holds("recovery/is-folding")
@given(valid_logs(), st.data())
def test_folding_a_prefix_and_advancing_is_folding_the_whole(log: list[Entry], data: st.DataObject) -> None:
    """So a state can be kept and advanced, and a snapshot is never wrong."""
    cut = data.draw(st.integers(0, len(log)))
    state = deepcopy(fold("t", log[:cut]))
    for entry in log[cut:]:
        advance(state, entry)

    assert state == fold("t", log)


@given(valid_logs())
def test_a_fold_of_the_stored_bytes_is_the_same_fold(log: list[Entry]) -> None:
    again = [codec.decode_entry(entry.seq, entry.epoch, entry.at, entry.body) for entry in log]

    assert fold("t", again) == fold("t", log)


@given(valid_logs())
def test_what_was_said_only_grows(log: list[Entry]) -> None:
    """A request repeats the one before and adds to it: the provider's cache still applies. Keeps: same-request."""
    asked: list[Said] = []
    for cut, entry in enumerate(log, start=1):
        if isinstance(entry.event, ModelCalled):
            said = fold("t", log[:cut]).said
            assert said[: len(asked)] == asked
            asked = said


@given(valid_logs())
def test_results_stand_behind_their_calls(log: list[Entry]) -> None:
    """Whatever people said meanwhile: providers refuse a result that stands anywhere else."""
    for before, said in itertools.pairwise(fold("t", log).said):
        if isinstance(said, ToolAnswered):
            assert isinstance(before, ModelSaid | ToolAnswered)


@given(valid_logs(), st.data())
def test_a_missing_entry_is_damage(log: list[Entry], data: st.DataObject) -> None:
    """Keeps: gapless-log."""
    missing = data.draw(st.integers(0, len(log) - 1))
    broken = log[:missing] + log[missing + 1 :]
    if missing == len(log) - 1:
        fold("t", broken)
        return

    with pytest.raises(UnreadableLog) as damaged:
        fold("t", broken)
    assert not damaged.value.newer


def test_an_empty_log_is_a_pending_task_without_words() -> None:
    state = fold("t", [])

    assert (state.status, state.last_seq, state.said) == (Status.PENDING, 0, [])


def test_a_created_task_is_pending_with_its_goal() -> None:
    state = folded(CHAT)

    assert (state.status, state.agent, state.interactive, state.parent_task_id) == (Status.PENDING, "agent", True, None)
    assert state.said == [UserSaid("goal")]


def test_the_first_entry_after_creation_makes_it_running() -> None:
    assert folded(CREATED, CALLED).status is Status.RUNNING


@pytest.mark.parametrize("ending", [TaskCompleted("a"), TaskFailed("b"), TaskCancelled("c")])
def test_an_ending_is_terminal_and_nothing_follows_it(ending: TaskCompleted | TaskFailed | TaskCancelled) -> None:
    """Keeps: terminal-is-final."""
    state = folded(CREATED, ending)

    assert (state.status, state.ending) == (Status.TERMINAL, ending)
    with pytest.raises(UnreadableLog, match="follows its ending"):
        folded(CREATED, ending, CALLED)


@pytest.mark.parametrize(
    "log",
    [
        [entries(CREATED)[0], replace(entries(CALLED)[0], seq=3)],
        [entries(CREATED)[0], replace(entries(CALLED)[0], seq=1)],
        [replace(entries(CREATED)[0], seq=2)],
        [replace(entries(CREATED)[0], seq=0)],
    ],
    ids=["gap", "repeat", "from two", "from zero"],
)
def test_entries_out_of_place_are_damage(log: list[Entry]) -> None:
    """Keeps: gapless-log."""
    with pytest.raises(UnreadableLog) as damaged:
        fold("t", log)
    assert not damaged.value.newer


def test_a_log_begins_with_its_creation_and_has_one() -> None:
    with pytest.raises(UnreadableLog):
        folded(CALLED)
    with pytest.raises(UnreadableLog):
        folded(CREATED, CREATED)


@pytest.mark.parametrize("event", [ToolStarted("9-9", 1), ToolFinished("9-9", "out")])
def test_a_call_that_was_never_made_is_damage(event: Event) -> None:
    with pytest.raises(UnreadableLog) as damaged:
        folded(CREATED, CALLED, replied(3, "a"), event)
    assert not damaged.value.newer


def test_an_entry_of_an_unknown_type_is_from_a_newer_version() -> None:
    with pytest.raises(UnreadableLog) as newer:
        codec.decode_entry(2, 1, 0, '{"type":"TaskTeleported","to":"mars"}')
    assert newer.value.newer


@pytest.mark.parametrize(
    "body",
    ['{"type":"ToolStarted"}', '{"type":"ToolStarted","call_id":5,"start":1}', "{", "", "[]", '{"type":5}', "null"],
)
def test_an_entry_of_a_known_type_that_cannot_be_read_is_damage(body: str) -> None:
    with pytest.raises(UnreadableLog) as damaged:
        codec.decode_entry(2, 1, 0, body)
    assert not damaged.value.newer


# -- model calls -------------------------------------------------------------------------------------------


@pytest.mark.holds("model/attempts-counted")
def test_a_model_call_without_a_reply_is_open_and_counted() -> None:
    state = folded(CREATED, CALLED, ModelCalled("other", 2))

    assert (state.model_called_seq, state.model_hash, state.model_attempts) == (3, "other", 2)


def test_a_reply_closes_the_call_and_its_count() -> None:
    state = folded(CREATED, CALLED, ModelReplied("hi"))

    assert (state.model_called_seq, state.model_hash, state.model_attempts) == (None, None, 0)
    assert state.said == [UserSaid("goal"), ModelSaid("hi")]


@pytest.mark.holds("model/attempts-counted")
def test_a_sealed_attempt_closes_the_call_and_keeps_its_count() -> None:
    """A call that kills its worker never loops. Keeps: bounded, calls-pair."""
    state = folded(CREATED, CALLED, StepAttemptAbandoned(2, "auto_redrive"))

    assert (state.model_called_seq, state.model_hash, state.model_attempts) == (None, "hash", 1)


def test_replies_that_were_cut_in_a_row_are_counted_and_the_model_is_asked_to_go_on() -> None:
    cut = ModelReplied("half", (), "max_tokens")
    state = folded(CREATED, CALLED, cut, CALLED, cut)

    assert (state.truncated, state.empty) == (2, 0)
    assert state.said[-2:] == [ModelSaid("half"), UserSaid(texts.CONTINUE_TRUNCATED)]
    assert folded(CREATED, CALLED, cut, CALLED, ModelReplied("whole")).truncated == 0


def test_empty_replies_in_a_row_are_counted() -> None:
    assert folded(CREATED, CALLED, ModelReplied(""), CALLED, ModelReplied("")).empty == 2
    assert folded(CREATED, CALLED, ModelReplied(""), CALLED, ModelReplied("x")).empty == 0
    assert folded(CREATED, CALLED, replied(3, "a")).empty == 0


# -- tool calls --------------------------------------------------------------------------------------------


def test_the_calls_of_a_reply_wait_in_order() -> None:
    state = folded(CREATED, CALLED, replied(3, "a", "b", text="two"))

    assert list(state.calls) == ["3-0", "3-1"]
    waiting = state.next_call()
    assert waiting is not None and waiting.call.id == "3-0"
    assert state.said[-1] == ModelSaid("two", (CallMade("3-0", "a", {}), CallMade("3-1", "b", {})))


def test_a_started_call_is_interrupted_until_it_finishes() -> None:
    started = folded(CREATED, CALLED, replied(3, "a"), ToolStarted("3-0", 1))
    finished = folded(CREATED, CALLED, replied(3, "a"), ToolStarted("3-0", 1), ToolFinished("3-0", "out", True))

    assert [call.call.id for call in started.interrupted_calls()] == ["3-0"]
    assert (started.calls["3-0"].starts, started.calls["3-0"].started_seq) == (1, 4)
    assert finished.interrupted_calls() == []
    assert finished.said[-1] == ToolAnswered("3-0", "out", is_error=True)


def test_a_seal_leaves_open_calls_to_recovery() -> None:
    """Keeps: effect-at-most-once."""
    state = folded(CREATED, CALLED, replied(3, "a"), ToolStarted("3-0", 1), StepAttemptAbandoned(4, "auto_redrive"))

    assert len(state.interrupted_calls()) == 1


def test_starts_are_counted_over_takeovers() -> None:
    """Keeps: bounded."""
    state = folded(CREATED, CALLED, replied(3, "a"), *[ToolStarted("3-0", n) for n in (1, 2, 3)])

    assert state.calls["3-0"].starts == 3


# -- turns -------------------------------------------------------------------------------------------------


def test_a_failed_turn_answers_its_open_calls() -> None:
    """So that the next request is well formed. Keeps: calls-pair."""
    state = folded(CHAT, CALLED, replied(3, "a", "b"), ToolStarted("3-0", 1), TurnFailed("llm_error", "no"))

    answers = [said for said in state.said if isinstance(said, ToolAnswered)]
    assert [answer.call_id for answer in answers] == ["3-0", "3-1"]
    assert [answer.output for answer in answers] == [texts.OUTCOME_UNKNOWN, texts.TURN_ENDED_FIRST]
    assert state.next_call() is None and state.interrupted_calls() == []


def test_a_turn_that_ends_well_forgets_the_bugs_before_it() -> None:
    bug = (TurnFailed("internal_error", "x"), TaskSuspended(HumanResponseReceived()))
    woken = TaskWoken((1,), HumanResponseReceived(text="again"))

    assert folded(CHAT, *bug).internal_errors == 1
    assert folded(CHAT, *bug, woken, *bug).internal_errors == 2
    assert folded(CHAT, *bug, woken, CALLED, ModelReplied("ok"), bug[1]).internal_errors == 0


def test_a_suspended_task_waits_and_a_woken_one_begins_a_new_turn() -> None:
    wait = HumanResponseReceived("question")
    suspended = folded(CHAT, CALLED, ModelReplied("hi"), TaskSuspended(wait, "hi"))
    woken = folded(
        CHAT, CALLED, ModelReplied("hi"), TaskSuspended(wait), TaskWoken((1,), HumanResponseReceived(text="so?"))
    )

    assert (suspended.status, suspended.wake_on) == (Status.SUSPENDED, wait)
    assert (woken.status, woken.wake_on, woken.reply) == (Status.RUNNING, None, None)
    assert woken.said[-1] == UserSaid("so?")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (HumanResponseReceived(text="hello"), "hello"),
        (TimerFired(5.0), texts.TIMER_FIRED),
        (SubtaskCompleted("c", "failed", "why"), "Task c failed:\nwhy"),
        (
            SubtaskGroupCompleted("g", 2, (SubtaskCompleted("a", output="1"), SubtaskCompleted("b", output="2"))),
            "Task a completed:\n1\n\nTask b completed:\n2",
        ),
        (ExternalEvent("deployed", {"ok": True}), 'Event deployed: {"ok":true}'),
    ],
)
def test_the_model_is_told_of_every_kind_of_wake(event: HumanResponseReceived, told: str) -> None:
    state = folded(CHAT, TaskSuspended(HumanResponseReceived()), TaskWoken((1,), event))

    assert state.said[-1] == UserSaid(told)


def test_a_cancel_is_remembered_and_not_told_to_the_model() -> None:
    order = ControlReceived("cancel", "enough")
    taken = folded(CREATED, CALLED, ModelReplied("x"), MessageTaken(1, order))
    woken = folded(CREATED, TaskSuspended(TimerFired(1.0)), TaskWoken((1,), order))

    assert taken.cancel == order and woken.cancel == order
    assert UserSaid("enough") not in taken.said


def test_a_message_after_the_last_word_asks_for_another() -> None:
    state = folded(CREATED, CALLED, ModelReplied("done"), MessageTaken(1, HumanResponseReceived(text="wait")))

    assert state.reply is None


def test_the_epoch_of_the_newest_entry_is_known() -> None:
    assert fold("t", [entries(CREATED, epoch=0)[0], entries(CALLED, first_seq=2, epoch=7)[0]]).last_epoch == 7
