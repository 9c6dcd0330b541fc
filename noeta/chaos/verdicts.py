"""Judges a run directory: the laws, and whether enough happened for their word to count.

Reads only what is on disk, so an old run can be judged again by newer laws (`noeta check RUN_DIR`). A broken law
makes the run ``invalid`` whatever else is wrong; otherwise every reason to doubt makes it ``unknown``. Nothing
seen is ``unknown``, never ``valid``.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from invariants import (
    LAWS,
    SERVER_LAWS,
    Answer,
    FaultSeen,
    Law,
    Report,
    RunFacts,
    TaskEvidence,
    Verb,
    Verdict,
    check_all,
)
from noeta.chaos.evidence_dir import CUTS, RUN, RunDir
from noeta.chaos.evidence_reader import DirEvidence
from noeta.chaos.proxy import read_cuts, sum_of
from noeta.chaos.situations import askable, count_cuts, count_situations
from noeta.chaos.storm_facts import StormFacts

HARNESS_ERROR: Final = 3
BAD_USAGE: Final = 64
INTERRUPTED: Final = 130
NO_SERVER: Final = "this store has no server that could hold a lock for a worker"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run is judged to be. ``doubts``: why it is not valid although no law was broken; ``crash``: the
    traceback of the judging itself; ``not_asked``: laws that do not speak of such a run, and why."""

    verdict: Verdict
    doubts: tuple[str, ...]
    report: Report
    situations: Mapping[str, int]
    figures: Mapping[str, int]
    facts: RunFacts
    storm: StormFacts | None
    run: Mapping[str, Any]
    crash: str | None = None
    not_asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 valid, 1 invalid, 2 unknown."""
        return self.verdict.exit_code

    def as_dict(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "seed": self.run.get("seed"),
            "doubts": list(self.doubts),
            "laws": self.report.as_dict()["laws"],
            "not_asked": dict(self.not_asked),
            "tasks": self.report.tasks,
            "situations": dict(self.situations),
            "figures": dict(self.figures),
            "storm": None if self.storm is None else msgspec.to_builtins(self.storm),
            "crash": self.crash,
        }


@dataclass
class _Counting:
    """Evidence that counts what passes by: one reading serves the laws, the situations and the figures."""

    inner: DirEvidence
    situations: Counter[str]
    figures: Counter[str]
    crash: str | None = None

    @property
    def run(self) -> RunFacts:
        return self.inner.run

    def tasks(self) -> Iterator[TaskEvidence]:
        for task in self.inner.tasks():
            try:
                self.situations.update(count_situations(task, self.run.faults, self.run.kin))
                self.figures.update(_figures(task))
            except Exception:  # the boundary of a counter: what was not counted did not happen
                self.crash = self.crash or traceback.format_exc()
            yield task


def judge(run_dir: RunDir, laws: Sequence[Law] = LAWS, *, required: Mapping[str, int] | None = None) -> Judgement:
    """Judge one run.

    Args:
        required: situations that must have occurred, with how often; None: those that ``run.json`` names.
    """
    evidence = DirEvidence(run_dir)
    seen = _Counting(evidence, Counter(), Counter())
    run = run_dir.read_json(RUN) or {}
    not_asked = {law.key: NO_SERVER for law in laws if law.key in SERVER_LAWS and run.get("locks", ...) is None}
    report = check_all(seen, [law for law in laws if law.key not in not_asked])
    seen.situations.update(count_cuts(sum_of(read_cuts(run_dir.path(CUTS)))))
    storm = _storm_facts(run)
    figures = {**seen.figures, "torn lines": evidence.torn, "journal lines": evidence.journal_lines}
    must = dict(run.get("required") or {}) if required is None else required
    doubts = [
        *_doubts_of_run(run),
        *_doubts_of_storm(storm, run),
        *_doubts_of_faults(evidence.run.faults),
        *([] if evidence.journal_lines else ["no side effect was journalled"]),
        *_doubts_of_situations(seen.situations, askable(must, frozenset() if storm is None else storm.possible)),
        *(f"law {one.law.key}: {one.why()}" for one in report.laws if one.verdict is Verdict.UNKNOWN),
    ]
    if seen.crash is not None:
        doubts.append(f"counting situations crashed: {seen.crash.strip().splitlines()[-1]}")
    broken = report.verdict is Verdict.INVALID
    verdict = Verdict.INVALID if broken else Verdict.UNKNOWN if doubts else Verdict.VALID
    return Judgement(
        verdict,
        tuple(doubts),
        report,
        dict(seen.situations),
        figures,
        evidence.run,
        storm,
        run,
        seen.crash,
        not_asked,
    )


def _storm_facts(run: Mapping[str, Any]) -> StormFacts | None:
    kept = run.get("storm")
    return None if kept is None else msgspec.convert(kept, StormFacts)


def _doubts_of_run(run: Mapping[str, Any]) -> Iterator[str]:
    """What the harness itself could not do."""
    if not run:
        yield "run.json is missing or torn: nobody knows what this run was"
        return
    if run.get("interrupted"):
        yield f"interrupted {run['interrupted']}"
    if run.get("error"):
        yield f"the harness failed: {run['error']}"
    drained = run.get("drain")
    if drained is None:
        yield "the run never came to its drain"
    else:
        if drained["ended"] != "quiet":
            unfinished = drained["unfinished"]
            stuck = sum(one["pace"] == "stuck" for one in unfinished)
            yield (
                f"the drain ended by {drained['ended']} after {drained['seconds']:.0f} s with {len(unfinished)} tasks "
                f"unfinished ({stuck} stuck, {len(unfinished) - stuck} slow)"
            )
        if drained["unsaid"]:
            yield f"{len(drained['unsaid'])} messages could not be posted"
    collected = run.get("collected")
    if collected is None:
        yield "the logs were not copied"
    elif collected["missing"]:
        yield f"some logs could not be copied: {collected['missing']}"
    loaded = run.get("loaded")
    if loaded is not None and (loaded["refused"] or not loaded["complete"]):
        yield f"the workload was not loaded whole: {loaded['created']} tasks created, {loaded['refused']} refused"
    if run.get("deadlocks"):
        yield f"{run['deadlocks']} deadlocks: the lock order is broken"
    for what in run.get("left_behind") or ():
        yield f"left behind: {what}"


def _doubts_of_storm(storm: StormFacts | None, run: Mapping[str, Any]) -> Iterator[str]:
    """Whether it hurt enough."""
    if storm is None:
        yield "no storm was recorded"
        return
    if storm.kills + storm.kill_alls == 0:
        yield "no kill landed: nobody died holding a claim with a step in flight that was later taken over"
    for name, found, quota in (
        ("effective kills", storm.kills, storm.quota_kills),
        ("effective kill-alls", storm.kill_alls, storm.quota_kill_alls),
        ("effective pauses", storm.pauses, storm.quota_pauses),
    ):
        if found < quota:
            yield f"quota not met: {found} of {quota} {name}"
    for kind in storm.planned:
        if not storm.fired.get(kind) and kind not in storm.refused:
            yield f"a planned kind of fault never fired: {kind}"
    if run.get("left_out") is not None and storm.unfired:
        yield f"of the schedule that was handed over, {len(storm.unfired)} faults never struck"
    for what in storm.not_healed:
        yield f"not healed: {what}"
    for crash in storm.crashes:
        yield f"a worker ended by itself: {crash}"


def _doubts_of_faults(faults: Sequence[FaultSeen]) -> Iterator[str]:
    if not faults:
        yield "no fault was recorded"


def _doubts_of_situations(found: Mapping[str, int], required: Mapping[str, int]) -> Iterator[str]:
    for name, least in required.items():
        if found.get(name, 0) < least:
            yield f"required situation {name}: {found.get(name, 0)} of {least}"


def _figures(task: TaskEvidence) -> Counter[str]:
    """How much of everything there is."""
    figures = Counter(
        {
            "tasks": 1,
            "log entries": len(task.log),
            "row samples": len(task.samples),
            "attempts": len(task.attempts),
            "side effects": len(task.journal),
            "messages posted": sum(one.outcome == "stored" for one in task.sent),
            "posts": len(task.sent),
            "claims": sum(one.verb is Verb.CLAIM for one in task.attempts),
            "attempts answered unknown": sum(one.answer is Answer.UNKNOWN for one in task.attempts),
            "attempts never answered": sum(one.answer is None for one in task.attempts),
        }
    )
    return +figures
