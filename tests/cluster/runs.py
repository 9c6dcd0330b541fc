"""Run directories written by hand: a small true story, and the ways in which one can be false or say too little."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from invariants import Answer, Attempt, FinalRow, Foretold, Outcome, Verb
from invariants.evidence import Held
from noeta.chaos.evidence_dir import FAULTS, FINALS, HISTORY, LOG, ROWS, RUN, LogLine, RunDir, create_run_dir
from noeta.chaos.evidence_reader import FinalLine
from noeta.chaos.history import OpAnswered, OpSent
from noeta.chaos.nemesis import FaultLine
from noeta.core import codec
from noeta.core.events import (
    Event,
    ModelCalled,
    ModelReplied,
    StepAttemptAbandoned,
    TaskCompleted,
    TaskCreated,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from noeta.core.ids import sha256_text
from noeta.core.task import Status, TaskRow
from scripted_model.journal import Effect, token_of

TASK = "t1"
AT = 1_700_000_000_000_000
"""The store's clock when the story begins."""

SECOND = 1_000_000

TAKEN_OVER: tuple[tuple[int, Event], ...] = (
    (0, TaskCreated("scripted", "go")),
    (1, ModelCalled("h1", 1)),
    (1, ModelReplied("", (ToolCall("3-0", "recoverable", {}),), "tool_use")),
    (1, ToolStarted("3-0", 1)),
    (2, StepAttemptAbandoned(4, "auto_redrive")),
    (2, ToolFinished("3-0", "done", source="recovered")),
    (2, ModelCalled("h2", 1)),
    (2, ModelReplied("bye")),
    (2, TaskCompleted("bye")),
)
"""A worker dies after its tool had its effect; another one takes the task over and looks the outcome up."""

QUIET_RUN: dict[str, Any] = {
    "seed": "1",
    "commit": "abc",
    "config": {"tasks": 1, "seconds": 10.0, "workers": 2, "concurrency": 1, "lease_seconds": 1.0},
    "postgres": "15",
    "required": {"taken-over": 1},
    "storm": {
        "kills": 1,
        "quota_kills": 1,
        "planned": ["kill"],
        "fired": {"kill": 1},
        "effective": {"kill": 1},
        "seconds": 10.0,
    },
    "drain": {"ended": "quiet", "seconds": 1.0, "unfinished": [], "unsaid": [], "idle_since": {}, "stuck_after": 1},
    "collected": {"tasks": 1, "entries": 9, "absent": 0, "missing": None},
    "loaded": {"created": 1, "sent": 1, "refused": 0, "complete": True},
}


def hand_made(
    tmp_path: Path,
    entries: Iterable[tuple[int, Event]] = TAKEN_OVER,
    *,
    run: dict[str, Any] | None = None,
    effects: tuple[int, ...] = (1,),
    fault: bool = True,
    status: Status = Status.TERMINAL,
) -> RunDir:
    """A run of one task with this log, whose tool journalled these starts."""
    made = create_run_dir(tmp_path / "runs", "1")
    made.write_json(RUN, QUIET_RUN if run is None else run)
    log = list(entries)
    bodies = [codec.encode("entry", event) for _, event in log]
    _lines(made, LOG, [LogLine(TASK, n, log[n - 1][0], AT + n * SECOND, bodies[n - 1]) for n in range(1, len(log) + 1)])
    row = _row(status, epoch=max((epoch for epoch, _ in log), default=0), last_seq=len(log))
    _lines(made, FINALS, [FinalLine(TASK, FinalRow(AT + 60 * SECOND, row, stamped=()))])
    _lines(made, ROWS, [FinalRow(AT + 50 * SECOND, row).as_sample()])
    created = OpSent("loader/1", "loader", Verb.CREATE, TASK, AT, hashes=(sha256_text(bodies[0]),) if bodies else ())
    _lines(made, HISTORY, [created, OpAnswered("loader/1", TASK, AT, Answer.OK, number=1)])
    _lines(made, FAULTS, [FaultLine(at=AT, kind="kill", process="w1#1", held=(Held(TASK, 1),))] if fault else [])
    for epoch, worker in ((1, "w1"), (2, "w2")):
        attempts = _appends(log, bodies, epoch, worker)
        made.attempts.joinpath(f"{worker}.1.jsonl").write_bytes(b"".join(map(_line, attempts)))
    journal = [
        Effect(token_of(TASK, "3-0", start), TASK, "3-0", "recoverable", "tag", start, "w1#1", 7, AT / SECOND)
        for start in effects
    ]
    made.journal.joinpath("w1#1.7.effects.jsonl").write_bytes(b"".join(map(_line, journal)))
    return made


def completed() -> Foretold:
    """What a script would have said of the story."""
    return Foretold(TASK, Outcome.COMPLETED, answer="bye")


def _appends(log: list[tuple[int, Event]], bodies: list[str], epoch: int, worker: str) -> list[Attempt]:
    places = [n for n, (found, _) in enumerate(log) if found == epoch]
    if not places:
        return []
    claim = Attempt(
        f"{worker}/1",
        f"{worker}#1",
        f"{worker}-1",
        Verb.CLAIM,
        TASK,
        AT,
        epoch,
        f"token{epoch}",
        lease_until=AT + 100 * SECOND,
        answer=Answer.OK,
        answer_seq=places[0],
    )
    append = Attempt(
        f"{worker}/2",
        f"{worker}#1",
        f"{worker}-1",
        Verb.APPEND,
        TASK,
        AT,
        epoch,
        f"token{epoch}",
        expected_seq=places[0],
        hashes=tuple(sha256_text(bodies[n]) for n in places),
        answer=Answer.OK,
        answer_seq=places[-1] + 1,
    )
    return [claim, append]


def _row(status: Status, *, epoch: int, last_seq: int) -> TaskRow:
    return TaskRow(
        id=TASK,
        queue="storm",
        status=status,
        kept=False,
        epoch=epoch,
        worker=None,
        token=None,
        lease_until=None,
        ready_at=None if status is Status.TERMINAL else AT,
        wake_on=None,
        wake_key=None,
        wake_missing=0,
        inbox_seq=0,
        last_seq=last_seq,
        takeovers=0,
        fail_attempts=0,
        parent=None,
        group=None,
        created_at=AT,
    )


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _lines(run: RunDir, name: str, values: Iterable[object]) -> None:
    run.path(name).write_bytes(b"".join(map(_line, values)))
