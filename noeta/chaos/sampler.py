"""Watches task rows from outside while the storm goes on.

A view of its own, small columns. A store that is down, restarts or answers nothing is
waited for: a sampler that died with the store would be blind just when it matters. Only rows that changed
since the last look are written down.
"""

from __future__ import annotations

import threading
from typing import Final

from noeta.chaos.board import Board
from noeta.chaos.evidence_dir import LineWriter
from noeta.chaos.store_view import StoreView, ViewUnavailable
from noeta.core.errors import NoetaError
from noeta.core.task import Status

INTERVAL_SECONDS: Final = 0.1
ENDED_EVERY: Final = 20
"""Ended rows do not change, if all is well; whether they did is looked at every so many samples."""


class Sampler:
    """A thread that puts what it sees on a board and into ``rows.jsonl``."""

    def __init__(self, view: StoreView, board: Board, lines: LineWriter, *, interval: float = INTERVAL_SECONDS) -> None:
        self.board = board
        self.samples = 0
        self.failures = 0
        self.last_failure = ""
        self._view = view
        self._lines = lines
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """End after the look in progress; whether it did in time."""
        self._stop.set()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def look(self, *, all_rows: bool = True) -> None:
        """One sample. For the thread of the sampler, or when it is stopped.

        Raises:
            ViewUnavailable: the store cannot be looked at.
        """
        ended = [] if all_rows else [t for t, seen in self.board.all().items() if seen.sample.status is Status.TERMINAL]
        rows, now = self._view.rows(ended)
        for changed in self.board.show(rows, now):
            self._lines.add(changed.sample)
        self.samples += 1

    def _run(self) -> None:
        looks = 0
        while not self._stop.is_set():
            try:
                self.look(all_rows=looks % ENDED_EVERY == 0)
            except (ViewUnavailable, NoetaError) as error:
                self.failures += 1
                self.last_failure = f"{type(error).__name__}: {error}".strip()
            looks += 1
            self._stop.wait(self._interval)
        self._view.close()
