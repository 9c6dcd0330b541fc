"""The tools that delegate: whom they ask for, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from noeta.core import texts
from noeta.core.errors import BadInput
from noeta.core.store import Post
from noeta.core.tool import ChildAsked, Parked, Tool, ToolResult
from noeta.core.wake import HumanResponseReceived
from noeta.plugins import Agent, AgentGroup, SubagentHandback
from tests.unit.plugins.stage import Ctx

WHO = {"agent": "helper", "prompt": "look"}
CHILD = ChildAsked("helper", "look")


def test_a_sub_agent_is_waited_for_or_works_in_the_background() -> None:
    assert Agent().run(WHO, Ctx()) == Parked(children=(CHILD,))
    background = Agent().run(WHO | {"background": True}, Ctx())
    assert background == ToolResult(texts.CHILD_STARTED.format(call="3-0"), children=(CHILD,))
    assert Agent().recover(WHO, Ctx(start=3)) == Agent().run(WHO, Ctx())


def test_a_group_is_waited_for_as_one() -> None:
    assert AgentGroup().run({"members": [WHO, WHO]}, Ctx()) == Parked(children=(CHILD, CHILD))


@pytest.mark.holds("tool/key-for-posts")
def test_a_hand_back_is_posted_to_the_parent_under_a_key_of_its_call() -> None:
    """So that its ``recover`` simply runs again. Keeps: taken-once."""
    ctx = Ctx(task_id="t.3-0.1", call_id="5-0", parent_task_id="t")
    result = SubagentHandback().run({"report": "half"}, ctx)
    item = HumanResponseReceived(text=texts.HANDBACK.format(child="t.3-0.1", report="half"), sender="t.3-0.1")

    assert result == ToolResult(texts.HANDED_BACK, posts=(Post("t", item, "subtasks:handback:t.3-0.1:5-0"),))
    assert SubagentHandback().recover({"report": "half"}, ctx) == result


@pytest.mark.parametrize(
    ("tool", "input", "field"),
    [
        (Agent(), {"agent": "", "prompt": "x"}, "agent"),
        (Agent(), {"agent": "a"}, "prompt"),
        (Agent(), WHO | {"background": "yes"}, "background"),
        (Agent(), WHO | {"model": "m"}, "model"),
        (AgentGroup(), {"members": []}, "members"),
        (AgentGroup(), {"members": [WHO] * 101}, "members"),
        (AgentGroup(), {"members": ["helper"]}, "input"),
        (SubagentHandback(), {"report": ""}, "report"),
        (SubagentHandback(), {"report": "to nobody"}, "report"),
    ],
)
def test_a_bad_delegation_is_refused_by_the_name_of_its_field(tool: Tool, input: Any, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        tool.run(input, Ctx())

    assert refused.value.field == field
