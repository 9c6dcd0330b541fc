"""Scripts that wait and delegate become smaller, too: with whom they delegate to, and with what is said to them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from invariants import Verdict
from noeta.chaos.schedule import AtPoint, Fault, Kind, Play, Schedule, Turn
from noeta.chaos.sim.as_pytest import as_pytest
from noeta.chaos.sim.cases import CASES
from noeta.chaos.sim.replay import replay
from noeta.chaos.sim.scripts import LEASE_SECONDS, call
from noeta.chaos.sim.shrink_order import size_of, strikes_in
from noeta.chaos.sim.shrink_scripts import edits, is_playable, renamed
from noeta.chaos.sim.story import story
from noeta.chaos.sim.waiting_scripts import WAITING_CASES, asks, said
from noeta.chaos.sim.watch import watch
from scripted_model.script import (
    Agent,
    AgentGroup,
    AwaitEvent,
    Call,
    Question,
    Say,
    Timer,
    Tools,
    calls_of,
    children_of,
    tree_of,
)
from scripted_model.script import Turn as ScriptTurn

change = msgspec.structs.replace


def schedule_of(case: str, *faults: Fault) -> Schedule:
    return Schedule("0", faults, play=CASES[case].cast().play)


def play_of(schedule: Schedule) -> Play:
    assert schedule.play is not None
    return schedule.play


def playable(play: Play) -> Iterator[Play]:
    return (edit for edit in edits(play) if is_playable(edit))


def own_calls(play: Play) -> list[Call]:
    """The calls of the first task itself."""
    return [one for _, one in calls_of(play.tasks[0].script)]


every_case = pytest.mark.parametrize("case", [case.name for case in WAITING_CASES])


# -- what is left out ----------------------------------------------------------------------------------------------


@every_case
def test_each_edit_is_smaller(case: str) -> None:
    schedule = schedule_of(case)

    smaller = [change(schedule, play=edit) for edit in edits(play_of(schedule))]

    assert smaller
    assert all(size_of(one) < size_of(schedule) for one in smaller)


@pytest.mark.slow
@every_case
def test_sound_code_plays_every_smaller_script(case: str) -> None:
    for edit in playable(play_of(schedule_of(case))):
        result = replay(Schedule("0", (), play=edit))

        assert result.verdict is Verdict.VALID, (edit, result.why())


def test_a_group_loses_a_member_and_becomes_one_sub_agent_and_then_none() -> None:
    play = CASES["group"].cast().play
    pair = next(edit for edit in playable(play) if [len(children_of(one)) for one in own_calls(edit)] == [2])
    single = next(edit for edit in playable(pair) if [len(children_of(one)) for one in own_calls(edit)] == [1])

    assert isinstance(own_calls(single)[0].asked, AgentGroup)
    after = [[type(one.asked) for one in own_calls(edit)] for edit in playable(single)]
    assert [Agent] in after
    assert [type(None)] in after


def test_a_task_may_do_itself_what_it_would_have_delegated() -> None:
    play = CASES["nested"].cast().play

    scripts = [edit.tasks[0].script for edit in playable(play)]

    (child,) = children_of(own_calls(play)[0])
    assert child.turns in [script.turns for script in scripts]
    assert min(len(list(tree_of(script))) for script in scripts) == 1


def test_what_a_sub_agent_does_becomes_less_too() -> None:
    play = CASES["agent"].cast().play

    left = [[child.turns[0].steps for one in own_calls(edit) for child in children_of(one)] for edit in playable(play)]

    assert [(Say(),)] in left


def test_a_question_goes_with_its_answer_and_an_event_with_what_waits_for_it() -> None:
    both = said(
        "both",
        ScriptTurn((asks(Question("one?")), asks(Question("two?"), AwaitEvent("built")), Say())),
        messages=({"kind": "answer"}, {"kind": "answer"}, {"kind": "event", "event_kind": "built", "when": "created"}),
    )

    left = {
        (tuple(type(one.asked) for one in own_calls(edit)), tuple(message.kind for message in edit.messages))
        for edit in playable(both.cast().play)
    }

    assert ((Question, AwaitEvent), ("answer", "event")) in left
    assert ((Question, Question), ("answer", "answer")) in left
    assert not [1 for asked, kinds in left if asked.count(Question) > kinds.count("answer")]


def test_no_answer_is_left_out_that_a_question_waits_for() -> None:
    play = CASES["question"].cast().play

    assert not is_playable(change(play, messages=()))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(2.5 * LEASE_SECONDS, {0.5 * LEASE_SECONDS}), (3.0, {0.5 * LEASE_SECONDS})]
)
def test_waits_become_short_and_round_and_never_nothing(seconds: float, expected: set[float]) -> None:
    play = said("timer", ScriptTurn((asks(Timer(seconds)), Say())), messages=()).cast().play

    waits = {one.asked.seconds for edit in playable(play) for one in own_calls(edit) if isinstance(one.asked, Timer)}

    assert waits == expected


def test_a_cancel_stays_when_a_turn_goes_and_a_close_goes_with_its_turn() -> None:
    turns = (ScriptTurn((Say(),)), ScriptTurn((Tools((call("plain"),)), Say())), ScriptTurn((Say(),)))
    messages = (
        {"kind": "turn", "turn": 2, "text": "turn 2: go on"},
        {"kind": "close", "turn": 2},
        {"kind": "turn", "turn": 3, "text": "turn 3: go on"},
        {"kind": "cancel", "turn": 3},
    )
    play = said("talk", *turns, messages=messages, is_interactive=True).cast().play

    fewer = [edit for edit in edits(play) if len(edit.tasks[0].script.turns) == 2]

    assert [[(one.kind, one.turn) for one in edit.messages] for edit in fewer] == [
        [("turn", 2), ("close", 2), ("cancel", 2)],
        [("turn", 2), ("cancel", 2)],
        [("close", 1), ("turn", 2), ("cancel", 2)],
    ]
    assert [is_playable(edit) for edit in fewer] == [False, True, True]


# -- names ---------------------------------------------------------------------------------------------------------


@every_case
def test_other_names_change_nothing_else(case: str) -> None:
    schedule = renamed(schedule_of(case))
    script = play_of(schedule).tasks[0].script

    assert [one.task for one in tree_of(script)][:2] == ["t1", "t1/1"][: len(list(tree_of(script)))]
    assert replay(schedule).verdict is Verdict.VALID


def test_a_switch_to_a_sub_agents_step_goes_with_its_name() -> None:
    schedule = schedule_of("agent")
    turns = (Turn("w1#1/step agent.3-0.1", 1, 0), Turn("w1#1/step agent", 2, 0), Turn("w1#1/loop", 1, 0))

    other = renamed(change(schedule, play=change(play_of(schedule), turns=turns)))

    told = [turn.activity for turn in play_of(other).turns]
    assert told == ["w1#1/step t1.3-0.1", "w1#1/step t1", "w1#1/loop"]


def test_a_fault_on_a_sub_agent_is_also_named_by_what_was_written_there() -> None:
    """Its id holds the place of the call, which moves when a step before it goes."""
    late = said(
        "late", ScriptTurn((Tools((call("plain"),)), *CASES["agent-fast"].tasks[0].script.turns[0].steps)), messages=()
    )
    where = {"task": "late.7-0.1", "events": "ModelReplied"}
    fault = Fault("f1", Kind.KILL, "w1", AtPoint("append.before", 1, "w1", where=where), {"respawn_seconds": 0.0})
    given = Schedule("0", (fault,), play=late.cast().play)
    (struck,) = watch(given).struck
    without = change(
        play_of(given), tasks=(change(play_of(given).tasks[0], script=CASES["agent-fast"].tasks[0].script),)
    )

    assert struck.is_below
    assert not strikes_in(replay(change(given, faults=(struck.by_anybody,), play=without)).schedule)
    (named,) = watch(change(given, faults=(struck.by_events,), play=without)).struck
    assert (named.passing.facts["events"], named.is_below) == (struck.passing.facts["events"], True)


# -- what is told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("timer", "sleep for 3 s, then answer"),
        ("question-timeout", "ask a person for at most 3 s, then answer"),
        ("event-early", "await 'built', then answer"),
        ("agent", "delegate (call plain, then answer), then answer"),
        ("handback", "delegate (report to its parent and call plain, then answer)"),
        ("background", "delegate in the background (call plain, then answer), then answer; in its next turn"),
        ("background-short", "a sub-agent below background-short, call plain, then answer"),
        ("group-beside", "delegate to a group (answer | answer) and call retry_safe"),
    ],
)
def test_a_story_says_what_is_waited_for_and_delegated(case: str, expected: str) -> None:
    lines = story(replay(schedule_of(case)))

    assert expected in lines[1]


def test_a_story_says_that_a_cancel_ended_the_task() -> None:
    text = "\n".join(story(replay(schedule_of("cancel-timer"))))

    assert "cancel-timer ended while nobody ran it, as epoch 2" in text
    assert "the client ordered cancel:cancel-timer/1 to cancel-timer: cancelled as number 1" in text
    assert "nobody took" not in text


def test_a_story_says_what_came_from_elsewhere() -> None:
    text = "\n".join(story(replay(schedule_of("agent"))))

    assert "suspended on child:agent.3-0.1" in text
    assert "item 1 is there for agent, by another task or by the clock" in text


@every_case
def test_a_printed_test_of_each_kind_can_be_read_again(case: str) -> None:
    compile(as_pytest(replay(schedule_of(case)).schedule, "wake-once"), "printed", "exec")
