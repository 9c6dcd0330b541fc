"""The provider answers from the request alone, and refuses what no correct runtime would ask."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

import msgspec
import pytest

from noeta.core import codec, texts
from noeta.core.model import CallMade, ModelReply, ModelRequest, ModelSaid, ProviderError, Said, ToolAnswered, UserSaid
from scripted_model.app import SYSTEM
from scripted_model.generate import workload
from scripted_model.journal import JournalBook, MemoryJournal
from scripted_model.provider import ScriptedProvider
from scripted_model.script import (
    Agent,
    AgentGroup,
    Arguments,
    Asked,
    AwaitEvent,
    Call,
    Cut,
    Empty,
    Fail,
    Handback,
    Kill,
    Odd,
    Question,
    Say,
    Script,
    Step,
    Timer,
    Tools,
    Turn,
    asking,
    to_goal,
)
from scripted_model.words import ODD_TEXTS
from scripted_model.workload import AGENT
from tests.unit.scripted_model.driving import Died, FakeRuntime, die, escape_all, politely

ASKS_AGAIN = """
import sys, msgspec
from noeta.core.model import ModelRequest
from scripted_model.provider import ScriptedProvider
request = msgspec.json.decode(sys.stdin.buffer.read(), type=ModelRequest)
sys.stdout.buffer.write(msgspec.json.encode(ScriptedProvider().call(request, attempt=1)))
"""


def script_of(*turns: Iterable[Step], interactive: bool = False) -> Script:
    return Script("t1", "test", tuple(Turn(tuple(steps)) for steps in turns), interactive)


def call(tag: str, tool: str = "plain") -> Call:
    return Call(tool, Arguments(tag))


def request(script: Script, *said: Said) -> ModelRequest:
    return ModelRequest(AGENT, SYSTEM, (), (UserSaid(to_goal(script)), *said))


def ask(script: Script, *said: Said, attempt: int = 1) -> ModelReply:
    return ScriptedProvider(die, pause=lambda seconds: None).call(request(script, *said), attempt=attempt)


def said_as(reply: ModelReply, seq: int = 3) -> ModelSaid:
    calls = tuple(CallMade(f"{seq}-{i}", c.tool, escape_all(c.input)) for i, c in enumerate(reply.calls))
    return ModelSaid(codec.escape_text(reply.text), calls)


def test_the_same_request_gets_the_same_bytes_from_any_instance_and_process() -> None:
    """Every request of a whole workload, from new instances; some of them from another process."""
    asked: list[ModelRequest] = []
    for task in workload(11, 20).tasks:
        run = FakeRuntime(task, [], lambda where, left: 0)
        run.said.append(UserSaid(task.goal))
        run._turn()
        replies = [i for i, entry in enumerate(run.said) if isinstance(entry, ModelSaid)]
        asked += [ModelRequest(AGENT, SYSTEM, (), tuple(run.said[:index])) for index in replies]

    def answer(one: ModelRequest) -> ModelReply:
        for attempt in range(1, 10):
            try:
                return ScriptedProvider(die, pause=lambda seconds: None).call(one, attempt=attempt)
            except ProviderError:
                continue
        raise AssertionError("no attempt is answered")

    assert len(asked) > 40
    assert [answer(one) for one in asked] == [answer(one) for one in asked]
    small = [one for one in asked if len(one.said) == 3 and "plain" in str(one.said[1])][:2]
    for one in small:
        done = subprocess.run(
            [sys.executable, "-c", ASKS_AGAIN], input=one.canonical(), capture_output=True, check=True
        )
        assert msgspec.json.decode(done.stdout, type=ModelReply) == answer(one)


def test_failures_pass_after_their_number_of_attempts_and_start_anew_after_a_takeover() -> None:
    script = script_of([Fail(2), Say()])

    for attempt in (1, 2, 1, 2):
        with pytest.raises(ProviderError) as failed:
            ask(script, attempt=attempt)
        assert failed.value.retryable
    assert ask(script, attempt=3).text.startswith("t1 turn 1 step 1 answers ")


def test_failures_for_ever_never_pass_and_may_forbid_a_retry() -> None:
    for retryable in (True, False):
        with pytest.raises(ProviderError) as failed:
            ask(script_of([Fail(None, retryable)]), attempt=100)
        assert failed.value.retryable is retryable


def test_a_killing_call_announces_the_death_and_dies_every_time() -> None:
    book = JournalBook()
    provider = ScriptedProvider(die, journal=MemoryJournal(book, "w1", lambda: 5.0, 17))

    for _ in range(3):
        with pytest.raises(Died):
            provider.call(request(script_of([Kill()])), attempt=1)
    assert [(d.task, d.call, d.worker, d.pid, d.time) for d in book.deaths] == [("t1", "", "w1", 17, 5.0)] * 3


def test_a_die_that_returns_is_a_programmer_error() -> None:
    with pytest.raises(AssertionError, match="should be dead"):
        ScriptedProvider(lambda: None).call(request(script_of([Kill()])), attempt=1)


def test_cut_and_empty_replies_are_given_their_number_of_times() -> None:
    script = script_of([Cut(2), Tools((call("a"),)), Empty(1), Say()])
    go_on = UserSaid(texts.CONTINUE_TRUNCATED)
    first = ask(script)
    second = ask(script, said_as(first), go_on)
    third = ask(script, said_as(first), go_on, said_as(second), go_on)
    said: list[Said] = [
        said_as(first),
        go_on,
        said_as(second),
        go_on,
        said_as(third),
        ToolAnswered("3-0", "unknown", True),
    ]
    fourth = ask(script, *said)
    last = ask(script, *said, said_as(fourth))

    assert (first.stop, second.stop, third.stop) == ("max_tokens", "max_tokens", "tool_use")
    assert first.text != second.text
    assert fourth == ModelReply()
    assert (last.stop, last.calls) == ("end", ())


def test_a_note_after_the_end_gets_the_answer_again() -> None:
    script = script_of([Say()], [Say()], interactive=True)
    answer = ask(script)

    assert ask(script, said_as(answer), UserSaid("note 1: hello")) == answer
    assert ask(script, said_as(answer), UserSaid("turn 3: of no such turn")) == answer
    following = ask(script, said_as(answer), UserSaid("note 1: hello"), UserSaid("turn 2: go on"))
    assert following.text.startswith("t1 turn 2 ")


def test_a_turn_that_fails_stays_failed_until_the_next_turns_message_comes() -> None:
    script = script_of([Fail()], [Cut()], [Say()], interactive=True)

    with pytest.raises(ProviderError):
        ask(script, UserSaid("note 1: hello"))
    cut = ask(script, UserSaid("turn 2: go on"))
    assert cut.stop == "max_tokens"
    for continued in (True, False):
        go_on = [UserSaid(texts.CONTINUE_TRUNCATED)] if continued else []
        said: list[Said] = [UserSaid("turn 2: go on"), said_as(cut), *go_on]
        assert ask(script, *said, UserSaid("note 2: hello")).stop == "max_tokens"
        assert ask(script, *said, UserSaid("turn 3: go on")).text.startswith("t1 turn 3 ")


def test_the_model_speaks_odd_text_raw_and_expects_it_escaped_in_the_log() -> None:
    calls = tuple(Call("plain", Arguments(odd.value, odd=odd)) for odd in Odd)
    script = script_of([Tools(calls), Say(odd=Odd.SURROGATE)])
    reply = ask(script)
    results = [ToolAnswered(f"3-{index}", "done") for index in range(len(calls))]

    assert [c.input["text"] for c in reply.calls] == [ODD_TEXTS[odd] for odd in Odd]
    assert [c.provider_id for c in reply.calls] == [f"call_{index}" for index in range(len(calls))]
    assert ODD_TEXTS[Odd.SURROGATE] in ask(script, said_as(reply), *results).text


CHILD = Script("t1/1", "child", (Turn((Say(),)),))
OTHER = Script("t1/2", "child", (Turn((Say(),)),))


@pytest.mark.parametrize(
    ("asked", "tool", "written"),
    [
        (Agent(CHILD), "Agent", {"agent": AGENT, "prompt": to_goal(CHILD), "background": False}),
        (Agent(CHILD, background=True), "Agent", {"agent": AGENT, "prompt": to_goal(CHILD), "background": True}),
        (
            AgentGroup((CHILD, OTHER)),
            "AgentGroup",
            {"members": [{"agent": AGENT, "prompt": to_goal(CHILD)}, {"agent": AGENT, "prompt": to_goal(OTHER)}]},
        ),
        (Handback("all is well"), "SubagentHandback", {"report": "all is well"}),
        (Timer(1.5), "ScheduleWakeup", {"delay_seconds": 1.5, "reason": "as scripted"}),
        (Question("which?"), "AskUser", {"question": "which?"}),
        (
            Question("which?", 2.0, Odd.NUL),
            "AskUser",
            {"question": f"which? {ODD_TEXTS[Odd.NUL]}", "timeout_seconds": 2.0},
        ),
        (AwaitEvent("news"), "WaitForEvent", {"event_kind": "news"}),
        (AwaitEvent("news", 2.0), "WaitForEvent", {"event_kind": "news", "timeout_seconds": 2.0}),
    ],
)
def test_a_call_that_waits_or_delegates_is_written_as_its_tool_reads_it(
    asked: Asked, tool: str, written: dict[str, object]
) -> None:
    script = script_of([Tools((asking("a", asked), call("b"))), Say()])
    reply = ask(script)

    assert (reply.calls[0].tool, reply.calls[0].input) == (tool, written)
    for output, is_error in (("done", False), ("Nothing came within the time limit.", True)):
        said: list[Said] = [said_as(reply), ToolAnswered("3-1", "done"), ToolAnswered("3-0", output, is_error)]
        assert ask(script, *said) == ask(script, said_as(reply), A, B)
    with pytest.raises(ProviderError, match="must call"):
        ask(script, ModelSaid(reply.text, (CallMade("3-0", tool, {}), *said_as(reply).calls[1:])), A, B)


def test_a_sub_agent_plays_the_script_it_is_prompted_with() -> None:
    prompt = ask(script_of([Tools((asking("a", Agent(CHILD)),)), Say()])).calls[0].input["prompt"]
    asked = ModelRequest(AGENT, SYSTEM, (), (UserSaid(prompt),))

    assert ScriptedProvider(die).call(asked, attempt=1) == ask(CHILD)


def test_a_turn_that_was_closed_in_its_middle_is_finished_by_the_next_and_loses_its_answer_only() -> None:
    first, then = Tools((call("a"), call("b"))), Tools((call("c"),))
    script = script_of([first, then, Say()], [Tools((call("d"),)), Say()], interactive=True)
    closed: list[Said] = [said_as(ask(script)), A, ToolAnswered("3-1", texts.TURN_ENDED_FIRST, True)]
    second = ask(script, *closed, UserSaid("turn 2: go on"))
    said: list[Said] = [*closed, UserSaid("turn 2: go on"), said_as(second, 5), ToolAnswered("5-0", "done")]
    third = ask(script, *said)

    assert [one.input["tag"] for one in second.calls] == ["c"]
    assert [one.input["tag"] for one in third.calls] == ["d"]


def test_answers_differ_by_script_and_position() -> None:
    one = ask(script_of([Say()])).text
    other = ask(Script("t1", "other", (Turn((Say(),)),))).text
    longer = ask(script_of([Say(chars=5_000)])).text

    assert one != other
    assert re.fullmatch(r"t1 turn 1 step 0 answers [0-9a-f]{16}", one)
    assert len(longer) == 5_000


TWO_CALLS = script_of([Tools((call("a"), call("b", "retry_safe"))), Say()])
ASKED = said_as(ask(TWO_CALLS))
A, B = ToolAnswered("3-0", "done"), ToolAnswered("3-1", "done")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param([ASKED, A], "must be answered", id="a call is not answered"),
        pytest.param([ASKED, A, B, B], "not open", id="a call is answered twice"),
        pytest.param([ASKED, A, B, ToolAnswered("9-0", "")], "not open", id="an answer to nothing"),
        pytest.param([A], "not open", id="the reply is lost"),
        pytest.param([ASKED, A, B, ASKED, A, B], "must say", id="the reply is doubled"),
        pytest.param([ModelSaid(ASKED.text, ASKED.calls[::-1]), A, B], "must call", id="calls are reordered"),
        pytest.param([ModelSaid(ASKED.text)], "must call", id="calls are lost"),
        pytest.param([ModelSaid("", ASKED.calls), A, B], "must say", id="the text is lost"),
    ],
)
def test_a_conversation_off_the_course_is_refused_for_good(said: list[Said], problem: str) -> None:
    with pytest.raises(ProviderError, match=problem) as refused:
        ask(TWO_CALLS, *said)

    assert not refused.value.retryable


def test_notes_between_a_call_and_its_result_do_not_matter() -> None:
    plain = ask(TWO_CALLS, ASKED, A, B)

    assert ask(TWO_CALLS, UserSaid("note 1: x"), ASKED, B, UserSaid("note 2: x"), A, UserSaid("hi")) == plain


@pytest.mark.parametrize("goal", ["", "hello", "{}", "[]", '{"task":"t","kind":"k","turns":[]}', "\ud800"])
def test_a_goal_that_is_no_script_is_refused_for_good(goal: str) -> None:
    with pytest.raises(ProviderError, match="refused") as refused:
        ScriptedProvider(die).call(ModelRequest(AGENT, SYSTEM, (), (UserSaid(goal),)), attempt=1)

    assert not refused.value.retryable


def test_a_request_without_a_goal_is_refused_for_good() -> None:
    for said in ((), (ModelSaid("x"),)):
        with pytest.raises(ProviderError, match="begins with the goal"):
            ScriptedProvider(die).call(ModelRequest(AGENT, SYSTEM, (), said), attempt=1)


def test_the_model_takes_the_time_its_script_says() -> None:
    paused: list[float] = []
    script = Script("t1", "test", (Turn((Say(),)),), think_seconds=0.25)
    ScriptedProvider(die, paused.append).call(request(script), attempt=1)

    assert paused == [0.25]


def test_politely_driven_tasks_take_all_their_messages() -> None:
    load = workload(2, 20)
    for task in load.tasks:
        run = FakeRuntime(task, list(load.messages_of(task.id)), politely)
        run.run()
        said = [entry.text for entry in run.said if isinstance(entry, UserSaid)]

        told = [message for message in load.messages_of(task.id) if message.kind in ("turn", "note")]
        assert all(said.count(message.text) == 1 for message in told)
