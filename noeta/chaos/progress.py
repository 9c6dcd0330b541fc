"""Says what a run is doing while it runs: one live line in a terminal, plain lines now and then everywhere else.

In a log of CI a line that rewrites itself is noise, and a run that says nothing for two minutes looks dead.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TextIO

PLAIN_SECONDS: Final = 10.0
"""How often a plain progress says how it stands."""


class Progress(Protocol):
    """What a run tells. For several threads."""

    def line(self, text: str) -> None:
        """Something to keep: it stays on the screen."""
        ...

    def now(self, text: str) -> None:
        """How it stands at this moment."""
        ...

    def close(self) -> None:
        """Nothing more will be told."""
        ...


class PlainProgress:
    """Lines, each flushed at once, so that they are there if we are killed."""

    def __init__(
        self, out: TextIO | None = None, *, every: float = PLAIN_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._every, self._clock = every, clock
        self._lock = threading.Lock()
        self._said_at = clock()

    def line(self, text: str) -> None:
        with self._lock:
            self._said_at = self._clock()
            self._write(text)

    def now(self, text: str) -> None:
        with self._lock:
            if self._clock() - self._said_at >= self._every:
                self._said_at = self._clock()
                self._write(f"  {text}")

    def close(self) -> None:
        pass

    def _write(self, text: str) -> None:
        try:
            self._out.write(text + "\n")
            self._out.flush()
        except BrokenPipeError:
            pass  # `| head` has seen enough; the run goes on, its evidence is on disk


class LiveProgress:
    """A terminal: kept lines above, one line that moves below."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(highlight=False, soft_wrap=True)
        self._status: Any = Status("starting", console=self._console)
        self._status.start()

    def line(self, text: str) -> None:
        self._console.print(text, markup=False)

    def now(self, text: str) -> None:
        from rich.markup import escape

        self._status.update(escape(text))

    def close(self) -> None:
        self._status.stop()


def open_progress(*, is_ci: bool) -> Progress:
    """What fits where the output goes."""
    if is_ci or not sys.stdout.isatty():
        return PlainProgress()
    try:
        return LiveProgress()
    except ImportError:
        return PlainProgress(every=2.0)
