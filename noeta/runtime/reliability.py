"""Reliability events: what a worker can prove about its own trouble. Process-local signals, never in a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal[
    "stale_requeued",
    "suspended_without_wake",
    "step_failed_retryable",
    "heartbeat_invalid_lease",
    "shutdown_abandoned",
    "timers_fired",
    "attempt_abandoned",
    "attempt_parked",
]

ONCE: Final[Mapping[str, object]] = {"comes_once": True}
"""``extra=`` of a line that a log with a limit on its lines never leaves out: it says what no other line does."""

_WORDS: Final[Mapping[Kind, str]] = {
    "stale_requeued": "{tasks} may be claimed again, since the leases were over: {task_ids}",
    "timers_fired": "{tasks} may go on, since a timer was due: {task_ids}",
    "suspended_without_wake": "task {task}: claimed, and nothing has come for it: it waits on",
    "step_failed_retryable": "task {task}: its step failed, and is tried again within its bound: {reason}",
    "heartbeat_invalid_lease": "task {task}: this worker lost its claim: {reason}{jobs}",
    "shutdown_abandoned": "task {task}: its step did not end within {grace_s:g} s, and is left to its lease",
    "attempt_abandoned": "task {task}: what was half done from seq {abandoned_from_seq} on is given up ({reason})",
    "attempt_parked": "task {task}: a person is to say how it goes on from seq {abandoned_from_seq} ({reason})",
}
_LOST_JOBS: Final = "; with it {jobs} killed: {names}"
_NEVER_LEFT_OUT: Final[frozenset[Kind]] = frozenset({"heartbeat_invalid_lease", "shutdown_abandoned"})

_log = logging.getLogger("noeta.reliability")


@dataclass(frozen=True, slots=True)
class ReliabilityEvent:
    """One signal. ``detail`` holds what the kind can prove: counts, ids, reasons."""

    kind: Kind
    task_id: str | None = None
    lease_id: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)


ReliabilitySink = Callable[[ReliabilityEvent], None]


def log_reliability(event: ReliabilityEvent) -> None:
    """The default sink: one warning a signal, in words; the record has the signal itself as ``reliability_event``."""
    extra: dict[str, Any] = {"reliability_event": event}
    if event.kind in _NEVER_LEFT_OUT:
        extra |= ONCE
    _log.warning("%s (%s)", words(event), event.kind, extra=extra)


def words(event: ReliabilityEvent) -> str:
    """What a signal says, for a person. Of a lost claim also which ``jobs`` were killed, if its detail names them."""
    found: dict[str, Any] = {"task": event.task_id, **event.detail}
    if event.kind == "heartbeat_invalid_lease":
        names = found.get("jobs", ())
        jobs = "1 background job is" if len(names) == 1 else f"{len(names)} background jobs are"
        found["jobs"] = _LOST_JOBS.format(jobs=jobs, names=", ".join(names)) if names else ""
    if "task_ids" in found:
        found["tasks"] = "1 task" if found["count"] == 1 else f"{found['count']} tasks"
        found["task_ids"] = ", ".join(found["task_ids"])
    return _WORDS[event.kind].format(**found)


def tell(sink: ReliabilitySink | None, event: ReliabilityEvent) -> None:
    """Hand a signal to a sink; a sink's error is logged and never reaches the worker."""
    try:
        (sink or log_reliability)(event)
    except Exception:
        _log.exception("the reliability sink failed on %s", event.kind)
