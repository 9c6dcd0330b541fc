"""SIGTERM and SIGINT as a stop request.

The interpreter itself writes the signal's number to a pipe (``signal.set_wakeup_fd``); an activity of its own reads
it and calls ``stop``. A handler in Python would not do: it runs on the main thread once that executes bytecode, and
the kernel may hand the signal to another thread (after SIGSTOP and SIGCONT it mostly does), so that a main thread
that waits without end never hears of it. And one that took a lock could wait for itself.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final, Protocol

STOP_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_log = logging.getLogger("noeta.worker")


class Stoppable(Protocol):
    """Anything that can be told to stop."""

    def stop(self) -> None: ...


def install_stop_signals(loop: Stoppable) -> Callable[[], None]:
    """Make SIGTERM and SIGINT call ``loop.stop()``, each time one comes; returns what puts the old handlers back.

    Off the main thread signals cannot be handled: warns, and returns a function that does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        _log.warning("stop signals can only be installed on the main thread; stop() must be called by hand")
        return lambda: None
    pipe = SignalPipe(STOP_SIGNALS, lambda number: loop.stop())
    pipe.take()
    return pipe.restore


class SignalPipe:
    """Calls ``heard`` on a thread of its own with each of these signals that comes. Main thread only."""

    def __init__(self, numbers: Iterable[int], heard: Callable[[int], None]) -> None:
        self.numbers = frozenset(numbers)
        self._heard = heard
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._writer: int | None = None

    def take(self) -> None:
        """Take the signals; again, if somebody else has taken them meanwhile."""
        if self._writer is None:
            reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            threading.Thread(target=self._read, args=(reader,), name="stop-signals", daemon=True).start()
            os.register_at_fork(after_in_child=self._forget_in_child)
        # Full: the first signal was heard.
        wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        if wakeup != self._writer:
            self._wakeup_before = wakeup
        for number in self.numbers:
            handler = signal.signal(number, self._on_signal)
            if handler != self._on_signal:
                self._before[number] = handler

    def restore(self) -> None:
        """Put back what was there before. A repeat does nothing."""
        if self._writer is None:
            return
        self._put_back(self._wakeup_before)
        writer, self._writer = self._writer, None
        os.close(writer)

    def _put_back(self, wakeup: int) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)

    def _forget_in_child(self) -> None:
        """A child that a tool forks (multiprocessing, say) shares the pipe: a signal for it is not for its parent."""
        if self._writer is not None:
            self._put_back(-1)
            self._writer = None

    def _read(self, reader: int) -> None:
        while numbers := os.read(reader, 64):  # nothing: closed by restore
            for number in numbers:
                if number in self.numbers:
                    try:
                        self._heard(number)
                    except Exception:  # the next one must be heard, too
                        _log.exception("the signal %d was heard, and what it calls failed", number)
        os.close(reader)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Only so that the signal does not end the process."""
