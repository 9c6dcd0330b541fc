"""`noeta tasks create | say | answer | event | cancel | close`: what is done, and what is refused with what words."""

from __future__ import annotations

import pytest

from noeta.cli import BAD_USAGE, FAILED
from noeta.commands.tasks.place import UNREACHABLE
from tests.actors import Model, engine, says
from tests.unit.commands.shell import Shell
from tests.unit.runtime.machines import asks_event, asks_person, calls, delegates, helper_agent, main_agent


def test_a_task_is_created_once_and_its_id_is_taken(shell: Shell) -> None:
    first = shell.done("create", "t", "--agent", "main", "--goal", "do it", "--queue", "q")
    again = shell.done("create", "t", "--agent", "main", "--goal", "do it", "--queue", "q")
    other = shell.tasks("create", "t", "--agent", "main", "--goal", "something else")

    assert first == [
        f"made {shell.store.removeprefix('sqlite:')}",
        "created t: a worker of queue q may take it",
        "look: noeta tasks show t",
    ]
    assert again[0] == "t was there with the same content: nothing changed"
    assert (other.code, other.refusal) == (
        FAILED,
        "noeta: task_id: 't' exists with other content; give the new task another id",
    )
    assert shell.json("list")["tasks"][0]["queue"] == "q"


def test_a_delayed_task_is_not_taken_before_its_time(shell: Shell) -> None:
    created = shell.done("create", "t", "--agent", "main", "--goal", "later", "--delay", "3600")
    shell.work()

    assert created[1].endswith("may take it in 3600 s")
    task = shell.json("list")["tasks"][0]
    assert (task["status"], task["epoch"]) == ("pending", 0)
    assert task["waits_for"].startswith("a worker, not before 20")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (
            ["create", "a.b", "--agent", "main", "--goal", "x"],
            "task_id: must not contain '.', which is kept for derived",
        ),
        (["create", "t", "--agent", "", "--goal", "x"], "agent: must not be empty"),
        (
            ["create", "t", "--agent", "main", "--goal", "x", "--delay", "-1"],
            "--delay: at least 0 and at most 315360000",
        ),
        (["create", "t", "--agent", "main", "--goal", "\udcff"], "--goal: must not contain a lone surrogate"),
        (["show", "x" * 201], "task_id: at most 200 characters, found 201"),
        (["create", "t", "--agent", "main", "--goal", ""], "--goal: must not be empty"),
        (["create", "t", "--agent", "main", "--goal", " \n"], "--goal: must not be blank"),
        (["say", "t", ""], "TEXT: must not be empty"),
        (["say", "t", "   "], "TEXT: must not be blank"),
        (["answer", "t", "\t"], "TEXT: must not be blank"),
        (["say", "t", "hi", "--message-id", ""], "--message-id: must not be empty"),
        (["answer", "t", "hi", "--handle", "next-goal"], "is no question; a message is said: noeta tasks say t TEXT"),
        (["event", "t", "paid", "--payload", "{paid}"], '--payload: expected JSON, found "{paid}"'),
        (["event", "t", "paid", "--payload", "NaN"], "JSON has no NaN"),
        (["event", "t", "paid", "--payload", "9" * 30], "--payload: integers fit 64 bits"),
        (["event", "t", "paid", "--payload", "1e999"], "--payload: must be a finite number, found inf"),
        (["event", "t", "k" * 201], "KIND: at most 200 characters, found 201"),
        (["cancel", "t", "--reason", ""], "--reason: must not be empty"),
        (["close", "t", "--reason", " "], "--reason: must not be blank"),
        (["cancel", "t", "--reason", "\udcff"], "--reason: must not contain a lone surrogate"),
        (["list"], "there is no file"),
    ],
)
def test_bad_usage_is_one_line_before_any_store_is_opened(shell: Shell, arguments: list[str], refusal: str) -> None:
    said = shell.tasks(*arguments)

    assert said.code == BAD_USAGE
    assert refusal in said.refusal
    assert "there is no file" in shell.tasks("list").refusal, "nothing was made"


@pytest.mark.parametrize("command", [["show"], ["say", "hi"], ["answer", "yes"], ["event", "k"], ["cancel"], ["close"]])
def test_an_unknown_task_is_refused_with_the_way_to_the_known_ones(shell: Shell, command: list[str]) -> None:
    shell.create("t")
    name, *rest = command
    said = shell.tasks(name, "nobody", *rest)

    assert said.code == FAILED
    assert said.refusal == "noeta: there is no task 'nobody' in this store; those there are: noeta tasks list"


@pytest.mark.parametrize("command", [["say", "hi"], ["answer", "yes"], ["event", "k"], ["cancel"], ["close"]])
def test_a_task_that_has_ended_takes_nothing(shell: Shell, command: list[str]) -> None:
    shell.create("t")
    shell.work(main=helper_agent())
    before = shell.done("show", "t")
    name, *rest = command
    said = shell.tasks(name, "t", *rest)

    assert said.code == FAILED
    assert said.refusal.startswith(("noeta: t has ended", "noeta: t completed: nothing more will happen to it"))
    assert shell.done("show", "t") == before


def test_a_message_is_heard_once_however_often_its_id_comes(shell: Shell) -> None:
    shell.create("t", "main", "--interactive")
    chat = engine(Model((says("hello"), says("again"), says("and again"))))
    shell.work(main=chat)

    assert shell.done("say", "t", "hi", "--message-id", "m1")[0] == "t has the message as item 1: it may go on now"
    repeated = "message id m1 has this text already: nothing changed"
    assert shell.done("say", "t", "hi", "--message-id", "m1")[0] == repeated
    shell.work(main=chat)
    assert shell.done("say", "t", "hi", "--message-id", "m1")[0] == repeated, "also after it was taken"
    assert shell.done("say", "t", "hi")[0] == "t has the message as item 2: it may go on now", "a fresh id each time"


