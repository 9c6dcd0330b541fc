"""What is said twice, too late, or to a task that ends: told plainly, and never done as if it had been heard."""

from __future__ import annotations

import time

import pytest

from noeta.backends.open import open_store
from noeta.backends.stores.pg_migrate import migrate
from noeta.cli import FAILED
from tests.actors import Model, engine, says
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import asks_event, asks_person, calls, helper_agent, main_agent

QUESTION = "question:t:3-0"


@pytest.mark.parametrize("taken", [False, True])
def test_another_text_under_a_known_id_is_refused(shell: Shell, taken: bool) -> None:
    shell.create("t", "main", "--interactive")
    chat = engine(Model((says("hello"), says("again"))))
    shell.work(main=chat)
    shell.done("say", "t", "hi", "--message-id", "m1")
    if taken:
        shell.work(main=chat)
    other = shell.tasks("say", "t", "ho", "--message-id", "m1", "--json")

    assert (other.code, other.refusal) == (
        FAILED,
        "noeta: another text is known under message id m1: yours was dropped",
    )
    shell.done("say", "t", "hi", "--message-id", "m1")
    assert shell.json("show", "t")["task"]["inbox_seq"] == 1


@pytest.mark.parametrize("taken", [False, True])
def test_a_second_answer_is_refused_and_the_same_is_not(shell: Shell, taken: bool) -> None:
    shell.create()
    agent = main_agent(asks_person(), asks_event("never"))
    shell.work(main=agent)
    shell.done("answer", "t", "yes")
    if taken:
        shell.work(main=agent)
    other = shell.tasks("answer", "t", "no", "--handle", QUESTION)

    assert (other.code, other.refusal) == (
        FAILED,
        f"noeta: another answer is known under {QUESTION}: yours was dropped",
    )
    assert shell.done("answer", "t", "yes", "--handle", QUESTION)[0].endswith("already: nothing changed")


@pytest.mark.parametrize("payload", ["1.0", "true", '"1"', "null", None])
def test_another_payload_under_a_known_event_id_is_refused(shell: Shell, payload: str | None) -> None:
    shell.create()
    shell.done("event", "t", "paid", "--payload", "1", "--event-id", "p1")
    given = [] if payload is None else ["--payload", payload]
    other = shell.tasks("event", "t", "paid", *given, "--event-id", "p1")

    assert (other.code, other.refusal) == (
        FAILED,
        "noeta: another payload is known under event id p1: yours was dropped",
    )


def test_a_payload_is_the_same_in_any_order_of_its_keys(shell: Shell) -> None:
    shell.create()
    shell.done("event", "t", "paid", "--payload", '{"a": 1, "b": [2]}', "--event-id", "p1")

    again = shell.done("event", "t", "paid", "--payload", '{"b": [2], "a": 1}', "--event-id", "p1")
    assert again[0] == "event id p1 has this payload already: nothing changed"


def test_a_cancel_of_a_cancelled_task_changes_nothing(shell: Shell) -> None:
    shell.create()
    shell.done("cancel", "t", "--reason", "enough")

    again = shell.done("cancel", "t", "--reason", "really")

    assert again[0] == 't has ended already, it was cancelled: "enough": nothing changed'
    assert shell.json("cancel", "t")["outcome"] == "repeat"
    assert shell.json("show", "t")["task"]["inbox_seq"] == 1


def test_what_cannot_be_compared_any_more_is_known_already(shell: Shell) -> None:
    shell.create()
    shell.done("say", "t", "hi", "--message-id", "m1")
    shell.done("cancel", "t")

    for text in ("hi", "ho"):
        said = shell.done("say", "t", text, "--message-id", "m1")
        assert said[0] == "message id m1 is known already: nothing changed"


def unheard(shell: Shell) -> None:
    """Task ``t`` heard one item of three, and was then cancelled; nobody said anything to ``u``."""
    agent = main_agent(asks_event("paid"), asks_event("never"))
    for id in ("t", "u"):
        shell.create(id)
        shell.work(main=agent)
    shell.done("event", "t", "other")
    shell.done("event", "t", "paid")
    shell.work(main=agent)
    shell.done("event", "t", "late")
    shell.done("cancel", "t")
    shell.done("cancel", "u")


def test_what_a_task_left_unread_is_named(shell: Shell) -> None:
    unheard(shell)

    assert shell.json("show", "t")["left_unread"] == [1, 3]
    assert "left unread when it ended: items 1, 3" in shell.done("show", "t")
    assert "left unread" not in "\n".join(shell.done("show", "u")), "the order itself is none"


