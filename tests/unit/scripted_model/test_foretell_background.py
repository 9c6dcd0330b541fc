"""What is foretold of tasks that work in the background, are gated or parked, and what clients say to them."""

from __future__ import annotations

import pytest

from noeta.core.gates import Allow, Ask, Decision, Deny, GatedCall
from noeta.core.model import CallMade, ModelSaid, Said, ToolAnswered, UserSaid
from noeta.core.task import Status
from noeta.core.texts import APPROVE, OUTCOME_UNKNOWN
from noeta.core.tool import ToolFlags
from noeta.core.wake import NEXT_GOAL, HumanResponseReceived
from scripted_model.course import OffCourse, asked_input, locate, reply_at
from scripted_model.foretell import Foretold, foretell
from scripted_model.foretold import ForetoldCron, ForetoldJob
from scripted_model.gate import DENIED, ScriptedGate
from scripted_model.script import (
    Agent,
    Arguments,
    Asked,
    Call,
    Cron,
    Gating,
    ReadJob,
    Say,
    Script,
    Shell,
    StopCron,
    StopJob,
    Timer,
    Tools,
    Turn,
    asking,
    to_goal,
)
from scripted_model.tools import InputDamaged, output_of, read_input
from scripted_model.words import turn_message
from scripted_model.workload import REFUSAL, ScheduledMessage, ScriptedTask, answer_for, go_on_for, is_due
from tests.unit.scripted_model.rows import row_of

SHELL = Shell(2, 1.0, exit_code=3)
ENDLESS = Shell(None, 1.0)
MINUTELY = Cron("* * * * *", "look around")


def task(*calls: Call, interactive: bool = False, parks: bool = False) -> ScriptedTask:
    steps = tuple(Tools((call,)) for call in calls)
    return ScriptedTask("t", Script("t", "test", (Turn((*steps, Say())),), interactive, parks=parks))


def gated(gate: Gating, tool: str = "plain", dies: int = 0) -> Call:
    return Call(tool, Arguments("t#1", gate=gate, dies_through_start=dies))


def decides(text: str, number: int = 1) -> ScheduledMessage:
    return ScheduledMessage("t", number, "decision", 1, text)


def ends(told: Foretold) -> list[tuple[str, bool | None, int]]:
    return [(call.source, call.is_error, call.starts) for call in told.calls]


@pytest.mark.parametrize(
    ("asked", "ending"),
    [
        (SHELL, ("ran", False, 1)),
        (ReadJob("s"), ("ran", None, 1)),
        (StopJob("s"), ("ran", None, 1)),
    ],
)
def test_each_call_ends_as_its_kind_does(asked: Asked, ending: tuple[str, bool | None, int]) -> None:
    told = foretell(task(asking("s", ENDLESS), asking("x", asked)))

    assert ends(told) == [("ran", False, 1), ending]
    assert (told.deaths, told.bounds) == (0, ())


def test_shells_and_crons_are_foretold_with_what_stops_them() -> None:
    told = foretell(
        task(
            asking("a", SHELL),
            asking("b", ENDLESS),
            asking("c", MINUTELY),
            asking("d", StopJob("b")),
            asking("e", StopCron("c")),
            interactive=True,
        )
    )

    assert told.jobs == (ForetoldJob("a", 1, 2, 3, is_stopped=False), ForetoldJob("b", 1, None, None, is_stopped=True))
    assert told.crons == (ForetoldCron("c", 1, "* * * * *", "UTC", is_removed=True),)


@pytest.mark.parametrize(
    ("one", "counted"),
    [
        (task(asking("a", SHELL)), True),
        (task(asking("a", SHELL), interactive=True), False),
        (task(asking("c", MINUTELY), asking("e", StopCron("c")), interactive=True), False),
        (task(asking("x", Timer(1.0)), interactive=True), True),
        (task(parks=True), False),
    ],
)
def test_turns_are_counted_unless_something_may_begin_one_or_park_the_task(one: ScriptedTask, counted: bool) -> None:
    assert foretell(one).turns_counted == counted


@pytest.mark.parametrize(
    ("gate", "says", "ending"),
    [
        ("deny", None, ("denied", True, 0)),
        ("rewrite", None, ("ran", False, 1)),
        ("approve", APPROVE, ("ran", False, 1)),
        ("approve_rewritten", APPROVE, ("ran", False, 1)),
        ("refuse", REFUSAL, ("denied", True, 0)),
    ],
)
def test_a_gated_call_ends_as_gate_and_people_say(
    gate: Gating, says: str | None, ending: tuple[str, bool | None, int]
) -> None:
    messages = [] if says is None else [decides(says)]

    assert ends(foretell(task(gated(gate)), messages)) == [ending]