def test_the_question_a_task_waits_on_is_answered_without_its_handle_and_once(shell: Shell) -> None:
    shell.create()
    agent = main_agent(asks_person("Shall we?"))
    shell.work(main=agent)

    assert shell.done("answer", "t", "yes")[0] == "t has the answer as item 1: it may go on now"
    second = shell.done("answer", "t", "yes", "--handle", "question:t:3-0")
    shell.work(main=agent)

    assert second[0] == "question:t:3-0 has this answer already: nothing changed"
    finished = [one["event"] for one in shell.json("show", "t")["log"] if one["event"]["type"] == "ToolFinished"]
    assert [one["output"] for one in finished] == ["yes"]


def test_of_several_questions_one_must_be_chosen(shell: Shell) -> None:
    shell.create()
    two = calls(("AskUser", {"question": "This?"}), ("AskUser", {"question": "Or that?"}))
    shell.work(main=main_agent(two))
    said = shell.tasks("answer", "t", "yes")

    assert said.code == FAILED
    assert said.refusal == (
        'noeta: t asks 2 questions; choose with --handle: question:t:3-0 ("This?"), question:t:3-1 ("Or that?")'
    )
    assert shell.done("answer", "t", "that", "--handle", "question:t:3-1")[0].startswith("t has the answer as item 1")


def test_a_question_behind_another_wait_is_found(shell: Shell) -> None:
    """The row names what the task waits for first; the question is the second call's."""
    shell.create()
    both = calls(("WaitForEvent", {"event_kind": "paid"}), ("AskUser", {"question": "Shall we?"}))
    shell.work(main=main_agent(both))

    assert shell.json("show", "t")["task"]["waits_for"] == "the event paid"
    assert shell.done("answer", "t", "yes")[0].startswith("t has the answer as item 1")


def test_a_task_that_asks_nothing_says_what_it_waits_for(shell: Shell) -> None:
    shell.create()
    shell.work(main=main_agent(asks_event("paid")))
    said = shell.tasks("answer", "t", "yes")

    assert said.code == FAILED
    assert said.refusal == (
        "noeta: t asks nothing, it waits for the event paid; say something instead: noeta tasks say t TEXT"
    )


def test_an_answer_may_come_before_its_question(shell: Shell) -> None:
    shell.create()
    early = shell.done("answer", "t", "yes", "--handle", "question:t:3-0")
    shell.work(main=main_agent(asks_person()))

    assert early[-1] == "note: it does not ask question:t:3-0 now; the answer is kept until it does"
    assert shell.json("show", "t")["task"]["status"] == "terminal"


def test_an_event_ends_the_wait_for_its_kind_with_its_payload(shell: Shell) -> None:
    shell.create()
    agent = main_agent(asks_event("paid"))
    shell.work(main=agent)

    assert (
        shell.done("event", "t", "other")[0] == "t has the event other as item 1: it is read when the task comes to it"
    )
    assert shell.done("event", "t", "paid", "--payload", '{"cents": 5}', "--event-id", "p1")[0].endswith(
        "as item 2: it may go on now"
    )
    again = shell.done("event", "t", "paid", "--payload", '{"cents":5}', "--event-id", "p1")
    assert again[0] == "event id p1 has this payload already: nothing changed"
    shell.work(main=agent)
    finished = [one["event"] for one in shell.json("show", "t")["log"] if one["event"]["type"] == "ToolFinished"]
    assert [one["output"] for one in finished] == ['{"cents":5}']


def test_a_cancel_ends_a_waiting_task_at_once_and_its_children_next(shell: Shell) -> None:
    shell.create()
    agents = {"main": main_agent(delegates("helper")), "helper": main_agent(asks_event("never"))}
    shell.work(**agents)
    done = shell.done("cancel", "t", "--reason", "no longer needed")
    shell.work(**agents)

    assert done[0] == "t has ended, with seq 7 of its log"
    tasks = {task["id"]: task["waits_for"] for task in shell.json("list")["tasks"]}
    assert tasks == {
        "t": 'nothing: it was cancelled: "no longer needed"',
        "t.3-0.1": 'nothing: it was cancelled: "its parent has ended"',
    }


def test_a_running_task_gets_the_order_to_end(shell: Shell) -> None:
    from noeta.backends.open import open_store

    shell.create()
    store = open_store(shell.store)
    store.claim("w1", None, 60.0)
    store.close()

    assert shell.done("cancel", "t")[0] == "t is being run and has the order as item 1: its worker ends it soon"
    shell.work(main=helper_agent())
    assert shell.json("show", "t")["unread"][0]["item"]["action"] == "cancel"


def test_a_close_stops_the_turn_and_leaves_the_conversation(shell: Shell) -> None:
    shell.create("t", "main", "--interactive")
    agent = main_agent(asks_person())
    shell.work(main=agent)
    done = shell.done("close", "t", "--reason", "enough")
    shell.work(main=agent)

    assert done[0] == "t has the order as item 1: a worker may act on it now"
    assert shell.json("show", "t")["task"]["waits_for"] == "a message"
    assert shell.done("show", "t")[-1] == "say something: noeta tasks say t TEXT"


def test_a_store_that_cannot_be_asked_is_one_line_and_a_code_of_its_own(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = Shell("postgresql://127.0.0.1:1/none", capsys)
    said = nobody.tasks("say", "t", "hi")

    assert said.code == UNREACHABLE
    assert said.refusal.startswith("noeta: the store cannot be asked, nothing was written; try again: ")
