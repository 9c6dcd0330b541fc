"""Ctrl-C, once and twice: once asks for an orderly stop, twice for an immediate one.

Once: the storm is healed, the evidence collected, the verdict ``unknown (interrupted)`` unless a law is broken.
Twice: a ``KeyboardInterrupt`` in the main thread; everything is killed and removed, the exit code is 130. SIGTERM
counts like Ctrl-C.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Signal handlers for the time of a run; usable with ``with``, in the main thread."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.stop = threading.Event()
        self.count = 0
        self._tell = tell
        self._before: dict[int, Any] = {}

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked to stop."""
        return self.stop.is_set()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.stop.set()
        if self.count > 1:
            raise KeyboardInterrupt
        # Not through a lock: the handler runs in the middle of whatever the main thread was doing.
        threading.Thread(
            target=self._tell,
            args=("interrupted: healing and keeping the evidence; once more to kill everything at once",),
            daemon=True,
        ).start()
