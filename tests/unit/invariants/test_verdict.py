"""Verdicts merge by rank, whatever their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariants.verdict import Verdict, decide, merge

VERDICTS = st.lists(st.sampled_from(Verdict))


def test_nothing_judged_is_unknown() -> None:
    assert merge([]) is Verdict.UNKNOWN


@given(VERDICTS)
def test_invalid_outranks_unknown_outranks_valid(verdicts: list[Verdict]) -> None:
    merged = merge(verdicts)

    assert (merged is Verdict.INVALID) == (Verdict.INVALID in verdicts)
    assert (merged is Verdict.VALID) == (set(verdicts) == {Verdict.VALID})


@given(VERDICTS.filter(bool), VERDICTS.filter(bool))
def test_merging_in_parts_is_merging_at_once(left: list[Verdict], right: list[Verdict]) -> None:
    assert merge([merge(left), merge(right)]) is merge(left + right) is merge(right + left)


@pytest.mark.parametrize(
    ("verdict", "found"),
    [
        (Verdict.VALID, {"anomalies": 0, "seen": 1, "doubts": 0, "crashes": 0}),
        (Verdict.UNKNOWN, {"anomalies": 0, "seen": 0, "doubts": 0, "crashes": 0}),
        (Verdict.UNKNOWN, {"anomalies": 0, "seen": 9, "doubts": 1, "crashes": 0}),
        (Verdict.UNKNOWN, {"anomalies": 0, "seen": 9, "doubts": 0, "crashes": 1}),
        (Verdict.INVALID, {"anomalies": 1, "seen": 9, "doubts": 1, "crashes": 1}),
        (Verdict.INVALID, {"anomalies": 1, "seen": 0, "doubts": 0, "crashes": 0}),
    ],
)
def test_one_law_is_decided_by_what_it_found_and_saw(verdict: Verdict, found: dict[str, int]) -> None:
    assert decide(**found) is verdict


def test_exit_codes_are_those_of_the_commands() -> None:
    codes = {verdict.value: verdict.exit_code for verdict in Verdict}

    assert codes == {"valid": 0, "invalid": 1, "unknown": 2}
