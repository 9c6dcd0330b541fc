"""Ids and derived keys: the same on every worker."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core import ids, limits
from noeta.core.errors import BadInput


@pytest.mark.holds("tool/same-key", "tool/children-ids")
def test_derived_ids_have_their_stated_form() -> None:
    assert ids.call_id(12, 3) == "12-3"
    assert ids.child_id("t", "12-3", 0) == "t.12-3.0"
    assert ids.child_id("t.12-3.0", "2-0", 7) == "t.12-3.0.2-0.7"
    assert ids.idempotency_key("t", "12-3") == "t:12-3"
    assert ids.timer_key("t", 9) == "timer:t:9"
    assert ids.lease_id(4, "token") == "4:token"


@given(st.text(min_size=1), st.integers(1, 10**9), st.integers(0, 99), st.integers(0, 99))
def test_a_childs_id_sorts_after_its_parents(parent: str, seq: int, index: int, number: int) -> None:
    """The lock order: parents before children."""
    assert ids.child_id(parent, ids.call_id(seq, index), number) > parent


@pytest.mark.holds("tool/children-ids")
@given(st.tuples(*[st.integers(0, 999)] * 3), st.tuples(*[st.integers(0, 999)] * 3))
def test_different_calls_have_different_children(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    """Keeps: children-once."""
    first = ids.child_id("t", ids.call_id(one[0], one[1]), one[2])
    second = ids.child_id("t", ids.call_id(other[0], other[1]), other[2])

    assert (first == second) == (one == other)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "empty"),
        ("x" * (limits.NAME_CHARS_MAX + 1), str(limits.NAME_CHARS_MAX)),
        ("\U0001f600" * 101, f"at most {limits.NAME_BYTES_MAX} bytes as UTF-8, found 404"),
        ("a\x00", "NUL"),
        ("a\udfff", "surrogate"),
        (5, "expected text"),
        (None, "expected text"),
    ],
)
def test_a_name_that_some_store_could_not_hold_is_refused(value: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        ids.check_name("worker", value)
    assert refused.value.field == "worker"


def test_a_users_task_id_holds_no_dot() -> None:
    assert ids.check_task_id("nightly-2024") == "nightly-2024"
    with pytest.raises(BadInput, match="kept for derived ids"):
        ids.check_task_id("t.1-0.0")


@given(st.integers(0, 2**32 - 1), st.integers(0, 999_999))
def test_whole_microseconds_survive_being_seconds(seconds: int, micros: int) -> None:
    """Up to the year 2106: from then on two neighbouring floats are about a microsecond apart."""
    exact = seconds * 1_000_000 + micros
    assert ids.micros(exact / 1_000_000) == exact


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_no_instant_is_made_of_what_is_no_number(seconds: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        ids.micros(seconds)


def test_hashes_are_of_the_bytes() -> None:
    assert ids.sha256_text("é") == ids.sha256_bytes("é".encode())
