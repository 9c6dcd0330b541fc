"""Writes the verdict to disk: results.json, explain.md, report.html. A report that cannot be drawn costs no verdict."""

from __future__ import annotations

import traceback
from typing import Final

from invariants import Anomaly, Verdict, explain
from noeta.chaos.evidence_dir import EXPLAIN, REPORT, RESULTS, RunDir
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.report.lines import last_lines, summary
from noeta.chaos.report.page import page
from noeta.chaos.report.task_story import around
from noeta.chaos.verdicts import Judgement

ANOMALIES_TOLD: Final = 5


def write_report(run_dir: RunDir, judgement: Judgement) -> None:
    """All three files. ``results.json`` is first: it is the verdict."""
    run_dir.write_json(RESULTS, judgement.as_dict())
    evidence = DirEvidence(run_dir)
    run_dir.write_text(EXPLAIN, story(judgement, evidence))
    try:
        drawn = page(evidence, judgement)
    except Exception:  # the boundary of the drawing
        drawn = f"<!doctype html><title>no report</title><pre>{traceback.format_exc()}</pre>"
    run_dir.write_text(REPORT, drawn)


def story(judgement: Judgement, evidence: DirEvidence) -> str:
    """``explain.md``: each anomaly in at most fifteen lines, with the part of its task's story around it; then what is
    in doubt."""
    lines = [f"# Seed {judgement.run.get('seed')}: {judgement.verdict.value}", ""]
    for one in judgement.report.laws:
        if one.verdict is not Verdict.INVALID:
            continue
        lines += [f"## {one.law.key}: {one.law.title}", "", f"{one.anomalies_total} anomalies.", ""]
        for anomaly in one.anomalies[:ANOMALIES_TOLD]:
            lines += ["```", explain(anomaly, judgement.facts), "```", ""]
            lines += ["```", *_around(anomaly, evidence, judgement), "```", ""]
        hidden = one.anomalies_total - min(len(one.anomalies), ANOMALIES_TOLD)
        if hidden:
            lines += [f"… and {hidden} more, counted in results.json.", ""]
    if judgement.report.verdict is not Verdict.INVALID:
        lines += ["No law is broken.", ""]
    if judgement.doubts:
        lines += ["## What is in doubt", "", *(f"- {doubt}" for doubt in judgement.doubts), ""]
    for one in judgement.report.laws:
        if one.crash is not None:
            lines += [f"## The checker of {one.law.key} crashed", "", "```", one.crash, "```", ""]
    lines += ["## The run", "", "```", *summary(judgement), *last_lines(judgement, "this directory"), "```", ""]
    return "\n".join(lines)


def _around(anomaly: Anomaly, evidence: DirEvidence, judgement: Judgement) -> list[str]:
    """What happened to the task then, told as `noeta task` tells it."""
    try:
        return around(anomaly, evidence.of(anomaly.task), judgement.facts)
    except Exception:  # the boundary of the telling
        return ["the story of this task cannot be told:", *traceback.format_exc().splitlines()]
