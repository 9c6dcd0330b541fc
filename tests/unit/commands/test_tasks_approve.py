"""`noeta tasks approve | deny`: who decides, once, and only about what was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noeta.backends.open import open_store
from noeta.backends.stores.sqlite import SqliteStore
from noeta.cli import BAD_USAGE, FAILED
from noeta.commands.tasks import known
from noeta.core.store import Store
from noeta.core.wake import HumanResponseReceived
from noeta.testing.faults import Fault, FaultyStore, Kind
from tests.unit.commands.paying import APPROVAL, APPROVES, DENIES, pays, results
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import asks_event, asks_person, main_agent

ME = "tests.unit.commands.test_tasks_approve"


def test_an_approval_lets_the_call_start_and_a_second_one_changes_nothing(shell: Shell) -> None:
    shell.create()
    ran: list[Any] = []
    shell.work(main=pays(ran))
    assert ran == []

    assert shell.done("approve", "t") == [
        "t has the approval as item 1: it may go on now",
        "look: noeta tasks show t",
    ]
    assert shell.done("approve", "t", "--handle", APPROVAL)[0] == f"{APPROVAL} has this answer already: nothing changed"
    shell.work(main=pays(ran))

    assert ran == [("3-0", 1, {"euros": 9, "to": "Ada"})]
    assert results(shell) == [("ran", "pay ran as start 1")]
    again = shell.done("approve", "t", "--handle", APPROVAL)
    assert again[0] == f"{APPROVAL} has this answer already: nothing changed", "also when the task has ended"


def test_a_denial_is_told_to_the_model_with_its_reason(shell: Shell) -> None:
    shell.create()
    ran: list[Any] = []
    shell.work(main=pays(ran))

    assert shell.done("deny", "t", "--reason", "over the budget")[0] == "t has the denial as item 1: it may go on now"
    shell.work(main=pays(ran))

    assert ran == []
    assert results(shell) == [("denied", "Not done: a person did not approve this call: over the budget")]


@pytest.mark.parametrize(
    ("first", "second", "how", "then"),
    [
        (APPROVES, DENIES, "was approved", "end the whole task: noeta tasks cancel t"),
        (DENIES, APPROVES, 'was denied ("no")', "say that it may ask again: noeta tasks say t TEXT"),
        (DENIES, ["deny", "--reason", "nO"], 'was denied ("no")', "say that it may ask again: noeta tasks say t TEXT"),
    ],
)
@pytest.mark.parametrize("handle", [[], ["--handle", APPROVAL]])
@pytest.mark.parametrize("taken", [False, True])
def test_the_first_decision_counts(
    shell: Shell, first: list[str], second: list[str], how: str, then: str, handle: list[str], taken: bool
) -> None:
    shell.create()
    ran: list[Any] = []
    agent = pays(ran, more=asks_event("never"))
    shell.work(main=agent)
    shell.done(first[0], "t", *first[1:])
    if taken:
        shell.work(main=agent)

    other = shell.tasks(second[0], "t", *second[1:], *handle)
    again = shell.done(first[0], "t", *first[1:], *handle)

    assert (other.code, other.refusal) == (
        FAILED,
        f"noeta: {APPROVAL} {how}, and the first decision counts: yours was dropped; {then}",
    )
    assert again[0] == f"{APPROVAL} has this answer already: nothing changed"
    assert shell.json("show", "t")["task"]["inbox_seq"] == 1, "neither was written"
    shell.work(main=agent)
    assert len(ran) == (first == APPROVES)


@pytest.mark.parametrize("handle", [[], ["--handle", APPROVAL]])
def test_the_decision_about_a_call_of_an_ended_task_is_known(shell: Shell, handle: list[str]) -> None:
    shell.create()
    shell.work(main=pays([]))
    shell.done("approve", "t")
    shell.work(main=pays([]))

    again = shell.done("approve", "t", *handle)
    other = shell.tasks("deny", "t", "--reason", "no", *handle)

    assert again[0] == f"{APPROVAL} has this answer already: nothing changed"
    assert (other.code, other.refusal) == (
        FAILED,
        (
            f"noeta: {APPROVAL} was approved, and the first decision counts: yours was dropped; t has ended: nothing "
            "more will happen to it; create a new task"
        ),
    )


def test_what_a_host_has_decided_is_known_too(shell: Shell) -> None:
    """It may have another id for its message; a second item would be taken by nobody."""
    shell.create()
    shell.work(main=pays([]))
    store = open_store(shell.store)
    store.post("t", HumanResponseReceived(APPROVAL, "approve"), "of a host")
    store.close()

    assert shell.done("approve", "t")[0] == f"{APPROVAL} has this answer already: nothing changed"
    assert f"{APPROVAL} was approved" in shell.tasks("deny", "t", "--reason", "no").refusal
    assert shell.json("show", "t")["task"]["inbox_seq"] == 1


def test_an_outcome_is_one_json_object(shell: Shell) -> None:
    shell.create()
    shell.work(main=pays([]))

    assert shell.json("approve", "t") == {
        "task": "t",
        "outcome": "stored",
        "number": 1,
        "made_ready": True,
        "epoch": None,
        "last_seq": None,
    }
    assert shell.json("approve", "t", "--handle", APPROVAL)["outcome"] == "repeat"


@pytest.mark.parametrize("command", [APPROVES, DENIES])
def test_nobody_decides_before_the_question_is_asked(shell: Shell, command: list[str]) -> None:
    """A decision that was kept would let the call start, or refuse it, without a person having seen it."""
    shell.create()
    early = shell.tasks(command[0], "t", *command[1:], "--handle", APPROVAL)
    ran: list[Any] = []
    shell.work(main=pays(ran))

    assert (early.code, early.refusal) == (
        FAILED,
        (
            f"noeta: t does not ask for {APPROVAL}: nothing was written; it asks for no approval, it waits for a "
            "worker; look: noeta tasks show t"
        ),
    )
    seen = shell.json("show", "t")
    assert (ran, seen["task"]["inbox_seq"]) == ([], 0)
    assert [one["handle"] for one in seen["questions"]] == [APPROVAL], "a person is asked"


@pytest.mark.parametrize("command", [APPROVES, DENIES])
def test_another_call_than_the_one_it_asks_about_is_not_decided(shell: Shell, command: list[str]) -> None:
    shell.create()
    shell.work(main=pays([]))

    said = shell.tasks(command[0], "t", *command[1:], "--handle", "approval:t:3-1")

    assert (said.code, said.refusal) == (
        FAILED,
        (
            'noeta: t does not ask for approval:t:3-1: nothing was written; it asks "Pay Ada?": '
            'pay {"euros": 9, "to": "Ada"}; approve it: noeta tasks approve --handle approval:t:3-0 t; '
            "deny it: noeta tasks deny --handle approval:t:3-0 --reason TEXT t"
        ),
    )
    assert shell.json("show", "t")["task"]["inbox_seq"] == 0


def test_an_answer_that_came_before_the_question_is_no_repeat(shell: Shell) -> None:
    """A host may have posted one: it does not make a decision known that nobody was asked for."""
    shell.create()
    store = open_store(shell.store)
    store.post("t", HumanResponseReceived(APPROVAL, "approve"), "of a host")
    store.close()

    assert "nothing was written" in shell.tasks("approve", "t", "--handle", APPROVAL).refusal


def test_of_several_calls_one_must_be_chosen(shell: Shell) -> None:
    shell.create()
    ran: list[Any] = []
    agent = pays(ran, 9, 3, 7)
    shell.work(main=agent)
    assert [call for call, _, _ in ran] == ["3-1"], "a small sum needs nobody"

    said = shell.tasks("approve", "t")
    assert said.code == FAILED
    assert said.refusal == (
        "noeta: t asks about 2 calls; choose with --handle: "
        'approval:t:3-0 (pay {"euros": 9, "to": "Ada"}), approval:t:3-2 (pay {"euros": 7, "to": "Ada"})'
    )
    shell.done("deny", "t", "--reason", "no", "--handle", "approval:t:3-2")
    shell.done("approve", "t", "--handle", "approval:t:3-0")
    shell.work(main=agent)
    assert [call for call, _, _ in ran] == ["3-1", "3-0"]


@pytest.mark.parametrize("command", [["approve"], ["deny", "--reason", "no"]])
def test_what_is_no_approval_is_refused_with_what_to_do(shell: Shell, command: list[str]) -> None:
    shell.create()
    shell.work(main=main_agent(asks_event("paid")))
    shell.create("q")
    shell.work(main=main_agent(asks_person()))

    waits = shell.tasks(command[0], "t", *command[1:])
    asks = shell.tasks(command[0], "q", *command[1:])
    handle = shell.tasks(command[0], "q", "--handle", "question:q:3-0", *command[1:])

    assert waits.refusal == ("noeta: t asks for no approval, it waits for the event paid; look: noeta tasks show t")
    assert asks.refusal == ("noeta: q asks for no approval, it asks a question; answer it: noeta tasks answer q TEXT")
    assert handle.refusal == (
        "noeta: --handle: that of an approval begins with 'approval:q:', found 'question:q:3-0'; a question is "
        "answered: noeta tasks answer --handle question:q:3-0 q TEXT"
    )
    assert (waits.code, asks.code, handle.code) == (FAILED, FAILED, BAD_USAGE)


def test_an_approval_that_the_turn_gave_up_takes_no_decision(shell: Shell) -> None:
    shell.create("t", "main", "--interactive")
    ran: list[Any] = []
    shell.work(main=pays(ran))
    shell.done("close", "t")
    shell.work(main=pays(ran))

    said = shell.tasks("approve", "t", "--handle", APPROVAL)

    assert (said.code, said.refusal) == (
        FAILED,
        (
            f"noeta: t does not wait for {APPROVAL} any more: nothing was written; it asks for no approval, it waits "
            "for a message; look: noeta tasks show t"
        ),
    )
    assert ran == []


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["deny", "t", "--reason", "approve"], "--reason: 'approve' is the word that approves; say why it is denied"),
        (["deny", "t", "--reason", ""], "--reason: must not be empty"),
        (["deny", "t", "--reason", " "], "--reason: must not be blank"),
        (["deny", "t", "--reason", "\udcff"], "--reason: must not contain a lone surrogate"),
        (["deny", "t"], "Missing option '--reason'"),
        (["approve", "t", "--handle", ""], "--handle: must not be empty"),
        (["approve", "t", "--handle", "approval:u:3-0"], "begins with 'approval:t:', found 'approval:u:3-0'"),
        (["approve", "t", "yes"], "unexpected extra argument"),
    ],
)
def test_bad_usage_is_refused_before_any_store_is_opened(shell: Shell, arguments: list[str], refusal: str) -> None:
    said = shell.tasks(*arguments)

    assert said.code == BAD_USAGE
    assert refusal in said.err
    assert "there is no file" in shell.tasks("list").refusal, "nothing was made"


@pytest.mark.parametrize("command", [["approve"], ["deny", "--reason", "no"]])
def test_tasks_that_are_not_there_or_have_ended_take_nothing(shell: Shell, command: list[str]) -> None:
    shell.create()
    shell.work(main=main_agent())
    ended = shell.tasks(command[0], "t", *command[1:])
    nobody = shell.tasks(command[0], "nobody", *command[1:])

    assert ended.refusal == "noeta: t completed: nothing more will happen to it; create a new task"
    assert nobody.refusal == "noeta: there is no task 'nobody' in this store; those there are: noeta tasks list"
    assert ended.code == nobody.code == FAILED


def lost(place: str) -> Store:
    """Its first answer to a post is lost after the post has landed."""
    return FaultyStore(SqliteStore(place), [Fault(Kind.LANDED, "post")])


def test_a_decision_whose_answer_was_lost_is_made_once(
    tmp_path: Path, shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "PAUSE_SECONDS", 0.001)
    shell.create()
    ran: list[Any] = []
    shell.work(main=pays(ran))

    said = Shell(f"factory:{ME}:lost:{tmp_path / 'tasks.db'}", capsys).tasks("approve", "t")

    assert said.code == 0
    assert "t has the approval: the first try had landed" in said.out
    shell.work(main=pays(ran))
    assert len(ran) == 1


def test_the_longest_task_id_can_be_decided_by_its_handle(shell: Shell) -> None:
    long = "t" * 200
    shell.create(long)
    ran: list[Any] = []
    shell.work(main=pays(ran))

    assert shell.done("approve", long, "--handle", f"approval:{long}:3-0")[0].endswith("it may go on now")
    shell.work(main=pays(ran))
    assert len(ran) == 1
