"""The one rule of waking, and the keys that stores compare in its place. Keeps: wake-once."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core.events import EVENT_TYPES, Event
from noeta.core.wake import (
    ANY_WAIT,
    ControlReceived,
    ExternalEvent,
    HumanResponseReceived,
    Item,
    SubtaskCompleted,
    SubtaskGroupCompleted,
    TimerFired,
    WakeCondition,
    condition_key,
    find_wake,
    item_group_key,
    item_key,
    matches_wake,
    members_missing,
)
from tests.unit.core.logs import CONDITIONS, ITEMS


@pytest.mark.holds("wait/one-rule")
@given(CONDITIONS, ITEMS)
def test_the_keys_agree_with_the_rule(condition: WakeCondition, item: Item) -> None:
    """An item whose key is the condition's satisfies it, and no other does. A timer's instant is the store's to
    compare: only the store makes ``TimerFired``, from the stored condition."""
    by_key = item_key(item) in (ANY_WAIT, condition_key(condition))
    if isinstance(condition, TimerFired) and isinstance(item, TimerFired):
        assert by_key
        assert matches_wake(condition, condition)
    else:
        assert by_key == matches_wake(condition, item)


@pytest.mark.holds("wait/same-dataclass")
@given(CONDITIONS)
def test_a_condition_satisfies_itself(condition: WakeCondition) -> None:
    assert matches_wake(condition, condition)


@given(ITEMS)
def test_no_condition_is_never_satisfied(item: Item) -> None:
    assert not matches_wake(None, item)


@given(CONDITIONS)
def test_an_order_satisfies_every_wait(condition: WakeCondition) -> None:
    assert matches_wake(condition, ControlReceived())


@given(st.lists(ITEMS, max_size=12), st.integers(0, 6))
def test_the_members_missing_are_those_not_yet_told(items: list[Item], members: int) -> None:
    """Keeps: children-once."""
    condition = SubtaskGroupCompleted("group", members)
    told = {item.subtask_id for item in items if isinstance(item, SubtaskCompleted) and item.group_id == "group"}

    assert members_missing(condition, tuple(items)) == max(0, members - len(told))


def test_a_group_is_complete_once_each_member_is_there_and_not_before() -> None:
    """However often one of them is told of. Keeps: children-once, wake-once."""
    first, again = (
        SubtaskCompleted("p.2-0.1", output="a", group_id="g"),
        SubtaskCompleted("p.2-0.1", "failed", "b", "g"),
    )
    second = SubtaskCompleted("p.2-0.2", output="c", group_id="g")
    group = SubtaskGroupCompleted("g", 2)

    assert find_wake(group, [(1, first), (2, again)]) is None
    found = SubtaskGroupCompleted("g", 2, (first, second))
    assert find_wake(group, [(1, second), (2, first), (3, again)]) == ((2, 1), found)


@given(CONDITIONS, st.lists(ITEMS, max_size=3))
def test_any_other_wait_misses_one_item(condition: WakeCondition, items: list[Item]) -> None:
    if not isinstance(condition, SubtaskGroupCompleted):
        assert members_missing(condition, tuple(items)) == 1


@given(ITEMS)
def test_only_a_childs_result_counts_for_a_group(item: Item) -> None:
    expected = f"group:{item.group_id}" if isinstance(item, SubtaskCompleted) and item.group_id is not None else None

    assert item_group_key(item) == expected


@pytest.mark.holds(
    "wait/only-identity",
    "wait/subtask-matches",
    "wait/group-matches",
    "wait/human-matches",
    "wait/timer-matches",
    "wait/event-matches",
)
@pytest.mark.parametrize(
    ("condition", "event", "matches"),
    [
        (TimerFired(10.0), TimerFired(10.0), True),
        (TimerFired(10.0), TimerFired(10.1), True),
        (TimerFired(10.0), TimerFired(9.9), False),
        (SubtaskCompleted("a"), SubtaskCompleted("a", "failed", "x", "g"), True),
        (SubtaskCompleted("a"), SubtaskCompleted("b"), False),
        (SubtaskGroupCompleted("g", 3), SubtaskGroupCompleted("g", 9), True),
        (SubtaskGroupCompleted("g", 3), SubtaskGroupCompleted("h", 3), False),
        (SubtaskGroupCompleted("g", 3), SubtaskCompleted("a", group_id="g"), False),
        (HumanResponseReceived("h"), HumanResponseReceived("h", "any"), True),
        (HumanResponseReceived("h"), HumanResponseReceived("i"), False),
        (ExternalEvent("k", 1), ExternalEvent("k", 2), True),
        (ExternalEvent("k"), ExternalEvent("l"), False),
        (ExternalEvent("h"), HumanResponseReceived("h"), False),
        (ExternalEvent("k", timeout_at=9.0), ExternalEvent("k", 1), True),
        (ExternalEvent("k", timeout_at=9.0), ExternalEvent("k", timeout_at=9.0), True),
        (ExternalEvent("k", timeout_at=9.0), ExternalEvent("k", timeout_at=8.0), False),
        (HumanResponseReceived("h"), HumanResponseReceived("h", timeout_at=8.0), False),
    ],
)
def test_only_identity_decides(condition: WakeCondition, event: Item, matches: bool) -> None:
    assert matches_wake(condition, event) is matches


def test_every_type_of_the_vocabulary_is_known_by_its_name() -> None:
    assert {kind.__name__ for kind in (*get_args(Event), *get_args(Item))} == EVENT_TYPES