def test_what_a_worker_ended_left_unread_is_named(shell: Shell) -> None:
    """It took the order itself, so that the newest item was none."""
    shell.create()
    agent = main_agent(asks_event("paid"))
    shell.work(main=agent)
    shell.done("close", "t")
    shell.done("event", "t", "late")
    shell.work(main=agent)

    assert shell.json("show", "t")["task"]["waits_for"].startswith("nothing: it was cancelled")
    assert "left unread when it ended: item 2" in shell.done("show", "t")


def test_postgres_tells_the_same_of_repeats_and_of_what_was_left(
    pg_schema: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, schema = pg_schema
    migrate(dsn, schema)
    shell = Shell(dsn, capsys, schema)
    unheard(shell)
    shell.create("v")
    shell.done("say", "v", "hi", "--message-id", "m1")

    assert shell.json("show", "t")["left_unread"] == [1, 3]
    assert shell.json("show", "u")["left_unread"] == []
    assert shell.tasks("say", "v", "ho", "--message-id", "m1").code == FAILED
    assert shell.json("say", "v", "hi", "--message-id", "m1")["outcome"] == "repeat"


def test_a_question_whose_turn_was_closed_takes_no_answer(shell: Shell) -> None:
    shell.create("t", "main", "--interactive")
    agent = main_agent(asks_person())
    shell.work(main=agent)
    shell.done("close", "t")
    shell.work(main=agent)
    said = shell.tasks("answer", "t", "yes", "--handle", QUESTION)

    assert (said.code, said.refusal) == (
        FAILED,
        f"noeta: t does not wait for {QUESTION} any more: nothing was written",
    )
    assert shell.json("show", "t")["unread"] == []


def test_a_question_whose_time_is_over_takes_no_answer(shell: Shell) -> None:
    shell.create()
    asks = calls(("AskUser", {"question": "Shall we?", "timeout_seconds": 3_600}))
    agent = main_agent(asks, asks_event("never"))
    shell.work(main=agent)
    store = open_store(shell.store)
    fired = store.fire_due_timers(now=time.time() + 7_200)
    store.close()
    shell.work(main=agent)

    assert fired == ("t",)
    said = shell.tasks("answer", "t", "yes", "--handle", QUESTION)
    assert "any more: nothing was written" in said.refusal


def test_an_answer_to_an_ended_task_is_told_that_it_ended(shell: Shell) -> None:
    shell.create()
    agent = main_agent(asks_person())
    shell.work(main=agent)
    shell.done("cancel", "t")

    assert "t has ended, the answer was not taken" in shell.tasks("answer", "t", "x", "--handle", QUESTION).refusal


def test_a_failure_says_why_in_the_list(shell: Shell) -> None:
    shell.create()
    store = open_store(shell.store)
    (claim,) = store.claim("w1", None, 60.0).claims
    store.fail(claim, "LookupError: agent 'main' is not one of desk", retryable=False)
    store.close()

    why = "it failed: max_attempts_exceeded: \"LookupError: agent 'main' is not one of desk\""
    assert shell.json("list")["tasks"][0]["waits_for"] == f"nothing: {why}"
    assert shell.done("show", "t")[1].startswith(f"{why}, at 20")


def test_every_write_is_one_object_for_machines(shell: Shell) -> None:
    told = {"number": None, "made_ready": False, "epoch": None, "last_seq": None}
    made = shell.tasks("create", "t", "--agent", "main", "--goal", "x", "--json")
    assert made.err == f"made {shell.store.removeprefix('sqlite:')}\n", "not within the object"
    again = shell.json("create", "t", "--agent", "main", "--goal", "x")
    assert again == {"task": "t", "outcome": "repeat", **told}
    assert shell.json("create", "u", "--agent", "helper", "--goal", "x") == {
        "task": "u", "outcome": "created", **told, "made_ready": True
    }  # fmt: skip
    assert shell.json("say", "u", "x") == {"task": "u", "outcome": "stored", **told, "number": 1}
    agent = main_agent(asks_person())
    shell.work(main=agent, helper=helper_agent())

    ready = {**told, "made_ready": True}
    assert shell.json("event", "t", "k") == {"task": "t", "outcome": "stored", **told, "number": 1}
    assert shell.json("answer", "t", "yes") == {"task": "t", "outcome": "stored", **ready, "number": 2}
    assert shell.json("close", "t") == {"task": "t", "outcome": "stored", **told, "number": 3}
    assert shell.json("cancel", "t") == {
        "task": "t", "outcome": "cancelled", **told, "number": 4, "epoch": 2, "last_seq": 7
    }  # fmt: skip
