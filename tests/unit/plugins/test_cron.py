"""The cron tools: what they name, what they tell the model, and whom they refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from noeta.core.errors import BadInput
from noeta.core.limits import CRON_PROMPT_BYTES_MAX, CRONS_MAX
from noeta.core.tool import CronAsked, Recovers, Tool, ToolContext, ToolResult
from noeta.plugins.cron import PROMPT_CHARS_LISTED, CronCreate, CronDelete, CronList
from tests.unit.plugins.stage import Ctx

DAILY: dict[str, Any] = {"expression": "30 2 * * *", "zone": "Europe/Berlin", "prompt": "read the news"}
BEFORE_THE_GAP = 1_774_738_800.5  # 2026-03-29 00:00 in Berlin, and half a second; the clocks skip from 2 to 3


@dataclass(frozen=True)
class State:
    """Implements ``noeta.core.tool.CronState``."""

    expression: str = "0 9 * * 1-5"
    zone: str = "UTC"
    prompt: str = "good morning"
    last: float = 0.0


@dataclass(frozen=True)
class CronCtx(Ctx):
    started_at: float = BEFORE_THE_GAP
    interactive: bool = True


def test_a_new_cron_is_named_as_data_and_told_with_its_next_occurrence() -> None:
    """By the store's time of the start and the zone of the table, so that every repeat says and asks the same."""
    expected = ToolResult(
        "Cron 3-0 is set: 30 2 * * * in Europe/Berlin. It fires next at 2026-03-29T03:00:00+02:00.",
        crons=(CronAsked("30 2 * * *", "Europe/Berlin", "read the news"),),
    )

    assert CronCreate().run(DAILY, CronCtx()) == expected
    assert CronCreate().recover(DAILY, CronCtx(start=3)) == expected


def test_the_zone_is_utc_unless_it_is_given() -> None:
    made = CronCreate().run({"expression": " 0  0 * * * ", "prompt": "x"}, CronCtx(call_id="9-1"))

    assert made.output == "Cron 9-1 is set: 0 0 * * * in UTC. It fires next at 2026-03-29T00:00:00+00:00."
    assert made.crons == (CronAsked("0 0 * * *", "UTC", "x"),)


@pytest.mark.parametrize(
    ("ctx", "why"),
    [
        (CronCtx(parent_task_id="boss"), "delegated by 'boss'"),
        (CronCtx(interactive=False), "ends with its turn"),
        (CronCtx(crons={f"{n}-0": State() for n in range(CRONS_MAX)}), f"at most {CRONS_MAX} crons"),
    ],
)
def test_a_task_that_no_table_wakes_is_told_why(ctx: CronCtx, why: str) -> None:
    for make in (CronCreate().run, CronCreate().recover):
        with pytest.raises(BadInput, match=why):
            make(DAILY, ctx)


def test_the_last_free_place_of_a_table_can_be_taken() -> None:
    ctx = CronCtx(crons={f"{n}-0": State() for n in range(CRONS_MAX - 1)})

    assert len(CronCreate().run(DAILY, ctx).crons) == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"expression": "* * * * * *"}, "expression"),
        ({"expression": "0 0 30 2 *"}, "expression"),
        ({"expression": 5}, "expression"),
        ({"expression": ""}, "expression"),
        ({"zone": "Berlin"}, "zone"),
        ({"zone": ""}, "zone"),
        ({"zone": None}, "zone"),
        ({"zone": "../UTC"}, "zone"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "ä" * (CRON_PROMPT_BYTES_MAX // 2 + 1)}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"every": "day"}, "every"),
    ],
)
def test_a_bad_cron_is_refused_by_the_name_of_its_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput) as refused:
        CronCreate().run(DAILY | change, CronCtx())

    assert refused.value.field.startswith(named)


def test_a_prompt_may_be_as_long_as_the_limit() -> None:
    prompt = "x" * (CRON_PROMPT_BYTES_MAX - 2)  # encoded, it has quotation marks around it

    assert CronCreate().run(DAILY | {"prompt": prompt}, CronCtx()).crons[0].prompt == prompt


def test_a_cron_is_taken_away_by_its_id() -> None:
    ctx = CronCtx(crons={"3-0": State(), "5-1": State("30 2 * * *", "Europe/Berlin")})
    expected = ToolResult("Cron 5-1 is removed: 30 2 * * * in Europe/Berlin.", crons_removed=("5-1",))

    assert CronDelete().run({"cron": "5-1"}, ctx) == expected
    assert CronDelete().recover({"cron": "5-1"}, ctx) == expected


@pytest.mark.parametrize(
    ("input", "crons", "told"),
    [
        ({"cron": "4-0"}, {"3-0": State(), "5-1": State()}, "cron: no such cron in this task; there are 3-0, 5-1, "),
        ({"cron": "4-0"}, {}, "cron: no such cron in this task; there are none, found '4-0'"),
        ({}, {"3-0": State()}, "cron: expected a text"),
        ({"cron": 4}, {"3-0": State()}, "cron: expected a text"),
        ({"id": "3-0"}, {"3-0": State()}, "id: no such field"),
    ],
)
def test_what_is_not_there_cannot_be_taken_away(input: Any, crons: dict[str, State], told: str) -> None:
    with pytest.raises(BadInput) as refused:
        CronDelete().run(input, CronCtx(crons=crons))

    assert str(refused.value).startswith(told)


def test_the_list_tells_each_cron_with_its_next_occurrence() -> None:
    long = "word\n" * PROMPT_CHARS_LISTED
    crons = {
        "5-0": State("30 2 * * *", "Europe/Berlin", "two\n lines"),
        "3-0": State(prompt=long),
        "7-0": State(zone="Moon/Tycho"),  # a worker with newer zones made it
    }
    told = CronList().run({}, CronCtx(crons=crons)).output.splitlines()

    assert told[0] == "5-0: 30 2 * * * in Europe/Berlin, next at 2026-03-29T03:00:00+02:00: two lines"
    assert told[1].startswith("3-0: 0 9 * * 1-5 in UTC, next at 2026-03-30T09:00:00+00:00: word word ")
    assert told[1].endswith("…") and len(told[1].partition("00:00: ")[2]) == PROMPT_CHARS_LISTED
    assert told[2].startswith("7-0: 0 9 * * 1-5 in Moon/Tycho, next at an instant that this worker cannot tell (zone: ")
    assert len(told) == 3
    assert CronList().recover({}, CronCtx(crons=crons)).output.splitlines() == told


def test_an_empty_list_says_so_and_takes_no_input() -> None:
    assert CronList().run({}, CronCtx()) == ToolResult("There are no crons.")
    assert CronList().run({}, CronCtx(interactive=False)) == ToolResult("There are no crons.")
    refused: list[Any] = [{"all": True}, [], None]
    for input in refused:
        with pytest.raises(BadInput, match="without fields"):
            CronList().run(input, CronCtx())


def test_they_are_tools_that_run_again_after_a_crash() -> None:
    ctx: ToolContext = CronCtx()
    assert ctx.interactive
    tools: list[Tool] = [CronCreate(), CronDelete(), CronList()]
    for tool in tools:
        assert isinstance(tool, Recovers)
        assert tool.flags.retry_safe
        assert tool.name == type(tool).__name__
