"""The decisions of the stores that run Python."""

from __future__ import annotations

import pytest

from noeta.core.rules import must_sweep

LEASE = 30_000_000
THIRD = LEASE // 3


@pytest.mark.parametrize(
    ("full", "since_sweep", "sweeps"),
    [
        (False, None, True),
        (False, 0, True),
        (True, None, True),
        (True, 0, False),
        (True, THIRD - 1, False),
        (True, THIRD, True),
        (True, 10 * LEASE, True),
    ],
)
def test_a_claim_sweeps_when_it_finds_too_little_and_once_a_third_of_a_lease(
    full: bool, since_sweep: int | None, sweeps: bool
) -> None:
    """Keeps: never-stuck."""
    now = 1_700_000_000_000_000
    swept_at = None if since_sweep is None else now - since_sweep

    assert must_sweep(full=full, swept_at=swept_at, now=now, lease=LEASE) is sweeps
