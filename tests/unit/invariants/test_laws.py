"""Every law on every case, and the cases cover every law and every way to break it."""

from __future__ import annotations

import pytest

from invariants import LAWS, Law, Verdict, explain
from invariants.explain import LINES_MAX
from tests.unit.invariants import (
    cases_cancels,
    cases_crons,
    cases_effects,
    cases_family,
    cases_fence,
    cases_gates,
    cases_inbox,
    cases_jobs,
    cases_log,
    cases_precedence,
    cases_waiting,
)
from tests.unit.invariants.case import Case
from tests.unit.invariants.history import H

CASES = (
    *cases_fence.CASES,
    *cases_log.CASES,
    *cases_inbox.CASES,
    *cases_effects.CASES,
    *cases_cancels.CASES,
    *cases_family.CASES,
    *cases_waiting.CASES,
    *cases_precedence.CASES,
    *cases_jobs.CASES,
    *cases_crons.CASES,
    *cases_gates.CASES,
)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.title}" for case in CASES])
def test_law_judges_the_history(case: Case) -> None:
    report = case.judge()

    assert set(case.codes) == set(report.codes), report.why()
    assert case.verdict is report.verdict, report.why()
    assert report.crash is None


@pytest.mark.parametrize("law", LAWS, ids=[law.key for law in LAWS])
def test_law_has_a_case_of_each_verdict_and_an_empty_one(law: Law) -> None:
    own = [case for case in CASES if case.law == law.key]
    empty = [case.verdict for case in own if not case.history]

    assert set(Verdict) == {case.verdict for case in own}
    assert empty == [Verdict.UNKNOWN]


def test_every_declared_way_to_break_a_law_has_a_case() -> None:
    declared = {(law.key, code) for law in LAWS for code in law.codes}

    assert declared == {(case.law, code) for case in CASES for code in case.codes}


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.title}" for case in CASES])
def test_every_anomaly_is_explained_with_its_witnesses(case: Case) -> None:
    run = H(case.history, **case.run).run
    for anomaly in case.judge().anomalies:
        lines = explain(anomaly, run).splitlines()

        assert len(lines) <= LINES_MAX
        assert anomaly.law in lines[0]
        assert anomaly.code in lines[0]
        assert anomaly.witnesses
