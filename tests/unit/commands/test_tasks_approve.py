"""`noeta tasks approve | deny`, and how an open approval is shown, listed, and answered by other means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noeta.backends.stores.sqlite import SqliteStore
from noeta.cli import BAD_USAGE, FAILED
from noeta.commands.tasks import known
from noeta.core.gates import Allow, Ask, Decision, GatedCall
from noeta.core.runner import Engine
from noeta.core.store import Store
from noeta.plugins import waiting_tools
from noeta.testing.faults import Fault, FaultyStore, Kind
from tests.unit.commands.shell import Shell
from tests.unit.commands.test_tasks_hints import pasted
from tests.unit.runtime.gating import Notes, Says, agent
from tests.unit.runtime.machines import asks_event, asks_person, calls, main_agent

ME = "tests.unit.commands.test_tasks_approve"
APPROVAL = "approval:t:3-0"


class Limit:
    """Implements ``noeta.core.gates.Gate``: a person decides about more than five euros, of which cents are cut."""

    def decide(self, call: GatedCall) -> Decision:
        if call.tool != "pay" or call.input["euros"] <= 5:
            return Allow()
        return Ask(f"Pay {call.input['to']}?", {**call.input, "euros": int(call.input["euros"])})


def pays(ran: list[Any], *euros: float) -> Engine:
    """An agent that pays these sums at once, of which a gate asks about the large ones."""
    asked = [("pay", {"euros": one, "to": "Ada"}) for one in euros or (9.5,)]
    return agent(Limit(), asks=calls(*asked), tools=(Notes("pay", ran),))


def results(shell: Shell, id: str = "t") -> list[tuple[str, str]]:
    log = [one["event"] for one in shell.json("show", id)["log"]]
    return [(one["source"], one["output"]) for one in log if one["type"] == "ToolFinished"]


# -- deciding ----------------------------------------------------------------------------------------------


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
    ("first", "second"), [(["approve"], ["deny", "--reason", "no"]), (["deny", "--reason", "no"], ["approve"])]
)
def test_the_first_decision_counts(shell: Shell, first: list[str], second: list[str]) -> None:
    shell.create()
    ran: list[Any] = []
    shell.work(main=pays(ran))
    shell.done(first[0], "t", *first[1:])

    other = shell.tasks(second[0], "t", *second[1:])

    assert (other.code, other.refusal) == (
        FAILED,
        f"noeta: another answer is known under {APPROVAL}: yours was dropped",
    )
    shell.work(main=pays(ran))
    assert len(ran) == (first == ["approve"])


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


def test_a_decision_may_come_before_the_question(shell: Shell) -> None:
    shell.create()
    early = shell.done("approve", "t", "--handle", APPROVAL)
    ran: list[Any] = []
    shell.work(main=pays(ran))

    assert early[-1] == f"note: it does not ask {APPROVAL} now; the answer is kept until it does"
    assert len(ran) == 1


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
        f"noeta: t does not wait for {APPROVAL} any more: nothing was written",
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


# -- looking -----------------------------------------------------------------------------------------------


def test_an_open_approval_is_shown_with_what_would_run_and_how_to_decide(shell: Shell) -> None:
    shell.create()
    shell.work(main=pays([]))

    lines = shell.done("show", "t")

    asked = 'asks for approval: "Pay Ada?": pay {"euros": 9, "to": "Ada"} (handle approval:t:3-0)'
    assert asked in lines
    assert lines[-2:] == ["approve it: noeta tasks approve t", "deny it: noeta tasks deny --reason TEXT t"]
    assert shell.json("show", "t")["questions"] == [
        {
            "handle": APPROVAL,
            "call": "3-0",
            "question": "Pay Ada?",
            "approval": True,
            "tool": "pay",
            "input": {"euros": 9, "to": "Ada"},
        }
    ]


def test_a_long_input_is_cut_for_people_and_whole_for_machines(shell: Shell) -> None:
    shell.create()
    long = "x" * 5_000
    shell.work(main=agent(Says({"pay": Ask()}), asks=calls(("pay", {"to": long})), tools=(Notes("pay", []),)))

    (asked,) = [line for line in shell.done("show", "t") if line.startswith("asks for approval")]
    (listed,) = [line for line in shell.done("list") if line.startswith("t asks")]

    assert len(asked) < 300 and "more characters" in asked
    assert len(listed) < 400 and "more characters" in listed
    assert shell.json("show", "t")["questions"][0]["input"] == {"to": long}


@pytest.mark.parametrize("id", ["-dash", "it's", "line\nbreak"])
@pytest.mark.parametrize(("hint", "starts"), [(-2, 1), (-1, 0)])
def test_the_hints_can_be_pasted(shell: Shell, id: str, hint: int, starts: int) -> None:
    shell.done("create", "--agent", "main", "--goal", "x", "--", id)
    ran: list[Any] = []
    shell.work(main=pays(ran))

    done = pasted(shell, shell.done("show", "--", id)[hint], TEXT="no")
    shell.work(main=pays(ran))

    assert done[0].endswith("as item 1: it may go on now")
    assert len(ran) == starts


def test_two_open_approvals_are_decided_one_by_one_by_the_hints(shell: Shell) -> None:
    shell.create()
    ran: list[Any] = []
    agent = pays(ran, 9, 7)
    shell.work(main=agent)

    first = shell.done("show", "t")
    assert first[-2] == "approve it: noeta tasks approve --handle approval:t:3-0 t"
    pasted(shell, first[-2])
    shell.work(main=agent)
    second = shell.done("show", "t")
    assert second[-2] == "approve it: noeta tasks approve t"
    pasted(shell, second[-2])
    shell.work(main=agent)

    assert [call for call, _, _ in ran] == ["3-0", "3-1"]


def test_a_list_says_what_each_approval_is_about_and_how_to_decide(shell: Shell) -> None:
    shell.create("a")
    shell.work(main=pays([]))
    shell.create("b")
    shell.work(main=main_agent(asks_person()))

    lines = shell.done("list")

    (asked,) = [line for line in lines if line.startswith("a asks")]
    assert asked == (
        'a asks "Pay Ada?": pay {"euros": 9, "to": "Ada"}; '
        "approve it: noeta tasks approve --handle approval:a:3-0 a; "
        "deny it: noeta tasks deny --handle approval:a:3-0 --reason TEXT a"
    )
    assert not any(line.startswith("b asks") for line in lines)
    a, b = shell.json("list")["tasks"]
    assert (a["approval"]["question"], a["approval"]["input"], b["approval"]) == (
        "Pay Ada?",
        {"euros": 9, "to": "Ada"},
        None,
    )


def test_an_approval_behind_many_calls_is_still_found(shell: Shell) -> None:
    shell.create()
    shell.work(main=pays([], *[1] * 300, 9))

    assert shell.json("list")["tasks"][0]["approval"]["call"] == "3-300"


def test_tasks_are_listed_by_the_kind_of_their_wait(shell: Shell) -> None:
    agents = {
        "approval": pays([]),
        "question": main_agent(asks_person()),
        "message": main_agent(),
        "event": main_agent(asks_event("paid")),
    }
    for id, engine in agents.items():
        shell.create(id, "main", *(["--interactive"] if id == "message" else []))
        shell.work(main=engine)

    def listed(kind: str) -> set[str]:
        return {one["id"] for one in shell.json("list", "--waiting", kind)["tasks"]}

    assert listed("approval") == {"approval"}
    assert listed("answer") == {"approval", "question"}
    assert listed("person") == {"approval", "question", "message"}
    assert listed("any") == set(agents)
    assert listed("event") == {"event"}


# -- answering ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "starts"), [("approve", 1), ("yes, do", 0)])
def test_an_answer_decides_too_and_names_the_better_way(shell: Shell, words: str, starts: int) -> None:
    shell.create()
    ran: list[Any] = []
    shell.work(main=pays(ran))

    lines = shell.done("answer", "t", words)
    shell.work(main=pays(ran))

    assert lines[0] == "t has the answer as item 1: it may go on now"
    assert lines[-1] == (
        "note: it is an approval that was asked for, and nothing but 'approve' gives it; next time: "
        "noeta tasks approve --handle approval:t:3-0 t"
    )
    assert len(ran) == starts


def test_a_question_of_the_call_itself_is_still_answered(shell: Shell) -> None:
    """One approval, then the question of the tool that was approved."""
    shell.create()
    gated = agent(Says({"AskUser": Ask()}), asks=asks_person("Which?"), tools=tuple(_tools()))
    shell.work(main=gated)
    shell.done("approve", "t")
    shell.work(main=gated)

    assert 'asks: "Which?" (handle question:t:3-0)' in shell.done("show", "t")
    lines = shell.done("answer", "t", "this one")
    assert not any(line.startswith("note:") for line in lines)
    shell.work(main=gated)
    assert results(shell) == [("woken", "this one")]


def _tools() -> Iterator[Any]:
    yield from waiting_tools().values()
