"""The terminal's words: the first line, the summary, the last line, which repeats the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from invariants import Verdict, explain
from noeta.chaos.proxy import Outcome
from noeta.chaos.schedule import WIRE_KINDS
from noeta.chaos.verdicts import Judgement

RECOVERIES: Final = {
    "recovered-by-lookup": "look-up",
    "recovered-by-rerun": "re-run",
    "recovered-as-unknown": "unknown",
    "model-called-again": "model call again",
}
PHASES: Final = ("prepare", "load", "storm", "heal", "drain", "stop", "collect", "clean up", "check")
HONEST: Final = "with real processes a seed repeats the plan (workload, scripts, faults), not the timing"


def reproduce(run: Mapping[str, Any]) -> str:
    """The command that repeats the plan of a run."""
    parts = [f"make cluster NOETA_CLUSTER_SEED={run.get('seed')}"]
    given = run.get("given") or {}
    parts += [f"{name}={given[name]}" for name in ("NOETA_CLUSTER_TASKS", "NOETA_CLUSTER_SECONDS") if name in given]
    options = [f"{name} {shlex.quote(value)}" if value else name for name, value in sorted(given.items())]
    options = [option for option in options if option.startswith("--")]
    if options:
        sized = " ".join(parts).removeprefix("make cluster ")
        return f"{sized} .venv/bin/noeta cluster {' '.join(options)}"
    return " ".join(parts)


def config_words(run: Mapping[str, Any]) -> str:
    """The configuration in a few words."""
    config = run.get("config") or {}
    return (
        f"tasks={config.get('tasks')} seconds={config.get('seconds'):g} workers={config.get('workers')}x"
        f"{config.get('concurrency')} lease={config.get('lease_seconds'):g} {_store_words(run)}"
        if config
        else "unknown"
    )


def _store_words(run: Mapping[str, Any]) -> str:
    """Runs of before there was a choice of store name their Postgres elsewhere."""
    store = run.get("store") or {}
    return str(store.get("words", f"postgres={run.get('postgres')}"))


def head(run: Mapping[str, Any], verdict: str) -> str:
    """What the first and the last line begin with."""
    return f"seed={run.get('seed')} commit={run.get('commit')} config=[{config_words(run)}] verdict={verdict}"


def first_line(run: Mapping[str, Any]) -> str:
    """The first line of a run."""
    return f"{head(run, 'pending')} reproduce: {reproduce(run)}"


def last_lines(judgement: Judgement, run_dir: str) -> Iterator[str]:
    """The last lines: where the evidence is, and the line that repeats the run."""
    yield f"evidence: {run_dir}"
    yield f"{head(judgement.run, judgement.verdict.value)} reproduce: {reproduce(judgement.run)}"


def summary(judgement: Judgement) -> Iterator[str]:
    """What happened, and what the laws say of it."""
    storm, seen, figures = judgement.storm, judgement.situations, judgement.figures
    yield f"note: {HONEST}"
    if storm is not None:
        yield (
            f"storm:  {storm.seconds:.1f} s, {storm.strikes} strikes; effective kills {storm.kills} (quota "
            f"{storm.quota_kills}), kill-alls {storm.kill_alls} ({storm.quota_kill_alls}), pauses {storm.pauses} "
            f"({storm.quota_pauses})"
        )
        struck = (f"{kind} {storm.effective.get(kind, 0)}/{n}" for kind, n in sorted(storm.fired.items()))
        yield f"faults: effective/struck: {', '.join(struck) or 'none'}; planned and never struck: {len(storm.unfired)}"
        for kind, why in sorted(storm.refused.items()):
            yield f"refused: {kind}: {why}"
    yield (
        f"hurt:   {seen.get('taken-over', 0)} takeovers; calls interrupted: "
        + ", ".join(f"{words} {seen.get(name, 0)}" for name, words in RECOVERIES.items())
        + f"; bounds: three starts {seen.get('three-starts-bound', 0)}, "
        f"three model calls {seen.get('three-model-calls-bound', 0)}"
    )
    taken = seen.get("message-taken-running", 0) + seen.get("message-taken-waiting", 0)
    yield (
        f"work:   {figures.get('tasks', 0)} tasks, {figures.get('log entries', 0)} log entries, "
        f"{figures.get('side effects', 0)} side effects journalled, {figures.get('messages posted', 0)} messages "
        f"posted, {taken} taken ({seen.get('message-taken-running', 0)} while running)"
    )
    yield (
        f"jobs:   {seen.get('job-ended', 0)} ended, {seen.get('job-lost', 0)} lost, {seen.get('job-stopped', 0)} "
        f"stopped; kept claims: {seen.get('kept-resumed', 0)} resumed, {seen.get('kept-taken-over', 0)} taken over; "
        f"{seen.get('cron-fired', 0)} cron firings; approvals: {seen.get('approval-given', 0)} given, "
        f"{seen.get('approval-refused', 0)} refused; {seen.get('parked', 0)} attempts parked"
    )
    yield (
        f"fence:  {seen.get('append-refused', 0)} appends refused, {seen.get('append-refused-after-pause', 0)} of "
        f"resumed workers; {seen.get('renewal-lost', 0)} renewals lost; {seen.get('commit-unknown-landed', 0)} unknown "
        f"commits landed, {seen.get('commit-unknown-not-landed', 0)} did not"
        + (f"; {judgement.run['deadlocks']} deadlocks" if "deadlocks" in judgement.run else "")
    )
    yield from _wire_words(judgement)
    yield from _run_words(judgement.run)
    yield from _laws(judgement)
    for doubt in judgement.doubts:
        yield f"doubt:  {doubt}"


def anomalies(judgement: Judgement) -> Iterator[str]:
    """The first anomaly of each broken law, told; the rest is in ``explain.md``."""
    for one in judgement.report.laws:
        for anomaly in one.anomalies[:1]:
            yield ""
            yield from explain(anomaly, judgement.facts).splitlines()
            if one.anomalies_total > 1:
                yield f"… and {one.anomalies_total - 1} more anomalies of {one.law.key}, told in explain.md"
            yield ""


def _wire_words(judgement: Judgement) -> Iterator[str]:
    """What became of the commits that were cut: by the server's own answer, never by the plan."""
    storm = judgement.storm
    if storm is not None and (storm.cuts or WIRE_KINDS & set(storm.fired)):
        landed, not_landed, unknown = (storm.cuts.get(one, 0) for one in Outcome)
        yield (
            f"wire:   commits cut and landed {landed}, cut and not landed {not_landed}"
            + (f", cut with no answer of the server {unknown}" if unknown else "")
        )


def _run_words(run: Mapping[str, Any]) -> Iterator[str]:
    drained = run.get("drain")
    if drained is not None:
        left = len(drained["unfinished"])
        yield f"drain:  {drained['ended']} after {drained['seconds']:.1f} s" + (f", {left} unfinished" if left else "")
    phases = run.get("phases") or {}
    if phases:
        yield "phases: " + ", ".join(f"{name} {phases[name]:.1f} s" for name in PHASES if name in phases)


def _laws(judgement: Judgement) -> Iterator[str]:
    width = max((len(one.law.key) for one in judgement.report.laws), default=0)
    for one in judgement.report.laws:
        extra = "" if one.verdict is Verdict.VALID else f"  {one.why()}"
        yield f"law:    {one.law.key:<{width}}  {one.verdict.value:<7}  saw {one.seen}{extra}"
    for key, why in judgement.not_asked.items():
        yield f"law:    {key:<{width}}  not asked: {why}"
