"""The tools that wait: what they wait for, and every bad input refused by the name of its field."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest

from noeta.core.errors import BadInput
from noeta.core.limits import DELAY_SECONDS_MAX
from noeta.core.tool import Parked, Recovers, Tool
from noeta.core.wake import ExternalEvent, HumanResponseReceived, TimerFired
from noeta.plugins import AskUser, ScheduleWakeup, WaitForEvent, waiting_tools
from noeta.plugins.questions import question_handle
from tests.unit.plugins.stage import Ctx


def test_a_timer_counts_from_the_stores_time_of_the_start() -> None:
    """By nobody's own clock, so that whoever runs the call again asks for the same timer. Keeps: timers-once."""
    tool = ScheduleWakeup()

    assert tool.run({"delay_seconds": 90, "reason": "tea"}, Ctx()) == Parked(TimerFired(1_700_000_090.5))
    assert tool.recover({"delay_seconds": 90}, Ctx(start=3)) == tool.run({"delay_seconds": 90}, Ctx())
    assert tool.run({"delay_seconds": 0}, Ctx()) == Parked(TimerFired(1_700_000_000.5))


def test_a_timer_can_name_an_instant_with_its_offset() -> None:
    at = "2026-12-01T09:00:00+01:00"

    assert ScheduleWakeup().run({"at": at}, Ctx()) == Parked(TimerFired(datetime.fromisoformat(at).timestamp()))
    assert ScheduleWakeup().run({"at": "1970-01-01T00:00:10Z"}, Ctx()) == Parked(TimerFired(10.0))


@pytest.mark.parametrize(
    ("input", "field"),
    [
        ({}, "delay_seconds"),
        ({"delay_seconds": 1, "at": "2026-12-01T09:00:00Z"}, "delay_seconds"),
        ({"delay_seconds": math.nan}, "delay_seconds"),
        ({"delay_seconds": math.inf}, "delay_seconds"),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"delay_seconds": DELAY_SECONDS_MAX + 1}, "delay_seconds"),
        ({"delay_seconds": True}, "delay_seconds"),
        ({"delay_seconds": "90"}, "delay_seconds"),
        ({"at": "2026-12-01T09:00:00"}, "at"),
        ({"at": "2026-12-01"}, "at"),
        ({"at": "soon"}, "at"),
        ({"at": 1_700_000_000}, "at"),
        ({"delay_seconds": 1, "reason": 7}, "reason"),
        ({"delay": 1}, "delay"),
        ([1], "input"),
    ],
)
def test_a_bad_timer_is_refused_by_the_name_of_its_field(input: Any, field: str) -> None:
    """One without its offset from UTC is not read as local time: https://github.com/rq/rq-scheduler/issues/246"""
    with pytest.raises(BadInput) as refused:
        ScheduleWakeup().run(input, Ctx())

    assert refused.value.field == field


def test_a_question_has_a_handle_that_follows_from_its_call() -> None:
    handle = question_handle("t", "3-0")

    assert AskUser().run({"question": "which?"}, Ctx()) == Parked(HumanResponseReceived(handle))
    assert AskUser().recover({"question": "which?"}, Ctx(start=2)) == Parked(HumanResponseReceived(handle))
    timed = AskUser().run({"question": "which?", "timeout_seconds": 60}, Ctx())
    assert timed == Parked(HumanResponseReceived(handle, timeout_at=1_700_000_060.5))


def test_an_event_is_waited_for_by_its_kind() -> None:
    assert WaitForEvent().run({"event_kind": "built"}, Ctx()) == Parked(ExternalEvent("built"))
    timed = WaitForEvent().recover({"event_kind": "built", "timeout_seconds": 60}, Ctx())
    assert timed == Parked(ExternalEvent("built", timeout_at=1_700_000_060.5))


@pytest.mark.parametrize(
    ("tool", "input", "field"),
    [
        (AskUser(), {"question": ""}, "question"),
        (AskUser(), {}, "question"),
        (AskUser(), {"question": "?", "timeout_seconds": math.inf}, "timeout_seconds"),
        (WaitForEvent(), {"event_kind": ""}, "event_kind"),
        (WaitForEvent(), {"event_kind": "k" * 201}, "event_kind"),
        (WaitForEvent(), {"event_kind": "a\x00b"}, "event_kind"),
        (WaitForEvent(), {"event_kind": "k", "timeout_seconds": -0.5}, "timeout_seconds"),
    ],
)
def test_a_bad_wait_is_refused_by_the_name_of_its_field(tool: Tool, input: Any, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        tool.run(input, Ctx())

    assert refused.value.field == field


@pytest.mark.parametrize("name", sorted(waiting_tools()))
def test_every_tool_simply_runs_again_after_a_crash(name: str) -> None:
    """None does anything by itself, so that none is ever 'outcome unknown'. Keeps: children-once."""
    tool: object = waiting_tools()[name]

    assert isinstance(tool, Recovers)
    assert tool.name == name  # type: ignore[attr-defined]
