"""``check_all``: crashes are unknown, nothing seen is unknown, many anomalies are counted, few are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from invariants import (
    LAWS,
    LAWS_BY_KEY,
    Finding,
    HeldInMemory,
    Law,
    RunFacts,
    Tally,
    TaskEvidence,
    Verdict,
    check_all,
    explain,
    explain_report,
)
from invariants.law import WHOLE_RUN
from tests.unit.invariants.history import H

GAPLESS = LAWS_BY_KEY["gapless-log"]
TWO_TASKS = "1/0 created; 2/1 called; on u; 1/0 created"
ZOMBIE = "1/0 created; w2:append 2-2/2 ok; 2/2 called; fault pause w1 t@1; 3/1 replied"


def law(check: object, *, conclude: object = None) -> Law:
    return Law("test-law", "A test's law", "…", "a test", "nothing", {"bad": "bad"}, check, conclude)  # type: ignore[arg-type]


def crashes_on_t(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    tally.saw()
    if task.task == "u":
        yield Finding("bad", "found")
    else:
        raise ZeroDivisionError("the checker is broken")


def crashes_after_finding(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
    tally.saw()
    yield Finding("bad", "found")
    raise ZeroDivisionError("the checker is broken")


def test_crash_of_a_checker_is_unknown_with_its_traceback() -> None:
    report = check_all(H("1/0 created"), [law(crashes_on_t), GAPLESS])

    assert report["test-law"].verdict is Verdict.UNKNOWN
    assert "the checker is broken" in str(report["test-law"].crash)
    assert "crashes_on_t" in str(report["test-law"].crash)
    assert report["gapless-log"].verdict is Verdict.VALID
    assert report.verdict is Verdict.UNKNOWN


def test_crash_on_one_task_does_not_hide_another_ones_anomaly() -> None:
    report = check_all(H(TWO_TASKS), [law(crashes_on_t)])

    assert report.verdict is Verdict.INVALID
    assert report["test-law"].crashes_total == 1


def test_crash_after_an_anomaly_keeps_the_anomaly() -> None:
    report = check_all(H("1/0 created"), [law(crashes_after_finding)])

    assert report.verdict is Verdict.INVALID
    assert report["test-law"].anomalies_total == 1


def test_crash_of_the_conclusion_is_unknown() -> None:
    def concludes(run: RunFacts, tally: Tally) -> Iterator[Finding]:
        yield from ()
        raise ZeroDivisionError("no end")

    report = check_all(H("1/0 created"), [law(GAPLESS.check, conclude=concludes)])

    assert report.verdict is Verdict.UNKNOWN


def test_what_is_found_in_no_task_is_an_anomaly_of_the_whole_run() -> None:
    def concludes(run: RunFacts, tally: Tally) -> Iterator[Finding]:
        yield Finding("bad", "too many of them")

    report = check_all(H("1/0 created"), [law(GAPLESS.check, conclude=concludes)])
    (anomaly,) = report.anomalies()

    assert report.verdict is Verdict.INVALID
    assert anomaly.task == WHOLE_RUN
    assert explain(anomaly, RunFacts()).splitlines() == [
        "test-law is broken: bad",
        "what happened: too many of them",
    ]


def test_undeclared_code_is_a_crash_and_not_an_anomaly() -> None:
    def invents(task: TaskEvidence, run: RunFacts, tally: Tally) -> Iterator[Finding]:
        yield Finding("invented", "…")

    report = check_all(H("1/0 created"), [law(invents)])

    assert report.verdict is Verdict.UNKNOWN
    assert "does not declare the code 'invented'" in str(report["test-law"].crash)


@dataclass(frozen=True)
class TornFile:
    """Evidence whose reader dies after the first task."""

    whole: HeldInMemory

    @property
    def run(self) -> RunFacts:
        return self.whole.run

    def tasks(self) -> Iterator[TaskEvidence]:
        yield next(self.whole.tasks())
        raise ValueError("the file ends in the middle of a line")


@pytest.mark.parametrize(
    ("history", "verdict"), [(TWO_TASKS, Verdict.UNKNOWN), ("1/0 created; 3/1 called; on u", Verdict.INVALID)]
)
def test_crash_of_the_reader_is_unknown_unless_something_was_found(history: str, verdict: Verdict) -> None:
    report = check_all(TornFile(H(history)), [GAPLESS])

    assert verdict is report.verdict
    assert report.tasks == 1


def test_anomalies_are_kept_up_to_a_number_and_counted_beyond() -> None:
    history = "1/0 created; " + "; ".join(f"{seq}/1 called" for seq in range(3, 99, 2))

    report = check_all(H(history), [GAPLESS], anomalies_kept=3)["gapless-log"]

    assert len(report.anomalies) == 3
    assert report.codes == {"gap": 48}


def test_no_evidence_at_all_is_unknown_for_every_law() -> None:
    report = check_all(H(""))

    assert {one.law.key for one in report.laws if one.verdict is Verdict.UNKNOWN} == set(LAWS_BY_KEY)
    assert report.verdict is Verdict.UNKNOWN


def test_results_are_json() -> None:
    report = check_all(H(ZOMBIE))

    results = json.loads(json.dumps(report.as_dict()))

    assert results["verdict"] == "invalid"
    assert [one["law"] for one in results["laws"]] == [one.key for one in LAWS]


def test_explanation_names_law_promise_writers_and_the_fault() -> None:
    evidence = H(ZOMBIE + "; w1:append 3-3/1 ok")

    (anomaly,) = check_all(evidence, [LAWS_BY_KEY["one-writer"]]).anomalies()

    assert explain(anomaly, evidence.run).splitlines() == [
        "one-writer is broken: zombie-append in task t",
        f"promise: {LAWS_BY_KEY['one-writer'].statement}",
        "broken here: an entry under a lower epoch than one that was already claimed",
        (
            "what happened: w1 appended seq 3 to t under epoch 1 at 5 s; but w2 held t as epoch 2 and had appended "
            "seq 2; so two workers wrote"
        ),
        "because:",
        "  - log: t seq 2 ModelCalled under epoch 2 at 3 s, body h2",
        "  - log: t seq 3 ModelReplied under epoch 1 at 5 s, body h3",
        "faults around it:",
        "  - fault: pause hit w1 at 4 s, which held t@1",
    ]


def test_report_is_told_law_by_law() -> None:
    evidence = H(ZOMBIE)

    told = explain_report(check_all(evidence), evidence.run)

    assert told.startswith("verdict: invalid over 1 tasks\n")
    assert all(f"  {one.key} " in told for one in LAWS)
    assert "saw nothing (reads what the scripts foretell, the log, and the faults that struck)" in told