@pytest.mark.parametrize(
    ("gate", "messages", "problem"),
    [
        ("approve", [], "nobody decides about t#1"),
        ("approve", [decides(REFUSAL)], "the script of t#1 says 'approve'"),
        ("refuse", [decides(APPROVE)], "the script of t#1 says 'refuse'"),
    ],
)
def test_a_decision_that_does_not_come_or_is_another_is_refused(
    gate: Gating, messages: list[ScheduledMessage], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        foretell(task(gated(gate)), messages)


@pytest.mark.parametrize(
    ("call", "ending", "deaths", "told_otherwise"),
    [
        (Call("killer", Arguments("t#1", dies_through_start=1)), ("parked", True, 1), 1, "unknown"),
        (Call("killer_retry_safe", Arguments("t#1", dies_through_start=2)), ("ran", False, 3), 2, "ran"),
        (Call("killer_retry_safe", Arguments("t#1", dies_through_start=3)), ("parked", True, 3), 3, "unknown"),
        (gated("approve", "killer_retry_safe", 1), ("parked", True, 1), 1, "ran"),
        (Call("killer_recoverable", Arguments("t#1", dies_through_start=1)), ("recovered", False, 1), 1, "recovered"),
        (
            Call("killer_recoverable", Arguments("t#1", dies_through_start=1, dies="before")),
            ("parked", True, 1),
            1,
            "unknown",
        ),
    ],
)
def test_a_call_of_unknown_outcome_parks_where_the_script_says_so(
    call: Call, ending: tuple[str, bool | None, int], deaths: int, told_otherwise: str
) -> None:
    messages = [] if call.arguments.gate is None else [decides(APPROVE)]
    told = foretell(task(call, parks=True), messages)

    assert (ends(told), told.deaths, told.may_be_parked) == ([ending], deaths, True)
    assert foretell(task(call), messages).calls[0].source == told_otherwise


# -- what the model says ---------------------------------------------------------------------------------------------


def said_so_far(one: ScriptedTask, job: str) -> list[Said]:
    """A shell was started by the call with this id, and has ended meanwhile."""
    reply = reply_at(one.script, locate(one.script, [UserSaid(one.goal)]))
    (call,) = reply.calls
    return [
        UserSaid(one.goal),
        ModelSaid(reply.text, (CallMade(job, call.tool, call.input),)),
        ToolAnswered(job, "started", False),
        UserSaid(f"Job {job} has ended."),
    ]


def test_a_call_about_a_shell_names_it_by_the_id_that_its_call_got() -> None:
    one = task(asking("s", ENDLESS), asking("r", ReadJob("s")))

    for job in ("3-0", "17-0"):
        said = said_so_far(one, job)
        (call,) = reply_at(one.script, locate(one.script, said)).calls
        assert (call.tool, call.input) == ("BashOutput", {"job": job})
        read = ModelSaid(reply_at(one.script, locate(one.script, said)).text, (CallMade("9-0", call.tool, call.input),))
        assert locate(one.script, [*said, read, ToolAnswered("9-0", "text", False)]).step == 2
        other = ModelSaid(read.text, (CallMade("9-0", call.tool, {"job": "1-0"}),))
        with pytest.raises(OffCourse, match="must call"):
            locate(one.script, [*said, other, ToolAnswered("9-0", "text", False)])


def test_what_is_asked_of_the_background_tools() -> None:
    ids = {"s": "3-0", "c": "5-0"}

    assert asked_input("k", StopJob("s"), ids) == {"job": "3-0"}
    assert asked_input("d", StopCron("c"), ids) == {"cron": "5-0"}
    assert asked_input("c", MINUTELY, ids) == {"expression": "* * * * *", "zone": "UTC", "prompt": "look around"}
    shell = asked_input("s", SHELL, ids)
    assert shell["background"] is True
    assert shell["command"].startswith("# scripted shell ")


def test_a_parked_task_that_goes_on_is_at_its_next_step() -> None:
    one = task(Call("killer", Arguments("t#1", dies_through_start=1)), Call("plain", Arguments("t#2")), parks=True)
    reply = reply_at(one.script, locate(one.script, [UserSaid(one.goal)]))
    said: list[Said] = [
        UserSaid(one.goal),
        ModelSaid(reply.text, (CallMade("3-0", "killer", reply.calls[0].input),)),
        ToolAnswered("3-0", OUTCOME_UNKNOWN, True),
        UserSaid("go on"),
    ]

    assert locate(one.script, said).step == 1


# -- the gate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "decision"),
    [
        (None, Allow()),
        ("deny", Deny(DENIED)),
        ("rewrite", Allow({"tag": "t#1", "gate": "rewrite", "rewritten": True})),
        ("approve", Ask("May plain t#1 run?")),
        ("refuse", Ask("May plain t#1 run?")),
        (
            "approve_rewritten",
            Ask("May plain t#1 run?", {"tag": "t#1", "gate": "approve_rewritten", "rewritten": True}),
        ),
    ],
)
def test_the_gate_says_what_the_call_says(gate: Gating | None, decision: Decision) -> None:
    given = {"tag": "t#1", **({} if gate is None else {"gate": gate})}
    call = GatedCall("t", "scripted", "3-0", "plain", given, ToolFlags())

    assert ScriptedGate().decide(call) == decision


