"""Task rows for tests that look at their status and at what they wait for only."""

from __future__ import annotations

from noeta.core.task import Status, TaskRow
from noeta.core.wake import HumanResponseReceived, WakeCondition


def row_of(status: Status, wake_on: WakeCondition | None = None) -> TaskRow:
    """A row in this status; one that is suspended waits for its next goal, unless for something else."""
    if status is Status.SUSPENDED and wake_on is None:
        wake_on = HumanResponseReceived()
    return TaskRow(
        id="t",
        queue="q",
        status=status,
        kept=False,
        epoch=1,
        worker=None,
        token=None,
        lease_until=None,
        ready_at=None,
        wake_on=wake_on,
        wake_key=None,
        wake_missing=0,
        inbox_seq=0,
        last_seq=1,
        takeovers=0,
        fail_attempts=0,
        parent=None,
        group=None,
        created_at=0,
    )
