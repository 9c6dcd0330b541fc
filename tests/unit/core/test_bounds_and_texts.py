"""Bounds and texts as the source document prints them, word for word. Keeps: bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeta.core import retry, task, texts, tool
from noeta.core.retry import RetryPolicy
from noeta.core.runner import lease


@pytest.mark.parametrize(
    ("name", "found", "printed"),
    [
        ("provider errors inside one call", retry.DEFAULT_MAX_ATTEMPTS, 9),
        ("backoff up to", retry.BACKOFF_SECONDS_MAX, 30.0),
        ("model calls without a reply", texts.MAX_MODEL_ATTEMPTS, 3),
        ("starts of a retry_safe call", tool.MAX_ATTEMPTS, 3),
        ("bugs in a row", texts.MAX_INTERNAL_ERRORS, 2),
        ("claims that could not load", task.LOAD_ATTEMPTS, 3),
        ("cut replies in a row", texts.MAX_TRUNCATED_REPLIES, 3),
        ("empty replies in a row", texts.MAX_EMPTY_REPLIES, 3),
        ("takeovers in a row", task.TAKEOVERS_MAX, 10),
        ("failures", task.FAIL_ATTEMPTS_MAX, 3),
        ("renewals of one step", lease.HEARTBEAT_MAX, 360),
    ],
)
def test_a_bound_has_its_printed_value(name: str, found: float, printed: float) -> None:
    assert (name, found) == (name, printed)


def test_the_model_is_told_of_an_unknown_outcome_in_the_printed_words() -> None:
    assert texts.OUTCOME_UNKNOWN == (
        "Interrupted before its result was recorded, so its outcome is unknown — it may have fully, partly, or not "
        "applied. Check its effect before running it again."
    )


@pytest.mark.holds("tool/safe-default")
def test_a_tool_is_not_safe_to_run_again_unless_it_says_so() -> None:
    """Keeps: effect-at-most-once."""
    assert not tool.ToolFlags().retry_safe


def test_reasons_are_the_printed_ones() -> None:
    assert texts.MODEL_CALL_INTERRUPTED == "the model call kept being interrupted"
    assert (texts.LLM_ERROR, texts.LLM_TRUNCATED, texts.INTERNAL_ERROR, texts.UNREADABLE_LOG) == (
        "llm_error",
        "llm_truncated",
        "internal_error",
        "unreadable_log",
    )
    assert lease.QUOTA_EXCEEDED == "lease_quota_exceeded"


def test_the_backoff_doubles_up_to_thirty_seconds() -> None:
    policy = RetryPolicy()

    assert [policy.delay_seconds(n) for n in range(1, 9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@given(st.integers(1, 2**63))
def test_the_backoff_never_overflows(failures: int) -> None:
    """https://github.com/graphile/worker/issues/611"""
    assert 0 < RetryPolicy().delay_seconds(failures) <= 30.0