def test_calls_to_the_callers_tools_may_start() -> None:
    call = GatedCall("t", "scripted", "3-0", "Agent", {"gate": "deny"}, ToolFlags())

    assert ScriptedGate().decide(call) == Allow()
    assert ScriptedGate().decide(GatedCall("t", "scripted", "3-0", "plain", "deny", ToolFlags())) == Allow()


def test_a_tool_runs_with_what_the_gate_made_of_its_call_and_with_nothing_else() -> None:
    rewritten = read_input({"tag": "t#1", "gate": "rewrite", "rewritten": True})

    assert output_of("plain", rewritten) == "plain t#1 done, as the gate rewrote it"
    assert output_of("plain", read_input({"tag": "t#1", "gate": "approve"})) == "plain t#1 done"
    for damaged in ({"tag": "t#1", "gate": "rewrite"}, {"tag": "t#1", "rewritten": True}):
        with pytest.raises(InputDamaged, match="found rewritten"):
            read_input(damaged)


# -- what clients say ------------------------------------------------------------------------------------------------


def test_a_decision_goes_to_the_call_that_waits_for_it() -> None:
    waits = row_of(Status.SUSPENDED, HumanResponseReceived("approval:t:3-0"))
    asked = row_of(Status.SUSPENDED, HumanResponseReceived("question:t:3-0"))
    message = decides(APPROVE)

    item = HumanResponseReceived("approval:t:3-0", APPROVE)
    assert message.post_for(waits) == (item, "human:approval:t:3-0:decision")
    assert message.post_for(asked) is None
    assert is_due(message, waits, (), set())
    assert not is_due(message, row_of(Status.RUNNING), (), set())
    with pytest.raises(ValueError, match="stands in the row"):
        _ = message.item


def test_whoever_is_asked_below_approves() -> None:
    waits = row_of(Status.SUSPENDED, HumanResponseReceived("approval:t.3-0.1:3-0"))

    assert answer_for(waits) == (
        HumanResponseReceived("approval:t.3-0.1:3-0", APPROVE),
        "human:approval:t.3-0.1:3-0:decision",
    )


def test_a_parked_task_is_told_to_go_on_once_for_each_park() -> None:
    rests = row_of(Status.SUSPENDED, HumanResponseReceived(NEXT_GOAL))
    told = go_on_for("t", rests)

    assert told is not None
    item, key = told
    assert isinstance(item, HumanResponseReceived)
    assert item.handle == NEXT_GOAL
    assert key.endswith(f"/{rests.last_seq}")
    assert go_on_for("t", row_of(Status.SUSPENDED, HumanResponseReceived("question:t:3-0"))) is None
    assert go_on_for("t", row_of(Status.RUNNING)) is None


def test_the_next_turn_is_due_although_a_cron_table_ends_the_rest() -> None:
    message = ScheduledMessage("t", 1, "turn", 2, turn_message(2, "t"))

    assert is_due(message, row_of(Status.SUSPENDED, HumanResponseReceived(NEXT_GOAL, timeout_at=9.0)), (), set())
    limited = row_of(Status.SUSPENDED, HumanResponseReceived("question:t:3-0", timeout_at=9.0))
    assert not is_due(message, limited, (), set())


def test_a_sub_agents_shell_is_its_own() -> None:
    child = Script("t/1", "child", (Turn((Tools((asking("s", ENDLESS),)), Say())),))

    assert foretell(task(asking("a", Agent(child)))).jobs == ()
    assert '"asks":"shell"' in to_goal(child)
