"""How an open approval is shown and listed, and that no answer decides it."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.cli import BAD_USAGE, FAILED
from noeta.core.gates import Ask
from noeta.plugins import waiting_tools
from tests.unit.commands.paying import APPROVAL, pays, results
from tests.unit.commands.shell import Shell
from tests.unit.commands.test_tasks_hints import pasted
from tests.unit.runtime.gating import Notes, Says, agent
from tests.unit.runtime.machines import asks_event, asks_person, calls, main_agent

# -- looking -----------------------------------------------------------------------------------------------


def test_an_open_approval_is_shown_with_what_would_run_and_how_to_decide(shell: Shell) -> None:
    shell.create()
    shell.work(main=pays([]))

    lines = shell.done("show", "t")

    asked = 'asks for approval: "Pay Ada?": pay {"euros": 9, "to": "Ada"} (handle approval:t:3-0)'
    assert asked in lines
    assert lines[-2:] == [
        f"approve it: noeta tasks approve --handle {APPROVAL} t",
        f"deny it: noeta tasks deny --handle {APPROVAL} --reason TEXT t",
    ], "a hint that is pasted twice decides about no later call"
    assert shell.run("task", "t").lines[-2:] == lines[-2:], "a story ends with them, too"
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
    assert second[-2] == "approve it: noeta tasks approve --handle approval:t:3-1 t"
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


@pytest.mark.parametrize("words", ["approve", "Approve", "yes, do"])
@pytest.mark.parametrize("handle", [[], ["--handle", APPROVAL]])
def test_no_answer_decides_about_a_call(shell: Shell, words: str, handle: list[str]) -> None:
    """All but one word would deny it for good."""
    shell.create()
    shell.work(main=pays([]))

    said = shell.tasks("answer", "t", words, *handle)

    field = "--handle" if handle else "TEXT"
    assert (said.code, said.refusal) == (
        BAD_USAGE,
        (
            f"noeta: {field}: {APPROVAL} is an approval, and no answer decides it; "
            f"approve it: noeta tasks approve --handle {APPROVAL} t; "
            f"deny it: noeta tasks deny --handle {APPROVAL} --reason TEXT t"
        ),
    )
    assert shell.json("show", "t")["task"]["inbox_seq"] == 0


def test_beside_an_approval_a_question_is_chosen_by_its_handle(shell: Shell) -> None:
    shell.create()
    both = calls(("AskUser", {"question": "Which?"}), ("pay", {"to": "Ada"}))
    gated = agent(Says({"pay": Ask()}), asks=both, tools=(Notes("pay", []), *waiting_tools().values()))
    shell.work(main=gated)

    said = shell.tasks("answer", "t", "yes")

    assert (said.code, said.refusal) == (
        FAILED,
        'noeta: t asks 1 question and for 1 to be approved; choose with --handle: question:t:3-0 ("Which?")',
    )
    assert shell.done("answer", "t", "yes", "--handle", "question:t:3-0")[0].endswith("as item 1: it may go on now")


def test_a_question_of_the_call_itself_is_still_answered(shell: Shell) -> None:
    """One approval, then the question of the tool that was approved."""
    shell.create()
    gated = agent(Says({"AskUser": Ask()}), asks=asks_person("Which?"), tools=tuple(waiting_tools().values()))
    shell.work(main=gated)
    shell.done("approve", "t")
    shell.work(main=gated)

    assert 'asks: "Which?" (handle question:t:3-0)' in shell.done("show", "t")
    lines = shell.done("answer", "t", "this one")
    assert not any(line.startswith("note:") for line in lines)
    shell.work(main=gated)
    assert results(shell) == [("woken", "this one")]
