"""Reliability events: what a worker can prove about its own trouble. Process-local signals, never in a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

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
    """The default sink: one structured warning a signal."""
    details = " ".join(f"{key}={value!r}" for key, value in event.detail.items())
    _log.warning("%s task=%s lease=%s %s", event.kind, event.task_id, event.lease_id, details)


def tell(sink: ReliabilitySink | None, event: ReliabilityEvent) -> None:
    """Hand a signal to a sink; a sink's error is logged and never reaches the worker."""
    try:
        (sink or log_reliability)(event)
    except Exception:
        _log.exception("the reliability sink failed on %s", event.kind)
