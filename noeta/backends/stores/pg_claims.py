"""Where a process looks for claimable tasks first, so that dead index entries are not walked again and again.

While somebody holds an old snapshot, entries of taken tasks stay in the claim index, in front. So a claim
starts one second below the last ``ready_at`` this process took in that queue (a *floor*), and once a second
from the beginning. A floor is a guess about speed, never about correctness: what it hides is found by the next
scan from the beginning. Keeps: never-stuck, waiting-is-free.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

BEGINNING: Final = -(2**63)
"""Below every instant."""

FLOOR_MARGIN_MICROS: Final = 1_000_000
"""Clocks of concurrent transactions, and rows that become ready with an instant a little in the past."""

RESTART_SECONDS: Final = 1.0
"""How often a scan starts from the beginning even if that has become expensive."""

CHEAP_SECONDS: Final = 0.05
"""A call with a scan from the beginning that took less may be repeated at once."""

DEAR_CALLS: Final = 3
"""Slow calls in a row before scans from the beginning are rationed: one slow call says nothing."""

LAPSE_MARGIN_MICROS: Final = 10_000_000
"""A claim under way may still commit a lease that ends before the last probe; statements end sooner than this."""

LAPSE_RESTART_SECONDS: Final = 30.0
"""How often a probe of lapsed leases starts from the beginning."""


@dataclass(frozen=True, slots=True)
class Search:
    """Where one claim call looks."""

    everywhere: bool
    queues: tuple[str, ...]
    floors: tuple[int, ...]
    restart: bool
    probe: bool
    lapse_floor: int


@dataclass(slots=True)
class ClaimBounds:
    """What this process knows about the claim index; shared by its threads."""

    _floors: dict[str, int] = field(default_factory=dict)
    _queues: tuple[str, ...] | None = None
    _restarted_at: float = float("-inf")
    _dear_calls: int = 0
    _probed_at: dict[tuple[str, ...] | None, float] = field(default_factory=dict)
    """By what was asked for: a probe of other queues says nothing about these."""

    _lapse_floor: int = BEGINNING
    _lapse_key: tuple[str, ...] | None = None
    _lapse_restarted_at: float = float("-inf")
    _newest: int = BEGINNING
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def search(self, queues: Sequence[str] | None, lease_seconds: float, now: float) -> Search:
        """Where to look now (``now``: this process's monotonic clock)."""
        with self._lock:
            named = tuple(sorted(set(queues))) if queues is not None else self._queues
            from_beginning = named is None or now - self._restarted_at >= RESTART_SECONDS
            if from_beginning:
                self._restarted_at = now
            # Queues nobody named are found by a restart, which looks them up.
            looks_up = queues is None and from_beginning
            start = () if named is None or looks_up else named
            floors = tuple(BEGINNING if from_beginning else self._floors.get(queue, BEGINNING) for queue in start)
            rationed = self._dear_calls >= DEAR_CALLS
            hides_some = queues is None or any(floor > BEGINNING for floor in floors)
            lapse_key = named if queues is not None else None
            lapse_from_beginning = (
                lapse_key != self._lapse_key or now - self._lapse_restarted_at >= LAPSE_RESTART_SECONDS
            )
            return Search(
                everywhere=queues is None,
                queues=start,
                floors=floors,
                restart=looks_up or (hides_some and not rationed),
                # A constant backlog must not starve reclaims, those of a process that has just started included.
                probe=now - self._probed_at.get(lapse_key, float("-inf")) >= lease_seconds / 3,
                lapse_floor=BEGINNING if lapse_from_beginning else self._lapse_floor,
            )

    def learn(
        self,
        search: Search,
        *,
        floors: Mapping[str, int],
        queues: Sequence[str] | None,
        probed: bool,
        sweeps: bool,
        store_now: int,
        took_seconds: float,
        now: float,
    ) -> None:
        """Take in what a call found. ``sweeps``: it put rows back with an instant in the past."""
        with self._lock:
            if store_now < self._newest - FLOOR_MARGIN_MICROS:
                self._forget()  # the store's clock went back: no floor means anything
                self._newest = store_now
            self._newest = max(self._newest, store_now)  # threads take in their answers out of order
            for queue, floor in floors.items():
                self._floors[queue] = floor - FLOOR_MARGIN_MICROS
            if sweeps:
                self._floors.clear()
            scanned_from_beginning = queues is not None or BEGINNING in search.floors
            if scanned_from_beginning:
                self._dear_calls = 0 if took_seconds < CHEAP_SECONDS else self._dear_calls + 1
                self._restarted_at = now
            if search.everywhere and queues is not None:
                self._queues = tuple(queues)
            if probed:
                self._probed_at[None if search.everywhere else search.queues] = now
                self._learn_probe(search, store_now, now)

    def _learn_probe(self, search: Search, store_now: int, now: float) -> None:
        if search.lapse_floor == BEGINNING:
            self._lapse_restarted_at = now
            self._lapse_key = None if search.everywhere else search.queues
        self._lapse_floor = store_now - LAPSE_MARGIN_MICROS

    def forget_floors(self) -> None:
        """This process made rows ready with an instant in the past."""
        with self._lock:
            self._floors.clear()

    def note_queue(self, queue: str) -> None:
        """This process made a task in this queue: a queue nobody knew is looked for at once."""
        with self._lock:
            if self._queues is not None and queue not in self._queues:
                self._queues = None

    def _forget(self) -> None:
        self._floors.clear()
        self._lapse_floor = BEGINNING
        self._lapse_restarted_at = float("-inf")
