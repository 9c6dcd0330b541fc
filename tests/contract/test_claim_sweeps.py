"""A handle that never finds too little still looks at lapsed leases, again and again.

The stores that run Python decide it alike, by their own clock; the contract asks every store only for a handle's first
look, because some keep the pace by a clock that no test moves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noeta.core.store import NewTask
from tests.contract.factories import MemoryFactory, SqliteFactory

LEASE = 30.0
LEASE_OF_THE_DEAD = 1.0


@pytest.fixture(params=[MemoryFactory, SqliteFactory])
def factory(request: pytest.FixtureRequest) -> Iterator[MemoryFactory | SqliteFactory]:
    made: MemoryFactory | SqliteFactory = request.param()
    yield made
    made.close()


def test_a_constant_backlog_starves_no_lapsed_lease_however_long_the_handle_lives(
    factory: MemoryFactory | SqliteFactory,
) -> None:
    """Keeps: never-stuck."""
    store, clock = factory.make(), factory.clock()
    for n in range(40):
        store.create(NewTask(f"due{n:02d}", "agent", "goal"))
    (first,) = store.claim("busy", None, LEASE).claims
    store.claim("dies", None, LEASE_OF_THE_DEAD)
    swept: list[tuple[float, str]] = []
    for second in range(1, 21):
        clock.advance(1.0)
        answer = store.claim("busy", None, LEASE)
        assert len(answer.claims) == 1
        swept += [(second, id) for id in answer.stale_requeued]

    assert first.task_id == "due00"
    assert swept == [(10, "due01")]  # at the first look after its lapse: a third of a lease after the one before


def test_a_busy_queue_does_not_starve_the_lapsed_leases_of_another_that_the_same_handle_serves(
    factory: MemoryFactory | SqliteFactory,
) -> None:
    """Keeps: never-stuck."""
    store, clock = factory.make(), factory.clock()
    for n in range(60):
        store.create(NewTask(f"busy{n:02d}", "agent", "goal", queue="busy"))
    for n in range(20):
        store.create(NewTask(f"calm{n:02d}", "agent", "goal", queue="calm"))
    store.claim("dies", ["calm"], LEASE_OF_THE_DEAD)
    swept: list[str] = []
    for second in range(1, 26):
        clock.advance(1.0)
        for queue in ("busy", "calm")[: 2 if second % 2 else 1]:
            answer = store.claim("w", [queue], LEASE)
            assert len(answer.claims) == 1
            swept += answer.stale_requeued

    assert swept == ["calm00"]
