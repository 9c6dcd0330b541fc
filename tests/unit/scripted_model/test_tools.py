"""Each tool has its one effect per start, and the trouble its name promises around it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noeta.core.codec import escape_text
from noeta.core.retry import RetryPolicy
from noeta.core.tool import Recovers, StepCancelled, Tool
from noeta.plugins import waiting_tools
from noeta.plugins.cron import CronCreate, CronDelete
from noeta.plugins.shell import shell_tools
from scripted_model.app import SYSTEM, make_engine
from scripted_model.course import input_of
from scripted_model.journal import JournalBook, MemoryJournal, read_journal
from scripted_model.script import SUBTASK_DEPTH_MAX, TOOL_OF, TOOLS, Arguments, Odd
from scripted_model.tools import InputDamaged, RecoverableTool, ScriptedFailure, ScriptedTool, make_tools
from scripted_model.words import ODD_TEXTS
from scripted_model.workload import AGENT
from tests.unit.scripted_model.driving import Died, FakeContext, die, escape_all

KILLS_ITSELF = """
import sys
from pathlib import Path
from scripted_model import FileJournal, make_tools
sys.path.insert(0, ".")
from tests.unit.scripted_model.driving import FakeContext
tools = {tool.name: tool for tool in make_tools(FileJournal(Path(sys.argv[1]), "w1"))}
tools["killer"].run({"tag": "t#1", "dies_through_start": 1, "dies": sys.argv[2]}, FakeContext("t", "3-0"))
print("survived")
"""


@pytest.fixture
def book() -> JournalBook:
    return JournalBook()


@pytest.fixture
def tools(book: JournalBook) -> dict[str, ScriptedTool]:
    return {tool.name: tool for tool in make_tools(MemoryJournal(book, "w1", lambda: 0.0), die=die)}


def input_for(tool: str, **more: Any) -> Any:
    killer = {"dies_through_start": 1} if TOOLS[tool].dies else {}
    return {"tag": "t#1", **killer, **more}


def test_every_tool_says_what_it_promises_and_only_some_can_recover(tools: dict[str, ScriptedTool]) -> None:
    assert {name for name, tool in tools.items() if tool.flags.retry_safe} == {
        "retry_safe",
        "slow_retry_safe",
        "killer_retry_safe",
    }
    assert {name for name, tool in tools.items() if isinstance(tool, Recovers)} == {
        "recoverable",
        "killer_recoverable",
    }


@pytest.mark.parametrize("name", [name for name, spec in TOOLS.items() if not spec.fails])
def test_a_start_journals_its_token_once_between_its_two_points(
    name: str, tools: dict[str, ScriptedTool], book: JournalBook
) -> None:
    context = FakeContext("t", "3-0", start=2)
    result = tools[name].run(input_for(name), context)

    assert (result.output, result.is_error) == (f"{name} t#1 done", False)
    assert [line.token for line in book.effects] == ["t:3-0:2"]
    assert [name for name, _ in context.points] == ["tool.before_journal", "tool.after_journal"]


@pytest.mark.parametrize("name", ["slow", "slow_retry_safe"])
def test_slow_tools_wait_before_their_effect_and_have_none_when_stopped(
    name: str, tools: dict[str, ScriptedTool], book: JournalBook
) -> None:
    stopped = FakeContext("t", "3-0", stops_waits=True)
    with pytest.raises(StepCancelled):
        tools[name].run(input_for(name, seconds=1.5), stopped)
    assert (stopped.waited, stopped.points, book.effects) == ([1.5], [], [])

    tools[name].run(input_for(name, seconds=1.5), FakeContext("t", "3-0", start=2))
    assert [line.start for line in book.effects] == [2]


def test_failing_raises_after_its_effect(tools: dict[str, ScriptedTool], book: JournalBook) -> None:
    with pytest.raises(ScriptedFailure, match="t#1 fails as scripted"):
        tools["failing"].run(input_for("failing"), FakeContext("t", "3-0"))
    assert len(book.effects) == 1


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_killer_dies_through_its_start_on_the_side_of_the_line_it_was_told(
    dies: str, tools: dict[str, ScriptedTool], book: JournalBook
) -> None:
    asked = {"tag": "t#1", "dies_through_start": 2, "dies": dies}
    for start in (1, 2):
        with pytest.raises(Died):
            tools["killer_retry_safe"].run(asked, FakeContext("t", "3-0", start))
    tools["killer_retry_safe"].run(asked, FakeContext("t", "3-0", 3))

    assert [line.start for line in book.effects] == ([1, 2, 3] if dies == "after" else [3])
    assert [(death.call, death.start) for death in book.deaths] == [("3-0", 1), ("3-0", 2)]


@pytest.mark.parametrize(("dies", "effects"), [("before", 0), ("after", 1)])
def test_a_real_killer_takes_its_process_along_and_leaves_its_lines(dies: str, effects: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLS_ITSELF, str(tmp_path), dies], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (-9, "")
    contents = read_journal(tmp_path)
    assert (len(contents.effects), len(contents.deaths), contents.torn) == (effects, 1, 0)


def test_recover_answers_what_the_run_answered_and_nothing_without_a_line(
    tools: dict[str, ScriptedTool], book: JournalBook
) -> None:
    tool = tools["recoverable"]
    assert isinstance(tool, RecoverableTool)
    asked = input_for("recoverable", chars=300)

    assert tool.recover(asked, FakeContext("t", "3-0")) is None
    ran = tool.run(asked, FakeContext("t", "3-0"))
    assert tool.recover(asked, FakeContext("t", "3-0")) == ran
    assert tool.recover(asked, FakeContext("t", "3-1")) is None
    assert len(book.effects) == 1


@pytest.mark.parametrize("odd", list(Odd))
def test_odd_input_must_arrive_escaped_and_whole(odd: Odd, tools: dict[str, ScriptedTool], book: JournalBook) -> None:
    written = input_of(Arguments("t#1", odd=odd))
    result = tools["plain"].run(escape_all(written), FakeContext("t", "3-0"))
    assert result.output == f"plain t#1 done {ODD_TEXTS[odd]}"

    damaged = {**written, "text": escape_text(written["text"]) + "?"}
    with pytest.raises(InputDamaged, match="expected the text"):
        tools["plain"].run(damaged, FakeContext("t", "4-0"))
    assert len(book.effects) == 1


@pytest.mark.parametrize("asked", [None, [], {}, "x", {"tag": 1}, {"tag": "t", "other": 1}, {"tag": "t", "odd": "?"}])
def test_input_that_is_no_arguments_is_refused_without_effect(
    asked: Any, tools: dict[str, ScriptedTool], book: JournalBook
) -> None:
    with pytest.raises(InputDamaged):
        tools["plain"].run(asked, FakeContext("t", "3-0"))
    assert book.effects == []


@pytest.mark.parametrize("chars", [0, 10, 1_000, 1_000_000])
def test_big_output_is_as_long_as_asked(chars: int, tools: dict[str, ScriptedTool]) -> None:
    output = tools["big_output"].run(input_for("big_output", chars=chars), FakeContext("t", "3-0")).output

    assert len(output) == max(chars, len("big_output t#1 done"))


def test_an_engine_has_provider_and_every_tool_on_one_journal(book: JournalBook) -> None:
    engine = make_engine(
        MemoryJournal(book, "w1", lambda: 0.0), retry=RetryPolicy(2), die=die, pause=lambda seconds: None
    )
    engine.tools["plain"].run(input_for("plain"), FakeContext("t", "3-0"))

    assert (engine.agent, engine.system, engine.retry.max_attempts) == (AGENT, SYSTEM, 2)
    assert list(engine.tools) == list(TOOLS)
    assert len(book.effects) == 1


def test_an_engine_is_given_the_callers_tools_and_how_deep_sub_agents_may_delegate(book: JournalBook) -> None:
    journal = MemoryJournal(book, "w1", lambda: 0.0)
    crons: tuple[Tool, ...] = (CronCreate(), CronDelete())
    tools: dict[str, Tool] = {**waiting_tools(), **shell_tools(), **{tool.name: tool for tool in crons}}
    engine = make_engine(journal, retry=RetryPolicy(2), more_tools=tools.values(), max_subtask_depth=1)

    assert set(tools) == set(TOOL_OF.values())
    assert set(engine.tools) == {*TOOLS, *TOOL_OF.values()}
    assert engine.max_subtask_depth == 1
    assert make_engine(journal, retry=RetryPolicy(2)).max_subtask_depth == SUBTASK_DEPTH_MAX
