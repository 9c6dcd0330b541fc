"""Task rows for tests that look at their status only."""

from __future__ import annotations

from noeta.core.task import Status, TaskRow


def row_of(status: Status) -> TaskRow:
    """A row in this status; the rest is of no interest."""
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
        wake_on=None,
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
