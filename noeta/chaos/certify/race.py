"""Several real processes at one place, some of them killed: what they were answered and what is there, by the laws.

The suite's races are between threads of one process, where a lock of that process hides what is missing in the store.
Killed are: one process that holds a claim, half of its appends made, and others in full career, in whatever call
they are. What a process was answered it has written down before it goes on; nothing of that may be missing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from invariants import LAWS_BY_KEY, Attempt, HeldInMemory, LogEntry, RunFacts, Sent, Verb, Verdict, check_all, gather
from invariants.check import LawReport
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.candidate import Candidate, Places, load
from noeta.chaos.certify.card import Line
from noeta.chaos.certify.racer import TASKS
from noeta.chaos.certify.racers import Racers
from noeta.chaos.contract_view import ContractView, StoreClock
from noeta.chaos.instrument import FileSink
from noeta.chaos.recording import RecordingStore
from noeta.chaos.seeds import stream
from noeta.core.errors import UnknownTask
from noeta.core.ids import micros, sha256_text
from noeta.core.limits import PAGE_ENTRIES_MAX
from noeta.core.store import NewTask

T = TypeVar("T")

RACERS: Final = 4
KILLS: Final = 3
QUICK_KILLS: Final = 1
KILL_BETWEEN: Final = (2, 5)
"""A process in full career is killed at one of these claims, counted from its start."""

SECONDS_MAX: Final = 120.0
LAWS: Final = (
    "one-writer",
    "epochs-rise",
    "gapless-log",
    "acked-stays",
    "taken-once",
    "terminal-is-final",
    "row-agrees",
)
"""Those that need no agent."""

STORY_LINES_MAX: Final = 8


def race(order: Order) -> Iterator[Line]:
    """A line for what happened, and one for each law."""
    candidate = load(order.store)
    places = Places(candidate, Path(order.root))
    place, evidence = places.fresh(), Path(order.root) / "evidence"
    evidence.mkdir()
    began = time.monotonic()
    draws = stream(order.seed, "processes")
    kill_at = [draws.between(*KILL_BETWEEN) for _ in range(QUICK_KILLS if order.quick else KILLS)]
    _create(candidate, place, evidence)
    with Racers(order.store, place, evidence, RACERS, kill_at) as racers:
        stands = racers.run(SECONDS_MAX)
    seen = _gathered(candidate, place, evidence)
    took = time.monotonic() - began
    places.give_back(place)
    yield _what_happened(racers, seen, stands, took)
    for report in check_all(seen, [LAWS_BY_KEY[key] for key in LAWS]).laws:
        if order.wants(report.law.key):
            yield _line(report)


def _create(candidate: Candidate, place: str, evidence: Path) -> None:
    sink = FileSink(evidence / "client.attempts.jsonl")
    inner = candidate.make(place, None)
    store = RecordingStore(inner, sink, process="client", clock=lambda: micros(time.time()))
    for task in TASKS:
        store.create(NewTask(task, "racer", "race"))
    store.close()


def _gathered(candidate: Candidate, place: str, evidence: Path) -> HeldInMemory:
    """What the processes wrote down, and what a new handle shows."""
    attempts: dict[str, Attempt] = {}
    for path in sorted(evidence.glob("*.attempts.jsonl")):
        attempts.update((one.id, one) for one in _lines_of(path, Attempt))
    sent = [one for path in sorted(evidence.glob("*.sent.jsonl")) for one in _lines_of(path, Sent)]
    store = candidate.make(place, None)
    log, finals = [], []
    with ContractView(store, StoreClock(store)) as view:
        for task in TASKS:
            try:
                page = store.read(task, limit=PAGE_ENTRIES_MAX)
            except UnknownTask:
                continue  # acked-stays speaks of it: its creation was acknowledged
            log += [
                LogEntry(task, one.seq, one.epoch, one.at, one.event, sha256_text(one.body)) for one in page.entries
            ]
            finals.append(view.final(page))
    return gather(RunFacts(), log=log, attempts=attempts.values(), finals=finals, sent=sorted(sent, key=lambda s: s.at))


def _lines_of(path: Path, kind: type[T]) -> Iterator[T]:
    """The whole lines of a file; a killed process may leave its last one torn."""
    decoder = msgspec.json.Decoder(kind)
    for raw in path.read_bytes().split(b"\n")[:-1]:
        yield decoder.decode(raw)


def _what_happened(racers: Racers, seen: HeldInMemory, stands: str, took: float) -> Line:
    """Whether it was a race at all: every task ended (``stands``: why they did not), and what a killed process held was
    taken over."""
    granted = [one for task in seen.tasks() for one in task.attempts if one.verb is Verb.CLAIM]
    newest = Counter[str]()
    for one in granted:
        newest[one.task] = max(newest[one.task], one.epoch or 0)
    last = {one.process: one for one in granted}  # in the order in which each process made them
    taken_over = [name for name in racers.killed if name in last and (last[name].epoch or 0) < newest[last[name].task]]
    title = f"{len(racers.killed)} of {RACERS} processes killed, {len(taken_over)} holding what others took over"
    verdict, why, detail = Verdict.VALID, "", ""
    if racers.died:
        verdict, why = (
            Verdict.INVALID,
            f"{', '.join(racers.died)} died of an error of the store that a worker cannot meet",
        )
        detail = racers.log_tail(racers.died[0])
    elif stands:
        verdict, why = Verdict.INVALID, f"never-stuck: {stands}"
    elif not taken_over:
        verdict, why = Verdict.UNKNOWN, "no process was killed while it held a task: nothing was taken over"
    return Line("processes", "race", title, verdict, len(granted), took, why, detail)


def _line(report: LawReport) -> Line:
    law = report.law
    why = f"{law.key}: {report.why()}" if report.verdict is not Verdict.VALID else ""
    detail = "\n".join(one.text for one in report.anomalies[:STORY_LINES_MAX])
    return Line("processes", law.key, law.title, report.verdict, report.seen, 0.0, why, detail)
