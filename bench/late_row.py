"""How long a task waits that was committed late: below the bound of claims that went on meanwhile.

A lower bound may hide such a row, and must not for long. Target: two seconds, with no sweep running, whether or
not there is always something else to claim.
"""

from __future__ import annotations

import time
from typing import Final

from bench.bulk import QUEUE, add_pending, store_now
from bench.report import Figure, Target, figure
from bench.site import Place, Places

NAME: Final = "late_row"
SOON: Final = Target("at most", 2.0)
LEASE_SECONDS: Final = 600.0
LATE_MICROS: Final = 30_000_000
POLL_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 10.0
BACKLOG: Final = 20_000


def measure(places: Places, *, quick: bool) -> list[Figure]:
    """Seconds from the late commit to its claim."""
    samples = 2 if quick else 5
    found = []
    for name, word, backlog in (("nothing else to claim", "alone", 0), ("a constant backlog", "backlog", BACKLOG)):
        with places() as place:
            waits = [late(place, f"{word}-{n}", backlog=backlog) for n in range(samples)]
        found.append(figure(NAME, name, "seconds", waits, SOON))
    return found


def late(place: Place, queue: str, *, backlog: int) -> float:
    """One late commit in a queue of its own; ``WAIT_SECONDS_MAX`` if it was not claimed by then."""
    with place.session() as session, place.session(autocommit=False) as writer, place.store() as store:
        queue = f"{QUEUE}-{queue}"
        now = store_now(session)
        add_pending(session, queue, 50 + backlog, apart_micros=100, before=now, queue=queue)
        writer.execute(
            """
            INSERT INTO task (id, queue, status, ready_at, created_at, content_hash)
            VALUES (%s, %s, 'pending', %s, %s, 'bench')
            """,
            [f"late-{queue}", queue, now - LATE_MICROS, now - LATE_MICROS],
        )
        for _ in range(50):  # from now on the bound lies above the late row
            assert store.claim("bench", [queue], LEASE_SECONDS).claims
        writer.commit()
        committed = time.monotonic()
        while (waited := time.monotonic() - committed) < WAIT_SECONDS_MAX:
            found = store.claim("bench", [queue], LEASE_SECONDS).claims
            if any(claim.task_id == f"late-{queue}" for claim in found):
                return time.monotonic() - committed
            if not found:
                time.sleep(POLL_SECONDS)
        return waited
